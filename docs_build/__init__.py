"""Builds the documents: pages generated from the code, and the site. Not deployed."""
