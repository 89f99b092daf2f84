"""The data work: Spark distributes, Arrow reads, merges and writes."""
