-- The sample shop for MySQL (8.0 or later) or MariaDB (10.5 or later): a database `shop`, its tables and procedures.
--
-- `cdclake demo` and `cdclake local sample` simulate the first three tables in memory. `stock` adds a key of several
-- columns, and the types that only a real database has.
--
-- DMS replicates changes only for tables with a primary key, and only if the server has binlog_format=ROW.

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
  discontinued bit(1)
);

create table productorder (
  id bigint not null primary key,
  productid int,
  storeid int,
  quantity int,
  unitprice decimal(10,2),
  orderdate date,
  createdat datetime(6),
  gift bit(1),
  note text
);

create table stock (
  storeid int not null,
  productid int not null,
  shelf enum('front', 'back', 'cold room', 'größer') not null default 'front',
  quantity int unsigned not null,
  reserved tinyint not null default 0,
  serial bigint unsigned,
  flags set('fragile', 'heavy', 'returned'),
  layout bit(12),
  ratio float,
  firstyear year,
  opens time(3),
  counted timestamp(6) null,
  label char(8),
  remark varchar(60) character set latin1,
  details json,
  photo varbinary(64),
  primary key (storeid, productid)
);

-- Inserts orders that are spread evenly over the days of a period. Their values depend only on their ids, so the same
-- calls produce the same orders. At most a million orders per call.
create procedure loadperiod(in orders int, in firstday date, in days int)
  insert into productorder (id, productid, storeid, quantity, unitprice, orderdate, createdat, gift, note)
  with recursive digits (n) as (select 0 union all select n + 1 from digits where n < 999),
    last (id) as (select coalesce(max(id), 0) from productorder),
    ids (n, id) as (
      select high.n * 1000 + low.n, last.id + high.n * 1000 + low.n + 1
      from digits high join digits low join last
      where high.n * 1000 < orders and high.n * 1000 + low.n < orders
    )
  select
    id,
    1001 + crc32(concat('product', id)) % 1000,
    1001 + crc32(concat('store', id)) % 8,
    1 + crc32(concat('quantity', id)) % 9,
    (99 + crc32(concat('price', id)) % 49901) / 100,
    firstday + interval (n * days div orders) day,
    timestamp(firstday + interval (n * days div orders) day)
      + interval crc32(concat('second', id)) % 86400 second + interval crc32(id) % 1000000 microsecond,
    if(crc32(concat('gift', id)) % 20 = 0, null, crc32(concat('gift', id)) % 3 = 0),
    if(crc32(concat('note', id)) % 10 > 0, null, elt(1 + crc32(id) % 9,
      'leave at the door', 'said "call first", twice', 'line one\nline two', 'Größe L, façade side', '日本語のメモ', '🎁 wrap it',
      '', 'NULL', 'back\\slash and\ttab'))
  from ids;

-- The procedure that the walkthrough calls: inserts the orders of one day.
create procedure loadorders(in orders int, in day date)
  call loadperiod(orders, day, 1);
