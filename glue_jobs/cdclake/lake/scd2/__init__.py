"""Keeps the history of a table: its row versions (SCD type 2)."""
