"""Adoption: Parquet files of other programs become a lake table."""
