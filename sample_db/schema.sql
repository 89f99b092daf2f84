-- The sample shop for MySQL or MariaDB: the tables that `cdclake demo` and `cdclake local sample` play the source of.
-- DMS replicates changes only of tables with a primary key, and only with binlog_format=ROW on the server.

create database if not exists shop character set utf8mb4;
use shop;

create table store (
  id int not null primary key,
  address1 varchar(200),
  city varchar(100),
  state varchar(50),
  country varchar(50),
  zip varchar(20)
);

create table product (
  id int not null primary key,
  name varchar(200),
  dept varchar(100),
  category varchar(100),
  price decimal(10,2),
  weightkg double,
  discontinued boolean
);

create table productorder (
  id bigint not null primary key,
  productid int,
  storeid int,
  quantity int,
  unitprice decimal(10,2),
  orderdate date,
  createdat datetime(6),
  gift boolean,
  note text
);
