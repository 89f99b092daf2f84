"""Looks at the raw files of a table: what DMS was told, what is unsafe about it, and how to mend that."""
