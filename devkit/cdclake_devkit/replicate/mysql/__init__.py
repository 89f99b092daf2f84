"""Reads MySQL and MariaDB: tables and snapshots by SQL, changes from the binlog."""
