"""The lake's own files: rows, keys, data files and tombstones. No Spark."""
