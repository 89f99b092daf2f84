"""`cdclake export-config`: write the settings of the registered tables to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cdclake_cli.named_files import check_writable, write_text
from cdclake_cli.options import ForceOption, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for
from cdclake_cli.target import Target

_HEAD = ("The tables of cdclake, for cdclake apply. Each attribute: docs/reference/attributes.md",)
_COLUMNS = (
    OutputColumn("file", "File"),
    OutputColumn("tables", "Tables", number=True),
    OutputColumn("settings", "Settings", number=True),
)


@with_target
def export_config(
    *,
    to: Annotated[Path, typer.Option(metavar="FILE", dir_okay=False, help="File to write.")] = Path("cdclake.yml"),
    force: ForceOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Write the settings of the registered tables to a file, for cdclake apply.

    What most tables have becomes a default. The file says all that is set: applying it changes nothing.

    Example: cdclake export-config --to cdclake.yml
    """
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it
    from cdclake_cli.config.export import exported
    from cdclake_cli.config.write import config_text

    check_writable(to, force=force)
    states = list(connect(target).state.all(target.installation.state_prefix))
    config, invalid = exported(states)
    write_text(to, config_text(config, head=_HEAD), force=force)
    out = output_for(output)
    for error in invalid:
        out.remark(f"Left out, because it is invalid: {error}")
    sections = [config.defaults, *config.tables.values()]
    record = {"file": str(to), "tables": len(states), "settings": sum(map(len, sections))}
    out.records("Written", _COLUMNS, [record])
