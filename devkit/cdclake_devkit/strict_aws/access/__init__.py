"""Roles: which permissions a request needs, and whether the caller's policies grant them."""
