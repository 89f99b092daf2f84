"""Tools for a laptop: an embedded AWS, sample data, and a DMS simulator. None of it runs on AWS."""
