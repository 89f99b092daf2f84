"""Keeps the history of a table: the versions of its rows (SCD type 2)."""
