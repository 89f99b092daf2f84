"""Faults put into the product on purpose, each of which a test must catch. `make mutation-check` tries them all."""
