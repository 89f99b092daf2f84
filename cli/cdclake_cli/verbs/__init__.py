"""One module for each verb of the `cdclake` command."""
