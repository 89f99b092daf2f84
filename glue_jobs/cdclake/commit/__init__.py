"""The change log of a lake table: commit, publish, roll forward. No Spark; Python 3.9."""
