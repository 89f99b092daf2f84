"""Reads the raw files that DMS writes, and converts their rows to change rows. No Spark."""
