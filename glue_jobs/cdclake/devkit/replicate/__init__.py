"""A stand-in for AWS DMS on this machine: a MySQL or MariaDB database as the files that DMS would write of it."""
