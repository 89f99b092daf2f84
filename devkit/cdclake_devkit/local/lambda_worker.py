"""The process of a Lambda function: reads events from standard input, one JSON object per line, and prints answers.

It is run by path, with the function's code folder as working directory and `_HANDLER` (`<module>.<function>`) in the
environment. A request is `{"request_id", "deadline_ms", "event"}`; an answer is `{"result"}`, or `{"error"}` with
Lambda's error object. The handler's own output goes to standard error, so that it cannot corrupt the answers.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Context:
    """The context object that Lambda passes to a handler."""

    aws_request_id: str
    deadline_ms: int
    function_name: str
    function_version: str
    invoked_function_arn: str
    memory_limit_in_mb: str
    log_group_name: str

    def get_remaining_time_in_millis(self) -> int:
        """Time until the function is killed."""
        return max(0, self.deadline_ms - round(time.time() * 1000))


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.path.insert(0, str(Path.cwd()))
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")
        answers.flush()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        # The import is inside the block, because a module that fails to load is answered like a handler that raises.
        module, _, function = os.environ["_HANDLER"].rpartition(".")
        handler = getattr(importlib.import_module(module.replace("/", ".")), function)
        result = handler(request["event"], _context(request))
        json.dumps(result)
    except Exception as error:  # noqa: BLE001  the answer contains it, as in Lambda
        traceback.print_exc()
        return {
            "error": {
                "errorMessage": str(error),
                "errorType": type(error).__name__,
                "requestId": request["request_id"],
                "stackTrace": traceback.format_tb(error.__traceback__),
            }
        }
    return {"result": result}


def _context(request: dict[str, Any]) -> Context:
    return Context(
        aws_request_id=request["request_id"],
        deadline_ms=request["deadline_ms"],
        function_name=os.environ["AWS_LAMBDA_FUNCTION_NAME"],
        function_version=os.environ["AWS_LAMBDA_FUNCTION_VERSION"],
        invoked_function_arn=os.environ["CDCLAKE_LAMBDA_ARN"],
        memory_limit_in_mb=os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"],
        log_group_name=os.environ["AWS_LAMBDA_LOG_GROUP_NAME"],
    )


if __name__ == "__main__":
    main()
