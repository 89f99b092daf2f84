"""What a table is as an Apache Iceberg table: ids and types of columns, and manifests. Pure data."""
