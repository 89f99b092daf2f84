"""Comparing the rows of two tables of any size, whatever they are."""
