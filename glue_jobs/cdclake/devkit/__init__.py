"""Tools for a laptop: an embedded AWS, sample data, and stand-ins for DMS. None of it runs on AWS."""
