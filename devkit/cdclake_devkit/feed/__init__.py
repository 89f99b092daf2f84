"""Generates DMS files of any size without a database, and the lake table they must produce."""
