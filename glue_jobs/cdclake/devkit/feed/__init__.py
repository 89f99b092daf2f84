"""Made-up DMS feeds without a database, of any size, and what a table must hold after them."""
