"""AWS DMS's side of the raw bucket: its settings, the names of its files and their bytes."""
