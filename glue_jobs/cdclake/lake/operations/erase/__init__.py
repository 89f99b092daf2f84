"""Erasure: rows of a key are taken out of everything that is kept of a table. `erase` is where it begins."""
