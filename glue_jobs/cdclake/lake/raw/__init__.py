"""Reads the raw files that DMS writes, and turns their rows into change rows. No Spark."""
