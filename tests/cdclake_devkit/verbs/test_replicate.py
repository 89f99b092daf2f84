"""The verbs that need a database server, as far as they go without one."""

from __future__ import annotations

import pytest

from cdclake_cli.dms.settings import BeforeImages, DataFormat, settings_from
from cdclake_devkit.shop import mariadb, postgresql
from cdclake_devkit.verbs.replicate import SETTINGS


def test_without_a_server_the_sample_database_is_skipped(cdclake, monkeypatch, tmp_path):
    monkeypatch.setattr(mariadb, "program", lambda *_: None)
    monkeypatch.setattr(postgresql, "_folders", list)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = cdclake.ok("local", "sample-db")
    for product, package in {"MariaDB": "mariadb-server", "PostgreSQL": "postgresql"}.items():
        assert f"Skipped: there is no {product} server" in result.output
        assert f"apt-get install -y --no-install-recommends {package}" in result.output


def test_the_default_settings_equal_those_of_the_sample_task():
    settings = settings_from(SETTINGS)
    assert (settings.data_format, settings.before_images) == (DataFormat.PARQUET, BeforeImages.PRIMARY_KEY)
    assert settings.header_columns == ("AR_H_CHANGE_SEQ",)


@pytest.mark.parametrize("setting", ["NoSuchThing=1", "DataFormat=avro", "CdcMaxBatchInterval=0"])
def test_settings_that_dms_does_not_have_are_refused(cdclake, tmp_path, setting):
    error = cdclake.refused("local", "replicate", "shop", "--folder", str(tmp_path), "--set", setting)
    assert setting.partition("=")[0] in error


@pytest.mark.parametrize("engine", ["mysql", "postgres"])
def test_an_unreachable_source_asks_to_run_again(cdclake, tmp_path, engine):
    place = ("--folder", str(tmp_path), "--socket", str(tmp_path / "none"))
    assert cdclake("local", "replicate", "shop", "--engine", engine, *place).exit_code == 4
    assert list(tmp_path.iterdir()) == []


def test_an_option_file_is_refused_for_postgresql(cdclake, tmp_path):
    file = tmp_path / "my.cnf"
    file.touch()
    error = cdclake.refused("local", "replicate", "shop", "--engine", "postgres", "--option-file", str(file))
    assert "--option-file is a file of MySQL" in error
