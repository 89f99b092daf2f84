"""The sample shop, its source databases and the demonstrations."""
