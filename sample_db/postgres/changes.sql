-- The changes of AWS's walkthrough "Load ongoing data lake changes with AWS DMS and AWS Glue": rename a product, delete
-- another, insert a day of orders and a store. Run it once, after the full load has reached the lake.

set search_path = shop;

update product set name = 'Sample Product', dept = 'Sample Dept', category = 'Sample Category' where id = 1001;

delete from product where id = 1002;

call loadorders(1345, current_date);

insert into store values (1009, '125 Technology Dr.', 'Irvine', 'CA', 'US', '92618');
