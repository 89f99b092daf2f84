"""A pytest plugin: at the end, prints the rules, the calls that reached the embedded AWS, and the faults survived."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from moto.core.botocore_stubber import BotocoreStubber

from cdclake_devkit.local.web import RequestGuard
from cdclake_devkit.strict_aws import RULES
from cdclake_devkit.strict_aws.calls import call_of_environ, gated_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIEnvironment

    from cdclake_devkit.strict_aws.calls import Call

CALLS, FAULTS = "calls of AWS", "faults of AWS"
"""User properties of a test: numbers of calls and of injected faults, by name."""
RULES_WITH_PARAMETERS = ("faults by number or rate", "expired credentials")


@pytest.fixture(autouse=True)
def _counted(monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]) -> None:
    calls: dict[str, int] = {}  # no Counter, which xdist cannot send
    record_property(CALLS, calls)  # the same object, which the test fills

    def observe(call: Call) -> None:
        if call.service:
            name = f"{call.service} {call.operation}"
            calls[name] = calls.get(name, 0) + 1

    serve = RequestGuard.__call__

    def counted(guard: RequestGuard, environ: WSGIEnvironment, start_response: Any) -> Any:
        observe(call_of_environ(environ))
        return serve(guard, environ, start_response)

    monkeypatch.setattr(BotocoreStubber, "process_request", gated_process(BotocoreStubber.process_request, observe))
    monkeypatch.setattr(RequestGuard, "__call__", counted)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the summary."""
    write = terminalreporter.line
    calls: Counter[str] = Counter()
    survived: Counter[str] = Counter()
    not_survived: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):  # one a test, of its call
            for name, counts in report.user_properties:
                if name == CALLS:
                    calls.update(counts)
                elif name == FAULTS:
                    (survived if outcome == "passed" else not_survived).update(counts)
    terminalreporter.section("an AWS as strict as the real one")
    write(f"{len(RULES)} rules in every test and in the local server:")
    for rule in RULES:
        write(f"  {rule.name:40}{'measured' if rule.measured.startswith('http') else rule.measured}")
    write(f"{len(RULES_WITH_PARAMETERS)} rules with parameters: {', '.join(RULES_WITH_PARAMETERS)}")
    write(f"{sum(calls.values()):,} calls of {len(calls)} operations:")
    for name, number in calls.most_common():
        write(f"  {name:60}{number:>12,}")
    write(f"{sum((survived + not_survived).values()):,} faults injected, {sum(survived.values()):,} survived:")
    for name in sorted(survived + not_survived):
        write(f"  {name:60}{survived[name] + not_survived[name]:>12,}{survived[name]:>12,}")
