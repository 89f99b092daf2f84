"""Direct changes: a user inserts, updates or deletes rows of a lake table."""
