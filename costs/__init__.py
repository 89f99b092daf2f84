"""Estimates what a deployment costs, from hours that the deployed code lives through on the embedded AWS."""
