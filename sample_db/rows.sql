-- What the sample shop starts with. Run it once, after schema.sql.

insert into store (id, address1, city, state, country, zip) values
  (1001, '12 Harbour St.', 'Seattle', 'WA', 'US', '98101'),
  (1002, '8 Mission Ave.', 'San Diego', 'CA', 'US', '92101'),
  (1003, '77 Canal Rd.', 'Austin', 'TX', 'US', '73301');

insert into product (id, name, dept, category, price, weightkg, discontinued) values
  (1001, 'Desk lamp', 'Home', 'Lighting', 39.90, 1.4, false),
  (1002, 'Rain coat', 'Clothing', 'Outdoor', 89.00, 0.6, false),
  (1003, 'Chess set', 'Toys', 'Games', 24.50, 0.9, false),
  (1004, 'Tea pot', 'Home', 'Kitchen', 31.25, 1.1, true);

insert into productorder (id, productid, storeid, quantity, unitprice, orderdate, createdat, gift, note)
  with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 900)
  select n, 1001 + n % 4, 1001 + n % 3, 1 + n % 5, 9.90 + n % 4,
    case n % 3 when 0 then '2024-03-01' when 1 then '2024-03-02' else '2024-03-03' end,
    '2024-03-03 10:00:00', n % 7 = 0, null
  from numbers;
