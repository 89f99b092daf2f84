"""Carries out plans: starts runs, holds leases, waits for Spark jobs, updates items of the state table."""
