"""Decides what to do and does it: Controller and ProcessTable. No Spark, no AWS; Python 3.9."""
