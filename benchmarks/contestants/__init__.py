"""Those that are measured. Each works in a fresh process of its own."""
