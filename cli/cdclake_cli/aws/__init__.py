"""Connects the command to AWS."""
