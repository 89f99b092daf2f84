"""Proposes types, the null text and a key for CSV files, whose columns are text until Schema declares them."""
