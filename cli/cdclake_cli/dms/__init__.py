"""DMS file formats: a task's settings, the names of its files and their bytes."""
