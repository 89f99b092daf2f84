"""The console: web pages for one operator, with the same state and code as the `cdclake` command."""
