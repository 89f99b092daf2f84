"""The file of settings: its values, which the context overrides, and its mistakes with their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.errors import ConfigurationError
from cdclake_infra.build import build_app
from cdclake_infra.settings import Settings
from cdclake_infra.settings_file import SETTINGS_FILE, with_settings_file
from tests import ROOT
from tests.infra.test_settings import DOCUMENT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cdclake-deploy.yml"


def test_values_of_all_kinds_are_read(file: Path):
    file.write_text(
        "raw_prefix: dms\nschedule_enabled: false\nlag_alarm_minutes: 60\nglue_version: 6.0\nkms_key_arn:\n"
        "lake_retention_days: null\nschedule: cron(0/5 * * * ? *)\ntags: {CostCenter: 0711, live: yes}\n",
        encoding="utf-8",
    )
    assert Settings.from_context(with_settings_file({}, file)) == Settings(
        raw_prefix="dms",
        schedule_enabled=False,
        lag_alarm_minutes=60,
        glue_version="6.0",
        schedule="cron(0/5 * * * ? *)",
        tags=(("CostCenter", "0711"), ("live", "yes")),
    )


def test_the_documented_file_is_valid(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAKE_KEY", "arn:aws:kms:eu-central-1:123456789012:key/1234abcd")
    file.write_text(DOCUMENT.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    settings = Settings.from_context(with_settings_file({}, file))
    assert settings.kms_key_arn.endswith("key/1234abcd")
    assert settings.tags == (("CostCenter", "4711"), ("Owner", "data"))


def test_the_context_wins_and_the_rest_of_it_stays(file: Path):
    file.write_text("raw_prefix: dms\nlake_prefix: wrong*\n", encoding="utf-8")
    context = {"cdclake:lake_prefix": "lake", "@aws-cdk/flag": True}
    assert with_settings_file(context, file) == {**context, "cdclake:raw_prefix": "dms"}


def test_another_file_is_read_in_place_of_the_usual_one(file: Path, tmp_path: Path):
    file.write_text("raw_prefix: dms\n", encoding="utf-8")
    other = tmp_path / "acme.yml"
    other.write_text("lake_prefix: lake\n", encoding="utf-8")
    assert with_settings_file({"cdclake:settings": str(other)}, file) == {"cdclake:lake_prefix": "lake"}


def test_the_usual_file_may_be_missing_but_no_file_that_is_named(file: Path):
    assert with_settings_file({"cdclake:catalog": "false"}, file) == {"cdclake:catalog": "false"}
    assert with_settings_file({}, None) == {}
    for name in (f"{file}.yml", str(file), ""):
        with pytest.raises(ConfigurationError, match="The file of settings is not there"):
            with_settings_file({"cdclake:settings": name}, file)
    file.symlink_to("nowhere.yml")
    with pytest.raises(ConfigurationError, match="The file of settings is not there"):
        with_settings_file({}, file)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}\n"])
def test_nothing_in_a_file_sets_nothing(file: Path, text: str):
    file.write_text(text, encoding="utf-8")
    assert with_settings_file({}, file) == {}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("catalog: true\nraw_prefx: dms\n", 2, ["There is no setting raw_prefx", "Did you mean raw_prefix?"]),
        ("cdclake:raw_prefix: dms\n", 1, ["no setting cdclake:raw_prefix", "Did you mean raw_prefix?"]),
        ("settings: other.yml\n", 1, ["There is no setting settings"]),
        ("\nlake_prefix: lake?\n", 2, ["The setting cdclake:lake_prefix is 'lake?'", "It must be letters"]),
        ("catalog: true\nmost_workers: many\n", 2, ["cdclake:most_workers is 'many'", "a whole number"]),
        ("worker_type: [G.1X]\n", 1, ["cdclake:worker_type", "one value"]),
        ("catalog: true\ntags:\n  aws:owner: data\n", 2, ["cdclake:tags", "do not begin with aws:"]),
        ("tags:\n- Owner\n", 1, ["cdclake:tags", "a mapping, or Key=Value"]),
        ("catalog: true\nvpc_id: vpc-01234567\nsubnet_id: 1\n", 3, ["cdclake:subnet_id is '1'"]),
        ("catalog: true\ncatalog: false\n", 2, ["catalog is there twice"]),
        ("raw_prefix: $STAGE\n", 1, ["A $ stands alone"]),
        ("lake_prefix: ${NO_SUCH_NAME}\n", 1, ["The environment variable NO_SUCH_NAME is not set"]),
        ("- catalog\n", 1, ["There are no settings in it", "Write setting: value"]),
        ("catalog: true\nschedule: @daily\n", 2, ["The file is not YAML"]),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(file: Path, text: str, line: int, words: list[str]):
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as error:
        with_settings_file({}, file)
    assert [word for word in words if word not in str(error.value)] == []
    assert error.value.details == {"file": file, "line": line}


def test_a_mistake_of_the_context_has_no_line(file: Path):
    file.write_text("raw_prefix: dms\n", encoding="utf-8")
    for name in ("raw_prefix", "lake_prefix"):
        with pytest.raises(ConfigurationError, match=f"cdclake:{name} is 'wrong") as error:
            with_settings_file({f"cdclake:{name}": "wrong*"}, file)
        assert error.value.details == {}
        assert error.value.code == "ConfigurationError"


def test_every_unknown_name_is_told_at_once(file: Path):
    file.write_text("raw_prefx: dms\ncatalog: true\nworker: G.1X\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"has 2 mistakes: line 1: .*; line 3: There is no setting worker"):
        with_settings_file({}, file)


def test_the_stacks_are_built_with_it(file: Path, tmp_path: Path):
    file.write_text("name_prefix: acme-\nlake_prefx: lake\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"lake_prefx .*line 2\)"):
        build_app({}, tmp_path, settings_file=file)
    with pytest.raises(ConfigurationError, match=r"lake_prefx .*line 2\)"):
        build_app({"cdclake:settings": str(file)}, tmp_path)


def test_git_ignores_it():
    assert SETTINGS_FILE == ROOT / "cdclake-deploy.yml"
    assert "/cdclake-deploy*.yml" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
