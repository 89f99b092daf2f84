"""Guesses how CSV files are written: delimiters, quoting, header and the text for null."""
