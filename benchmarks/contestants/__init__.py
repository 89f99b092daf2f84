"""The contestants: cdclake and its alternatives. Each runs in its own process."""
