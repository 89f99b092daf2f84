-- The initial rows of the sample shop. Run it once, after schema.sql. The same number of orders produces the same rows:
--
--   psql -d shop -v orders=300000 -f sample_db/postgres/rows.sql

\if :{?orders}
\else
  \set orders 900
\endif
set search_path = shop;

insert into store (id, address1, city, state, country, zip) values
  (1001, '1 Main Street', 'Cambridge', 'MA', 'US', '02139'),
  (1002, '410 Terry Ave N', 'Seattle', 'WA', 'US', '98109'),
  (1003, e'Unit "B", 7 Rue de l’Église\nCour intérieure', 'Montréal', 'QC', 'CA', 'H2Y 1C6'),
  (1004, 'Königsallee 60', 'Düsseldorf', null, 'DE', '40212'),
  (1005, '千代田区丸の内1-1', '東京', null, 'JP', '100-0005'),
  (1006, '12, Harbour View', 'Hamilton', null, 'BM', null),
  (1007, '', 'Agawam', 'MA', 'US', '01001'),
  (1008, 'O''Hare Terminal 5', 'Chicago', 'IL', 'US', '60666');

insert into product (id, name, dept, category, price, weightkg, discontinued)
  select 1001 + n, 'Product ' || 1001 + n,
    (array['Garden', 'Garden', 'Kitchen', 'Kitchen', 'Bücher'])[1 + n % 5],
    (array['Hoses', 'Pots & Planters', 'Knives, forks', null, 'Krimi'])[1 + n % 5],
    (99 + hash('price' || n) % 49901) / 100.0,
    case when n % 10 > 0 then hash('weight' || n) / 171798691.84::double precision end,
    n % 20 = 0
  from generate_series(0, 999) n;

insert into stock (storeid, productid, shelf, quantity, reserved, serial, flags, layout, ratio, share, worth, code, lasts,
    opens, counted, label, remark, details, photo, net)
  select 1001 + store, 1001 + n, (array['front', 'back', 'cold room', 'größer'])[1 + n % 4]::shelf, n * 37, n % 256 - 128,
    18446744073709551615 - n, (array[null, '{}', '{heavy}', '{fragile,"it''s, returned",NULL}'])[1 + n % 4]::text[],
    (n * 41)::bit(12), n / 7::real, n % 101, (n * 100003 / 100.0)::numeric::money, md5(n::text)::uuid,
    make_interval(n % 3, n % 12, 0, n % 28, n % 24, n % 60, n / 7.0),
    time '00:00' + make_interval(secs => n * 31 + n / 1000.0),
    timestamptz '2024-01-01 00:00:00+00' + make_interval(mins => n * 977, secs => n / 1e6),
    'L' || n, case when n % 3 > 0 then 'Café à la carte' end,
    format('{"shelf": %s, "tags": ["ü", null]}', n)::jsonb, decode(md5(n::text), 'hex'), inet '10.0.0.0' + n
  from generate_series(0, 99) n, generate_series(0, 2) store;

call loadperiod(:orders, '2024-01-01', 90);
