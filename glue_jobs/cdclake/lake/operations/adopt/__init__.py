"""Adoption: Parquet files that other jobs wrote become a lake table."""
