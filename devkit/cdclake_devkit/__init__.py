"""Tools for a laptop: an embedded AWS, sample data, and a stand-in for DMS. None of it runs on AWS."""
