"""Shared by all job scripts: arguments, results and exit codes."""
