"""Tests of tables that readers open as Apache Iceberg tables."""
