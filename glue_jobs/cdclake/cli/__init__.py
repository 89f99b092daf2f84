"""The `cdclake` command."""
