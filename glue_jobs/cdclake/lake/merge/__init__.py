"""Merges change rows into the lake's data files: find, resolve, rewrite."""
