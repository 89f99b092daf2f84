"""The verbs of `cdclake local`: what runs on this machine alone."""
