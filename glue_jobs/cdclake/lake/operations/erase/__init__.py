"""Erasure: removes the rows of some keys from everything that is kept of a table. The entry point is `erase.erase`."""
