"""Proposes settings of tables from a source's catalog, DMS's settings and mappings, and raw files."""
