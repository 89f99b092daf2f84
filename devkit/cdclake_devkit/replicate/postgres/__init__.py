"""Reads PostgreSQL: tables and snapshots by SQL, changes by logical decoding."""
