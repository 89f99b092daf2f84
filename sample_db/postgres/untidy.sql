-- Changes as in practice: transactions, savepoints and rollbacks, keys that change, one statement that changes many rows,
-- many statements that change one row, added columns. Run it once, after changes.sql.
--
-- It pauses between the parts, so that their changes reach the raw bucket in different files.

set search_path = shop;

-- One transaction over three tables, and one that is rolled back.
begin;
insert into productorder values
  (10000001, 1003, 1001, 2, 19.99, '2024-04-01', '2024-04-01 09:00:00.000001', true, e'it''s "special", naïve\n🎁');
update stock set quantity = quantity - 2, reserved = reserved + 1 where storeid = 1001 and productid = 1003;
update product set price = 19.99 where id = 1003;
commit;

begin;
insert into productorder values (10000002, 1004, 1001, 1, 1.00, '2024-04-01', null, null, 'never ordered');
delete from stock where storeid = 1002;
update store set city = 'nowhere';
rollback;

-- A transaction that is partly rolled back.
begin;
insert into productorder values (10000003, 1005, 1002, 3, 5.00, '2024-04-01', null, false, 'before the savepoint');
savepoint half;
insert into productorder values (10000004, 1005, 1002, 3, 5.00, '2024-04-01', null, false, 'after it');
update productorder set note = 'taken back' where id <= 100;
rollback to savepoint half;
update productorder set quantity = 4 where id = 10000003;
commit;

do $$ begin perform pg_sleep(4); end $$;

-- Many statements on one row, in one transaction and in several.
begin;
insert into store values (2001, 'first', 'A', null, null, null);
update store set address1 = 'second' where id = 2001;
update store set address1 = 'third', zip = '00000' where id = 2001;
commit;
delete from store where id = 2001;
insert into store values (2001, 'again', 'B', '', '', 'NULL');
begin;
insert into store values (2002, 'here and gone', 'C', null, null, null);
delete from store where id = 2002;
commit;
begin;
delete from store where id = 1009;
insert into store values (1009, 'gone and here', 'Irvine', 'CA', 'US', '92618');
update store set zip = null where id = 1009;
commit;

-- Keys that change: one, many at once, two that are swapped, part of a key of two columns, and one that changes back.
update product set id = 901001 where id = 1001;
update productorder set id = id + 20000000 where id between 200 and 400;
begin;
update store set id = -1 where id = 1003;
update store set id = 1003 where id = 1004;
update store set id = 1004 where id = -1;
commit;
update stock set storeid = 1009 where storeid = 1003 and productid % 2 = 0;
update stock set productid = productid + 5000, shelf = 'cold room' where storeid = 1002;
update product set id = 999999 where id = 1010;
update product set id = 1010, name = 'home again' where id = 999999;
insert into product values (1001, 'a new one of an old key', null, null, null, null, null);

do $$ begin perform pg_sleep(4); end $$;

-- Statements over many rows and several tables; orders that move to other days, and a day whose orders are deleted.
update productorder set unitprice = product.price from product
  where product.id = productorder.productid and product.dept = 'Kitchen' and productorder.id % 13 = 0;
update productorder set orderdate = orderdate - 1, note = concat(note, ' moved') where id % 29 = 0;
delete from productorder where orderdate = '2024-02-01';
with gone as (delete from productorder using stock
    where stock.storeid = productorder.storeid and stock.productid = productorder.productid and id % 3 = 0
    returning stock.storeid, stock.productid)
  delete from stock using gone where stock.storeid = gone.storeid and stock.productid = gone.productid;
insert into stock (storeid, productid, quantity) values (1001, 1050, 7), (1008, 1050, 8)
  on conflict (storeid, productid) do update set quantity = stock.quantity + 1000, remark = 'counted twice';
insert into store values (1001, '1 Main Street', 'Cambridge', 'MA', 'US', '02139-0001'), (2003, 'new', null, null, null, null)
  on conflict (id) do update set zip = excluded.zip;
insert into productorder select id + 30000000, productid, storeid, quantity, null, '2024-04-02', createdat, gift, note
  from productorder where id <= 50;

-- Extreme values of each type, and nulls.
update stock set quantity = 9223372036854775807, reserved = -32768, serial = 0, flags = '{{a},{NULL}}',
    layout = b'111111111111', ratio = '-Infinity', share = 100, worth = '-92233720368547758.08', lasts = '-178000000 years',
    opens = '23:59:59.999', counted = '9999-12-31 23:59:59.999999+00', label = '', remark = '', details = 'null',
    photo = '\x00ff00', net = '::1/128'
  where storeid = 1001 and productid = 1001;
update stock set serial = null, flags = null, layout = null, ratio = null, share = null, worth = null, code = null,
    lasts = null, opens = null, counted = null, label = null, remark = null, details = null, photo = null, net = null
  where storeid = 1001 and productid = 1002;
update stock set ratio = 'NaN', counted = '0001-01-01 00:00:00+00' where storeid = 1001 and productid = 1004;
update product set price = -99999999.99, weightkg = 1e-300 where id = 1020;

do $$ begin perform pg_sleep(4); end $$;

-- Added columns that are used at once, and columns that are widened.
alter table product add column origin varchar(40), add column checked timestamp(3);
update product set origin = case when id % 2 = 0 then 'Côte d’Ivoire' end, checked = '2024-04-03 10:11:12.013' where id % 4 = 0;
insert into product (id, name, origin) values (3001, 'with a place it comes from', 'here');
alter table store add column openedon date;
update store set openedon = '1999-12-31' where country = 'US';
alter table stock alter column reserved type int;
update stock set reserved = 1000000 where productid % 10 = 0;
alter table product alter column price type decimal(14,2);
update product set price = 123456789012.34 where id = 1030;
delete from product where id = 1021;

do $$ begin perform pg_sleep(4); end $$;

-- Orders of two more days, and finally a large transaction.
call loadorders(500, '2024-04-04');
call loadorders(500, '2024-04-05');
begin;
update productorder set quantity = quantity + 1 where id % 7 = 0;
update productorder set gift = null where id % 7 = 0 and id % 11 = 0;
delete from productorder where id % 101 = 0;
commit;
