"""Reads and writes the lake's own files: data files and tombstones. No Spark."""
