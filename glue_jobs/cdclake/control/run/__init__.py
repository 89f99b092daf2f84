"""Carries a plan out: starts runs, holds leases, waits for Spark jobs, updates state items."""
