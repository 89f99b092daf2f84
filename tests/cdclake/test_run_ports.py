"""A run is connected to what its arguments name."""

from __future__ import annotations

from cdclake.adapters.catalog import GlueCatalog
from cdclake.adapters.lineage import HttpLineage
from cdclake.control.run.run_arguments import RunArguments
from cdclake.run_ports import open_ports

ARGV = ["--paths", '["raw/shop/orders/"]', "--out_bucket", "lake", "--out_prefix", ""]


def test_without_a_database_there_is_no_catalog_and_without_a_url_no_lineage(aws: None):
    none = open_ports(RunArguments.parse(ARGV))
    assert (none.catalog, none.lineage) == (None, None)
    argv = [*ARGV, "--catalog_database", "cdclake", "--lineage_url", "http://marquez:5000/"]
    both = open_ports(RunArguments.parse(argv))
    assert isinstance(both.catalog, GlueCatalog)
    assert both.catalog.database == "cdclake"
    assert isinstance(both.lineage, HttpLineage)
