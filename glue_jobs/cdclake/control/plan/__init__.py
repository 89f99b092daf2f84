"""Decides what to do for each table. Planning changes nothing."""
