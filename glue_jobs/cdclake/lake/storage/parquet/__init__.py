"""The footers of Parquet files, whoever wrote them."""
