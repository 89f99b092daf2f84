"""Compares the engine with its alternatives, on the same machine and the same data."""
