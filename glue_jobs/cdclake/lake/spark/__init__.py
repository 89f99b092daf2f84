"""Runs tasks on Spark, or in this process alone."""
