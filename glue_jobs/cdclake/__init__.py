"""cdclake keeps a data lake on S3 equal to the databases behind it, from the files AWS DMS writes."""

__version__ = "0.1.0"
