"""The change log of a lake table: commit, publish, undo, clean up."""
