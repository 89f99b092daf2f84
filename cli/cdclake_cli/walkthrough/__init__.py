"""Checks what the jobs of AWS's walkthrough keep, and whether their tables can become lake tables as they are."""
