"""The console: web pages for one person, over the same state and by the same code as the `cdclake` command."""
