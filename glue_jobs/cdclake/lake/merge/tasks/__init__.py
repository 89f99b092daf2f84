"""The functions that Spark tasks run. They take and return plain values and Arrow IPC, and do not know Spark."""
