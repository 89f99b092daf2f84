"""Metadata of Iceberg tables: what readers of such a table open first."""
