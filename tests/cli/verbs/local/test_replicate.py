"""The verbs that need a database server, as far as they go without one."""

from __future__ import annotations

import pytest

from cdclake.cli.verbs.local.replicate import SETTINGS
from cdclake.devkit.dms.settings import BeforeImages, DataFormat, settings_from
from cdclake.devkit.shop import mariadb


def test_without_a_server_the_sample_database_is_skipped(cdclake, monkeypatch, tmp_path):
    monkeypatch.setattr(mariadb, "_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    result = cdclake.ok("local", "sample-db")
    assert "Skipped: there is no MariaDB server" in result.output
    assert "apt-get install" in result.output


def test_the_default_settings_equal_those_of_the_sample_task():
    settings = settings_from(SETTINGS)
    assert (settings.data_format, settings.before_images) == (DataFormat.PARQUET, BeforeImages.PRIMARY_KEY)
    assert settings.header_columns == ("AR_H_CHANGE_SEQ",)


@pytest.mark.parametrize("setting", ["NoSuchThing=1", "DataFormat=avro", "CdcMaxBatchInterval=0"])
def test_settings_that_dms_does_not_have_are_refused(cdclake, tmp_path, setting):
    error = cdclake.refused("local", "replicate", "shop", "--folder", str(tmp_path), "--set", setting)
    assert setting.partition("=")[0] in error


def test_an_unreachable_source_asks_to_run_again(cdclake, tmp_path):
    result = cdclake("local", "replicate", "shop", "--folder", str(tmp_path), "--socket", str(tmp_path / "none"))
    assert result.exit_code == 4
    assert list(tmp_path.iterdir()) == []
