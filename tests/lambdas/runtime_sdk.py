"""Writes which parameters the function's operations have in the botocore of Lambda's runtime.

    pip download --no-deps botocore==1.30.1
    python -m tests.lambdas.runtime_sdk botocore-1.30.1-py3-none-any.whl

The function uses the runtime's botocore. AWS updates it, and does not promise a version
(https://docs.aws.amazon.com/lambda/latest/dg/lambda-python.html#python-sdk-included). 1.30.1 is of July 2023, when the
runtime for Python 3.11 appeared; that no region has an older one is not measured.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

FILE = Path(__file__).with_suffix(".json")
MODELS = {"dynamodb": "2012-08-10", "glue": "2017-03-31"}
OPERATIONS = {"dynamodb": ("GetItem", "PutItem", "Scan", "UpdateItem"), "glue": ("GetJobRun", "StartJobRun")}
"""What the function calls, by service."""


def main(wheel: Path) -> None:
    """Write the file from a wheel of botocore."""
    with zipfile.ZipFile(wheel) as archive:
        models = {
            service: json.loads(archive.read(f"botocore/data/{service}/{version}/service-2.json"))
            for service, version in MODELS.items()
        }
    parameters = {
        f"{service}.{name}": sorted(model["shapes"][model["operations"][name]["input"]["shape"]]["members"])
        for service, model in models.items()
        for name in OPERATIONS[service]
    }
    FILE.write_text(json.dumps({"source": wheel.name, "parameters": parameters}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
