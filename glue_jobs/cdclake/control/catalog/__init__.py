"""Keeps the Glue Data Catalog up to date with the lake."""
