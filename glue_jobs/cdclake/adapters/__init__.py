"""The ports of `cdclake.ports` on AWS, on a plain folder and in memory."""
