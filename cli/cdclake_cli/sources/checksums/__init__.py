"""Checksums of tables, which the source's server and this process compute alike, so that equal rows are not sent.

Rows are divided into buckets by their keys. For each bucket both sides count the rows and add up a checksum of each.
Only rows of buckets that differ are read and compared. A wrong checksum can only cost rows that are read in vain, as
long as different values have different texts: `ChecksumSql.text` has none for a column where that is not certain.
"""
