-- The initial rows of the sample shop. Run it once, after schema.sql. The same number of orders produces the same rows:
--
--   mysql shop -e "set @orders = 300000; source sample_db/rows.sql"

set @orders = coalesce(@orders, 900);

insert into store (id, address1, city, state, country, zip) values
  (1001, '1 Main Street', 'Cambridge', 'MA', 'US', '02139'),
  (1002, '410 Terry Ave N', 'Seattle', 'WA', 'US', '98109'),
  (1003, 'Unit "B", 7 Rue de l’Église\nCour intérieure', 'Montréal', 'QC', 'CA', 'H2Y 1C6'),
  (1004, 'Königsallee 60', 'Düsseldorf', null, 'DE', '40212'),
  (1005, '千代田区丸の内1-1', '東京', null, 'JP', '100-0005'),
  (1006, '12, Harbour View', 'Hamilton', null, 'BM', null),
  (1007, '', 'Agawam', 'MA', 'US', '01001'),
  (1008, 'O''Hare Terminal 5', 'Chicago', 'IL', 'US', '60666');

insert into product (id, name, dept, category, price, weightkg, discontinued)
  with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < 999)
  select 1001 + n, concat('Product ', 1001 + n),
    elt(1 + n % 5, 'Garden', 'Garden', 'Kitchen', 'Kitchen', 'Bücher'),
    elt(1 + n % 5, 'Hoses', 'Pots & Planters', 'Knives, forks', null, 'Krimi'),
    (99 + crc32(concat('price', n)) % 49901) / 100,
    if(n % 10 = 0, null, crc32(concat('weight', n)) / 171798691.84e0),
    n % 20 = 0
  from numbers;

insert into stock (storeid, productid, shelf, quantity, reserved, serial, flags, layout, ratio, firstyear, opens, counted,
    label, remark, details, photo)
  with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < 99)
  select 1001 + store, 1001 + n, elt(1 + n % 4, 'front', 'back', 'cold room', 'größer'), n * 37, n % 256 - 128,
    18446744073709551615 - n, elt(1 + n % 4, null, '', 'heavy', 'fragile,returned'), n * 41, n / 7, 1901 + n,
    sec_to_time(n * 31 - 1500) + interval n microsecond,
    timestamp '2024-01-01 00:00:00' + interval n * 977 minute + interval n microsecond,
    concat('L', n), if(n % 3 = 0, null, 'Café à la carte'), concat('{"shelf": ', n, ', "tags": ["ü", null]}'),
    unhex(sha1(n))
  from numbers join (select 0 as store union all select 1 union all select 2) stores;

call loadperiod(@orders, '2024-01-01', 90);
