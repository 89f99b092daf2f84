-- Changes of every kind, for when the full load is in the lake. Run it once.

update product set name = 'Sample Product', dept = 'Sample Dept', category = 'Sample Category' where id = 1001;
delete from product where id = 1002;

insert into productorder (id, productid, storeid, quantity, unitprice, orderdate, createdat, gift, note)
  with recursive numbers (n) as (select 901 union all select n + 1 from numbers where n < 1000)
  select n, 1003, 1002, 1, 24.50, '2024-03-04', '2024-03-04 10:00:00', false, 'second load'
  from numbers;

insert into store (id, address1, city, state, country, zip) values
  (1009, '125 Technology Dr.', 'Irvine', 'CA', 'US', '92618');
