"""Source databases: connecting, reading their catalogs and rows, and comparing lake tables with them."""
