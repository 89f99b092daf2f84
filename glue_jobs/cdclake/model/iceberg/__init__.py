"""What a table is as an Apache Iceberg table: ids of columns, types and metadata. Pure data."""
