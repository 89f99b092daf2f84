-- Changes as in practice: transactions, savepoints and rollbacks, keys that change, one statement that changes many rows,
-- many statements that change one row, added columns. Run it once, after changes.sql.
--
-- It pauses between the parts, so that their changes reach the raw bucket in different files.

-- One transaction over three tables, and one that is rolled back.
start transaction;
insert into productorder values
  (10000001, 1003, 1001, 2, 19.99, '2024-04-01', '2024-04-01 09:00:00.000001', true, 'it''s "special", naïve\n🎁');
update stock set quantity = quantity - 2, reserved = reserved + 1 where storeid = 1001 and productid = 1003;
update product set price = 19.99 where id = 1003;
commit;

start transaction;
insert into productorder values (10000002, 1004, 1001, 1, 1.00, '2024-04-01', null, null, 'never ordered');
delete from stock where storeid = 1002;
update store set city = 'nowhere';
rollback;

-- A transaction that is partly rolled back.
start transaction;
insert into productorder values (10000003, 1005, 1002, 3, 5.00, '2024-04-01', null, false, 'before the savepoint');
savepoint half;
insert into productorder values (10000004, 1005, 1002, 3, 5.00, '2024-04-01', null, false, 'after it');
update productorder set note = 'taken back' where id <= 100;
rollback to savepoint half;
update productorder set quantity = 4 where id = 10000003;
commit;

do sleep(4);

-- Many statements on one row, in one transaction and in several.
start transaction;
insert into store values (2001, 'first', 'A', null, null, null);
update store set address1 = 'second' where id = 2001;
update store set address1 = 'third', zip = '00000' where id = 2001;
commit;
delete from store where id = 2001;
insert into store values (2001, 'again', 'B', '', '', 'NULL');
start transaction;
insert into store values (2002, 'here and gone', 'C', null, null, null);
delete from store where id = 2002;
commit;
start transaction;
delete from store where id = 1009;
insert into store values (1009, 'gone and here', 'Irvine', 'CA', 'US', '92618');
update store set zip = null where id = 1009;
commit;

-- Keys that change: one, many at once, two that are swapped, part of a key of two columns, and one that changes back.
update product set id = 901001 where id = 1001;
update productorder set id = id + 20000000 where id between 200 and 400;
start transaction;
update store set id = -1 where id = 1003;
update store set id = 1003 where id = 1004;
update store set id = 1004 where id = -1;
commit;
update stock set storeid = 1009 where storeid = 1003 and productid % 2 = 0;
update stock set productid = productid + 5000, shelf = 'cold room' where storeid = 1002 order by productid desc;
update product set id = 999999 where id = 1010;
update product set id = 1010, name = 'home again' where id = 999999;
insert into product values (1001, 'a new one of an old key', null, null, null, null, null);

do sleep(4);

-- Statements over many rows and several tables; orders that move to other days, and a day whose orders are deleted.
update productorder join product on product.id = productorder.productid
  set productorder.unitprice = product.price, product.discontinued = false
  where product.dept = 'Kitchen' and productorder.id % 13 = 0;
update productorder set orderdate = orderdate - interval 1 day, note = concat(coalesce(note, ''), ' moved') where id % 29 = 0;
delete from productorder where orderdate = '2024-02-01';
delete productorder, stock from productorder join stock using (storeid, productid) where productorder.id % 3 = 0;
insert into stock (storeid, productid, quantity) values (1001, 1050, 7), (1008, 1050, 8)
  on duplicate key update quantity = quantity + 1000, remark = 'counted twice';
replace into store values (1001, '1 Main Street', 'Cambridge', 'MA', 'US', '02139-0001'), (2003, 'new by replace', null, null, null, null);
insert into productorder select id + 30000000, productid, storeid, quantity, null, '2024-04-02', createdat, gift, note
  from productorder where id <= 50;

-- Extreme values of each type, and nulls.
update stock set quantity = 4294967295, reserved = -128, serial = 0, flags = 'fragile,heavy,returned', layout = b'111111111111',
    ratio = -1e30, firstyear = 2155, opens = '-838:59:59.999', counted = '2038-01-01 00:00:00.999999', label = '',
    remark = '', details = '[]', photo = x'00ff00'
  where storeid = 1001 and productid = 1001;
update stock set serial = null, flags = null, layout = null, ratio = null, firstyear = null, opens = null, counted = null,
    label = null, remark = null, details = null, photo = null
  where storeid = 1001 and productid = 1002;
update product set price = -99999999.99, weightkg = 1e-300 where id = 1020;

do sleep(4);

-- Added columns that are used at once, and a column that is widened.
alter table product add column origin varchar(40), add column checked datetime(3);
update product set origin = if(id % 2 = 0, 'Côte d’Ivoire', null), checked = '2024-04-03 10:11:12.013' where id % 4 = 0;
insert into product (id, name, origin) values (3001, 'with a place it comes from', 'here');
alter table store add column openedon date;
update store set openedon = '1999-12-31' where country = 'US';
alter table stock modify reserved int not null default 0;
update stock set reserved = 1000000 where productid % 10 = 0;
delete from product where id = 1021;

do sleep(4);

-- Orders of two more days, and finally a large transaction.
call loadorders(500, '2024-04-04');
call loadorders(500, '2024-04-05');
start transaction;
update productorder set quantity = quantity + 1 where id % 7 = 0;
update productorder set gift = null where id % 7 = 0 and id % 11 = 0;
delete from productorder where id % 101 = 0;
commit;
