"""cdclake keeps a data lake on S3 equal to its source databases, from the files that AWS DMS writes."""

__version__ = "0.1.0"
