"""Merges change rows into data files: find existing rows, resolve, rewrite."""
