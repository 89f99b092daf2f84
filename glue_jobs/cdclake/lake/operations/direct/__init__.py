"""Direct changes: rows that a person inserts, updates or deletes."""
