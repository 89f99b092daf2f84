"""The actors: what happens from outside, and what runs on account of it."""
