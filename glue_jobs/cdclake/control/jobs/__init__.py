"""What every job script needs: its arguments, its result and its exit code."""
