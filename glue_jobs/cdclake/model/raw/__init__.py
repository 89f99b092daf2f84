"""Raw files: their names, kinds and order. Pure."""
