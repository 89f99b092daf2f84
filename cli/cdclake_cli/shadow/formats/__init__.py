"""Tables of other formats, read as they are at one moment: Delta, Hudi, Iceberg, and folders of Parquet files."""
