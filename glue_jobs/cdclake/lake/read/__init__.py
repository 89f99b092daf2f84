"""Reads a lake table as of any retained change: rows, differences, versions of a key."""
