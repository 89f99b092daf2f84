"""Raw files: their names, kinds and order, and the ledger of those that a table contains. Pure."""
