"""The functions that Spark tasks run. They do not know Spark."""
