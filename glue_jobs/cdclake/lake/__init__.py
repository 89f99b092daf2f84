"""The work on rows: Spark distributes it; Arrow reads, merges and writes."""
