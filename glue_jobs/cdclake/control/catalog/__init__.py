"""Keeps the Glue Data Catalog equal to the lake."""
