"""Any database that SQLAlchemy knows, such as Oracle and SQL Server: its catalog, and rows to compare."""
