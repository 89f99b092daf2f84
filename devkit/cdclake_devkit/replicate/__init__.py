"""A stand-in for AWS DMS on this machine: replicates a MySQL or MariaDB database to the files that DMS would write."""
