"""Packs cdclake and its libraries for each runtime.

The same sources give the same bytes, so what has not changed is not deployed again.

* Glue's Python shell takes wheels as `--extra-py-files`; it takes none from S3 as `--additional-python-modules`.
  https://docs.aws.amazon.com/glue/latest/dg/add-job-python.html
  It runs `pip install --target=<folder> <wheel>` for each one. So pip needs a valid file name, and would look for a
  wheel's dependencies in a package index. https://github.com/aws/aws-cdk/issues/20481
  Therefore all libraries are in one wheel without dependencies.
* Glue's Spark jobs take a zip archive with the package at its root, which is on the path of driver and executors, and
  a zip archive of wheels, from which pip installs with `--no-index`.
  https://docs.aws.amazon.com/glue/latest/dg/aws-glue-programming-python-libraries.html
* Lambda takes a folder with the handler, the package and the libraries that the runtime lacks. The function of small
  changes has compiled libraries, for another machine than this one, so it gets an archive made from wheels.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import cdclake
from cdclake.control.jobs.libraries import LIBRARIES, PINS_FILE
from cdclake.errors import ConfigurationError
from cdclake_infra.trim import is_needed
from cdclake_infra.wheels import CACHE, PYTHON_SHELL, SMALL_CHANGES, SPARK, fetch, pins

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cdclake_infra.wheels import Runtime

PACKAGE = Path(cdclake.__file__).resolve().parent
JOBS = PACKAGE.parent
ROOT = JOBS.parent
ON_RAW_FILE, SMALL_CHANGE = ROOT / "lambdas" / "on_raw_file", ROOT / "lambdas" / "small_changes"
HANDLER = "handler.py"

SPARK_ONLY = frozenset({"lake", "lake_table.py"})
"""Needs Spark and Python 3.11 or later; left out for Glue's Python shell and Lambda."""
SHELL_LIBRARIES = ("boto3", "botocore")
SPARK_LIBRARIES = (*SHELL_LIBRARIES, "numpy", "pyarrow", "xxhash")
"""The libraries whose versions the jobs check at start, because Glue has them too, or because the lake needs them."""
FUNCTION_LIBRARIES = ("aws-lambda-powertools", "jmespath", "typing-extensions")
"""The function's library and its dependencies: pure Python, copied from the environment that the tests run in."""
_INSTALLER_FILES = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"})
_EPOCH = (1980, 1, 1, 0, 0, 0)
_TAG = "py3-none-any"


class CodeFile(NamedTuple):
    """A script or a packed library.

    Attributes:
        path: The file.
        name: The file's name in S3, without its last extension; changes with the content.
    """

    path: Path
    name: str


def build_wheel(folder: Path) -> CodeFile:
    """Pack the package of the Python shell jobs as a wheel.

    Args:
        folder: Where to write the wheel; created if needed.
    """
    files = {**_read(_sources(SPARK_ONLY)), **_pins(PYTHON_SHELL, SHELL_LIBRARIES)}
    return _wheel(folder, PACKAGE.name, files)


def build_zip(folder: Path) -> CodeFile:
    """Pack the package of the Spark jobs.

    Args:
        folder: Where to write the archive; created if needed.
    """
    files = {**_read(_sources()), **_pins(SPARK, SPARK_LIBRARIES)}
    name = f"{PACKAGE.name}-{cdclake.__version__}-{_digest(files)}"
    return CodeFile(_zip(folder / f"{name}.zip", files), name)


def build_shell_libraries(folder: Path) -> CodeFile:
    """Pack the libraries of the Python shell jobs as one wheel with one folder, which the jobs put on their path.

    Args:
        folder: Where to write the wheel; created if needed.

    Raises:
        ConfigurationError: A library cannot be downloaded, or differs from its hash.
    """
    files = {}
    for wheel in fetch(PYTHON_SHELL):
        files.update({f"{LIBRARIES}/{path}": data for path, data in _unpacked(wheel)})
    return _wheel(folder, LIBRARIES, files)


def build_spark_libraries(folder: Path, runtime: Runtime) -> CodeFile:
    """Pack the wheels of the Spark jobs as Glue's "zip of wheels", with its file name and layout.

    https://docs.aws.amazon.com/glue/latest/dg/aws-glue-programming-python-libraries.html, appendix A

    Args:
        folder: Where to write the archive; created if needed.
        runtime: `SPARK` or `SPARK_4`.

    Raises:
        ConfigurationError: A library cannot be downloaded, or differs from its hash.
    """
    requirements = "".join(f"{pin.name}=={pin.version}\n" for pin in pins(runtime))
    files = {"wheels/requirements.txt": requirements.encode()}
    files.update({f"wheels/{wheel.name}": wheel.read_bytes() for wheel in fetch(runtime)})
    name = f"{LIBRARIES}-{_digest(files)}.gluewheels"
    return CodeFile(_zip(folder / f"{name}.zip", files, zipfile.ZIP_STORED), name)


def copy_script(file: str, folder: Path) -> CodeFile:
    """Copy the script of a job.

    Args:
        file: File name of the script, e.g. `controller.py`.
        folder: Target folder; created if needed.
    """
    source = JOBS / file
    folder.mkdir(parents=True, exist_ok=True)
    return CodeFile(Path(shutil.copyfile(source, folder / file)), f"{source.stem}-{_digest(_read([source]))}")


def build_function(folder: Path) -> None:
    """Collect the Lambda function's code.

    Args:
        folder: Empty target folder.
    """
    _copy(ON_RAW_FILE / HANDLER, folder / HANDLER)
    for source in _sources(SPARK_ONLY):
        _copy(source, folder / source.relative_to(JOBS))
    for name in FUNCTION_LIBRARIES:
        for source, relative in _installed_files(name):
            _copy(source, folder / relative)


def build_small_changes(folder: Path, runtime: Runtime = SMALL_CHANGES, cache: Path = CACHE) -> CodeFile:
    """Pack the code of the function of small changes: its handler, the package, and what it needs of the libraries.

    To compress it takes seconds, so the newest archive stays beside the wheels until the content changes.

    Args:
        folder: Where to write the archive; created if needed.
        runtime: Another runtime, to try the archive where Lambda's does not run.
        cache: Folder of the wheels and of the archive.

    Raises:
        ConfigurationError: A library cannot be downloaded, or differs from its hash.
    """
    files = {HANDLER: (SMALL_CHANGE / HANDLER).read_bytes(), **_read(_sources())}
    for wheel in fetch(runtime, cache):
        files.update({path: data for path, data in _unpacked(wheel) if is_needed(path)})
    name = f"{runtime.name}-{cdclake.__version__}-{_digest(files)}"
    target, packed = folder / f"{name}.zip", cache / runtime.name / f"{name}.zip"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(packed, target)
    except FileNotFoundError:
        _zip(target, files)
        _keep(target, packed)
    return CodeFile(target, name)


def _keep(archive: Path, packed: Path) -> None:
    """Keep an archive instead of earlier ones. It appears at once, because other processes may read it."""
    for earlier in packed.parent.glob("*.zip"):
        earlier.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=packed.parent) as temporary:
        Path(shutil.copyfile(archive, Path(temporary) / packed.name)).replace(packed)


def _unpacked(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a wheel, with their paths in it."""
    with zipfile.ZipFile(wheel) as archive:
        for path in archive.namelist():
            if not path.endswith("/"):
                yield path, archive.read(path)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _installed_files(name: str) -> Iterable[tuple[Path, Path]]:
    """Files of an installed library and their relative paths, without files that differ between machines.

    Raises:
        ConfigurationError: The installed version differs from the project's pin.
    """
    library = importlib.metadata.distribution(name)
    pin = _pins_of_lock().get(name)
    if library.version != pin:
        message = f"{name} is installed as {library.version}, but pinned as {pin}"
        raise ConfigurationError(message, remedy="Install the versions in requirements.txt")
    for file in library.files or ():
        if ".." not in file.parts and file.suffix != ".pyc" and file.name not in _INSTALLER_FILES:
            yield Path(str(file.locate())), Path(str(file))


def _pins_of_lock() -> dict[str, str]:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def _pins(runtime: Runtime, names: Iterable[str]) -> dict[str, bytes]:
    """The file with which a job checks its libraries."""
    versions = {pin.name: pin.version for pin in pins(runtime)}
    return {f"{PACKAGE.name}/{PINS_FILE}": json.dumps({name: versions[name] for name in names}).encode()}


def _sources(without: frozenset[str] = frozenset()) -> list[Path]:
    """Files of the package in path order, without some of its top-level packages and modules."""
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


def _wheel(folder: Path, package: str, files: Mapping[str, bytes]) -> CodeFile:
    """Pack files as a wheel of pure Python that declares no dependencies."""
    version = cdclake.__version__
    # The build number must start with a digit; it makes the name change with the content.
    build = f"0{_digest(files)}"
    name = f"{package}-{version}-{build}-{_TAG}"
    dist_info = f"{package}-{version}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: cdclake\nRoot-Is-Purelib: true\nTag: {_TAG}\nBuild: {build}\n"
    files = {
        **files,
        f"{dist_info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n".encode(),
        f"{dist_info}/WHEEL": wheel.encode(),
    }
    record = [f"{path},sha256={_record_hash(data)},{len(data)}" for path, data in files.items()]
    files[f"{dist_info}/RECORD"] = "\n".join([*record, f"{dist_info}/RECORD,,", ""]).encode()
    return CodeFile(_zip(folder / f"{name}.whl", files), name)


def _record_hash(data: bytes) -> str:
    """Format: https://packaging.python.org/en/latest/specifications/recording-installed-packages/."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _zip(target: Path, files: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w") as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, compression)
    return target
