"""Histories of SQL on real databases, replicated and merged: the lake must equal `SELECT *`."""
