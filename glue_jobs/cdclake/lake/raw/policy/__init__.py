"""Treats the columns of raw files that the attribute `ColumnPolicy` names."""
