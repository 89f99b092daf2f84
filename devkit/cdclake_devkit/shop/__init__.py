"""The sample shop: a source in memory and in MariaDB, and the demos that run it through the whole pipeline."""
