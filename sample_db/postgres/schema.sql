-- The sample shop for PostgreSQL (12 or later): a schema `shop`, its tables and procedures. Run it in a new database.
--
-- The tables are those of ../schema.sql, with PostgreSQL's types. DMS replicates updates and deletes only of tables
-- with a primary key, and only if the server has wal_level=logical.

create schema shop;
set search_path = shop;

create type shelf as enum ('front', 'back', 'cold room', 'größer');
create domain percentage as numeric(5,2) check (value between 0 and 100);

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
  weightkg double precision,
  discontinued boolean
);

create table productorder (
  id bigint not null primary key,
  productid int,
  storeid int,
  quantity int,
  unitprice decimal(10,2),
  orderdate date,
  createdat timestamp(6),
  gift boolean,
  note text
);

create table stock (
  storeid int not null,
  productid int not null,
  shelf shelf not null default 'front',
  quantity bigint not null,
  reserved smallint not null default 0,
  serial numeric(20),
  flags text[],
  layout bit(12),
  ratio real,
  share percentage,
  worth money,
  code uuid,
  lasts interval,
  opens time(3),
  counted timestamptz(6),
  label char(8),
  remark varchar(60),
  details jsonb,
  photo bytea,
  net inet,
  primary key (storeid, productid)
);

-- A number from 0 to 4294967295 that depends only on a text.
create function hash(text text) returns bigint language sql immutable
  as $$ select ('x' || left(md5(text), 8))::bit(32)::bigint $$;

-- Inserts orders that are spread evenly over the days of a period. Their values depend only on their ids, so the same
-- calls produce the same orders.
create procedure loadperiod(orders int, firstday date, days int) language sql as $$
  insert into shop.productorder (id, productid, storeid, quantity, unitprice, orderdate, createdat, gift, note)
  select
    id,
    1001 + shop.hash('product' || id) % 1000,
    1001 + shop.hash('store' || id) % 8,
    1 + shop.hash('quantity' || id) % 9,
    (99 + shop.hash('price' || id) % 49901) / 100.0,
    firstday + (n::bigint * days / orders)::int,
    firstday + (n::bigint * days / orders)::int
      + make_interval(secs => shop.hash('second' || id) % 86400 + shop.hash(id::text) % 1000000 / 1e6),
    case when shop.hash('gift' || id) % 20 > 0 then shop.hash('gift' || id) % 3 = 0 end,
    case when shop.hash('note' || id) % 10 = 0 then (array['leave at the door', 'said "call first", twice',
      e'line one\nline two', 'Größe L, façade side', '日本語のメモ', '🎁 wrap it', '', 'NULL',
      e'back\\slash and\ttab'])[1 + shop.hash(id::text) % 9] end
  from (
    select n::int, coalesce(last.id, 0) + n + 1 as id
    from generate_series(0, orders - 1) n, (select max(id) as id from shop.productorder) last
  ) ids
$$;

-- The procedure that the walkthrough calls: inserts the orders of one day.
create procedure loadorders(orders int, day date) language sql
  as $$ call shop.loadperiod(orders, day, 1) $$;
