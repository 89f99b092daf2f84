"""Reads a lake table as of any change: rows, differences, versions of a key."""
