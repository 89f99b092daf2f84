"""Decides what is to be done and sees that it is: Controller and ProcessTable. No Spark, no AWS; Python 3.9."""
