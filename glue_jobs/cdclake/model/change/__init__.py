"""A change of a table: its record in the change log, and its books."""
