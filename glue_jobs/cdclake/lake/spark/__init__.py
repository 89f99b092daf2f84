"""Where lake work runs: on Spark, or in this process."""
