"""Packs cdclake for the places where it runs. The same sources give the same bytes, so nothing is deployed twice.

Each place takes its library in a form of its own:

* Glue's Python shell: a wheel, which it installs with pip, and pip wants a valid file name.
  https://docs.aws.amazon.com/glue/latest/dg/add-job-python.html
* Glue's Spark jobs: a zip archive with the package at its root, put on the path of driver and executors.
  https://docs.aws.amazon.com/glue/latest/dg/aws-glue-programming-python-libraries.html
* Lambda: a folder with handler, package and the libraries that the runtime lacks.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import shutil
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import cdclake
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PACKAGE = Path(cdclake.__file__).resolve().parent
JOBS = PACKAGE.parent
ROOT = JOBS.parent
ON_RAW_FILE = ROOT / "lambdas" / "on_raw_file"

NOT_DEPLOYED = frozenset({"cli", "console", "devkit", "doctor", "loopback.py", "oracle.py"})
"""What runs on an operator's machine only."""
SPARK_ONLY = frozenset({"lake"})
"""What needs Spark and Python 3.11, so Glue's Python shell and Lambda go without it."""
SHIPPED_WITH_FUNCTION = ("aws-lambda-powertools", "jmespath", "typing-extensions")
"""The function's library, and what that needs. They are pure Python, and copied from where the tests use them."""
_OF_THE_INSTALLER = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"})
_EPOCH = (1980, 1, 1, 0, 0, 0)
_TAG = "py3-none-any"


class CodeFile(NamedTuple):
    """A script or a packed library.

    Attributes:
        path: The file.
        name: A name for it in S3, without the extension; changes with the content.
    """

    path: Path
    name: str


def pinned(*names: str) -> str:
    """The project's own pins of some libraries, as Glue takes them: `boto3==1.42.97,pyarrow==26.0.1`.

    Raises:
        ConfigurationError: pyproject.toml does not pin one of them.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    pins = {line.partition("==")[0]: line for line in lines}
    missing = [name for name in names if "==" not in pins.get(name, "")]
    if missing:
        message = f"pyproject.toml does not pin {', '.join(missing)}"
        raise ConfigurationError(message, remedy="Pin it with == in dependencies or in the extra spark")
    return ",".join(pins[name] for name in names)


def build_wheel(folder: Path) -> CodeFile:
    """Pack what the Python shell jobs import, as a wheel.

    It names no dependencies, as the jobs are told theirs by their arguments.

    Args:
        folder: Where to write it; made if need be.
    """
    files = _read(_sources(NOT_DEPLOYED | SPARK_ONLY))
    version = cdclake.__version__
    # The build number, which must begin with a digit, makes the name differ as the content does.
    build = f"0{_digest(files)}"
    name = f"cdclake-{version}-{build}-{_TAG}"
    about = f"cdclake-{version}.dist-info"
    files[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: cdclake\nVersion: {version}\n".encode()
    wheel = f"Wheel-Version: 1.0\nGenerator: cdclake\nRoot-Is-Purelib: true\nTag: {_TAG}\nBuild: {build}\n"
    files[f"{about}/WHEEL"] = wheel.encode()
    record = [f"{path},sha256={_record_hash(data)},{len(data)}" for path, data in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*record, f"{about}/RECORD,,", ""]).encode()
    return CodeFile(_zip(folder / f"{name}.whl", files), name)


def build_zip(folder: Path) -> CodeFile:
    """Pack what the Spark jobs import.

    Args:
        folder: Where to write it; made if need be.
    """
    files = _read(_sources(NOT_DEPLOYED))
    name = f"cdclake-{cdclake.__version__}-{_digest(files)}"
    return CodeFile(_zip(folder / f"{name}.zip", files), name)


def copy_script(file: str, folder: Path) -> CodeFile:
    """Copy the script of a job.

    Args:
        file: Its name, e.g. `controller.py`.
        folder: Where to; made if need be.
    """
    source = JOBS / file
    folder.mkdir(parents=True, exist_ok=True)
    return CodeFile(Path(shutil.copyfile(source, folder / file)), f"{source.stem}-{_digest(_read([source]))}")


def build_function(folder: Path) -> None:
    """Lay out the Lambda function's code.

    Args:
        folder: Empty.
    """
    _copy(ON_RAW_FILE / "handler.py", folder / "handler.py")
    for source in _sources(NOT_DEPLOYED | SPARK_ONLY):
        _copy(source, folder / source.relative_to(JOBS))
    for name in SHIPPED_WITH_FUNCTION:
        for source, relative in _installed_files(name):
            _copy(source, folder / relative)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _installed_files(name: str) -> Iterable[tuple[Path, Path]]:
    """Files of an installed library and where they belong, without what is not the same everywhere.

    Raises:
        ConfigurationError: It is installed in another version than the project's pin.
    """
    library = importlib.metadata.distribution(name)
    pin = _pins_of_lock().get(name)
    if library.version != pin:
        message = f"{name} is installed as {library.version}, and pinned as {pin}"
        raise ConfigurationError(message, remedy="Install what requirements.txt says")
    for file in library.files or ():
        if ".." not in file.parts and file.suffix != ".pyc" and file.name not in _OF_THE_INSTALLER:
            yield Path(str(file.locate())), Path(str(file))


def _pins_of_lock() -> dict[str, str]:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def _sources(without: frozenset[str]) -> list[Path]:
    """Files of the package, in the order of their paths, without some of the rooms and modules at its root."""
    return [
        path
        for path in sorted(PACKAGE.rglob("*"))
        if path.is_file() and path.suffix != ".pyc" and path.relative_to(PACKAGE).parts[0] not in without
    ]


def _read(sources: Iterable[Path]) -> dict[str, bytes]:
    return {path.relative_to(JOBS).as_posix(): path.read_bytes() for path in sources}


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, data in files.items():
        digest.update(f"{path}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()[:16]


def _record_hash(data: bytes) -> str:
    """As wheels write it: https://packaging.python.org/en/latest/specifications/recording-installed-packages/."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _zip(target: Path, files: Mapping[str, bytes]) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return target
