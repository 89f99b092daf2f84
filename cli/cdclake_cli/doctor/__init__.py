"""Checks a table's raw files: which settings DMS wrote them with, what is wrong or unsafe, and how to fix it."""
