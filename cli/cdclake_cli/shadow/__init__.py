"""Compares lake tables with tables that another job keeps from the same source."""
