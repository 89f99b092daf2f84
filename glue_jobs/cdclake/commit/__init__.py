"""The change log of a lake table: commit, publish, undo and clean up. No Spark; Python 3.9."""
