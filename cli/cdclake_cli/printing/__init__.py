"""What a command prints: tables, JSON, progress, and one line if its output is lost."""
