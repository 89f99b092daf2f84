"""Measures the engine beside what users would pick instead, on the same machine and the same data."""
