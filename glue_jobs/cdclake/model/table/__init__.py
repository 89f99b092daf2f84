"""A source table: its name, its settings, and its item in the state table."""
