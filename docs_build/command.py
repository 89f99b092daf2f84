"""Generates the reference page of the `cdclake` command from its verbs, options and help texts."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import typer

from cdclake_cli.main import assembled
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = """\
<!-- Written by `make reference` from cli/cdclake_cli: do not edit. -->

# The command

Every verb of `cdclake` and its options; `--help` shows the same. See also
[`--output json`](../configuration.md#the-command) and [exit statuses](../operations.md#errors-by-exit-status).
"""
LOCATION_HEAD = """\
## Location options

Verbs that use the lake, the raw files or the state table have these options too.
"""
LOCATIONS = tuple(Target.__dataclass_fields__)
"""Names of the options that all these verbs share."""


def verbs() -> Iterator[tuple[str, Any]]:
    """Each verb as typed, and its command, groups before their members."""
    yield from _below("cdclake", typer.main.get_command(assembled()))


def _below(path: str, command: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - Typer does not export the type
    for name, one in getattr(command, "commands", {}).items():
        if not getattr(one, "hidden", False):
            yield f"{path} {name}", one
            yield from _below(f"{path} {name}", one)


def page() -> str:
    """The page, as Markdown."""
    lines = [HEAD]
    shared: dict[str, Any] = {}
    for path, command in verbs():
        lines += [f"## {path}", "", *_help(command.help or ""), ""]
        own = [parameter for parameter in command.params if not parameter.hidden]
        locations = [parameter for parameter in own if parameter.name in LOCATIONS]
        shared.update({parameter.name: parameter for parameter in locations})
        lines += _table([parameter for parameter in own if parameter not in locations])
        if locations:
            lines += ["Also has the [location options](#location-options).", ""]
    lines += [LOCATION_HEAD, *_table(list(shared.values()))]
    return "\n".join(lines).rstrip() + "\n"


def _help(text: str) -> list[str]:
    """The paragraphs of a help text; the example becomes a code block."""
    description, _, example = text.partition("Example:")
    paragraphs = [" ".join(part.split()) for part in description.split("\n\n")]
    lines = "\n\n".join(filter(None, paragraphs)).split("\n")
    return [*lines, "", "```bash", " ".join(example.split()), "```"] if example else lines


def _table(parameters: list[Any]) -> list[str]:
    if not parameters:
        return []
    lines = ["| option | default | meaning |", "| --- | --- | --- |"]
    return [*lines, *map(_line, parameters), ""]


def _line(parameter: Any) -> str:  # noqa: ANN401 - Typer does not export the type
    if parameter.param_type_name == "argument":
        name = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        name = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
    meaning = parameter.help or ""
    if parameter.envvar:
        meaning += f" Also `{parameter.envvar}`."
    return f"| {name} | {_default(parameter)} | {meaning.replace('|', chr(92) + '|')} |"


def _default(parameter: Any) -> str:  # noqa: ANN401 - Typer does not export the type
    value = parameter.default
    if parameter.required:
        return "required"
    if isinstance(value, enum.Enum):
        value = value.value
    if value in (None, "", False, ()):
        return ""
    return f"`{value}`"
