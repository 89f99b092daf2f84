"""`cdclake local sample`: write the sample shop's raw files to folders."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for

_COLUMNS = (
    OutputColumn("folder", "Folder"),
    OutputColumn("files", "Files", number=True),
    OutputColumn("bytes", "Bytes", number=True),
)


def sample(
    folder: Annotated[Path, typer.Argument(file_okay=False, help="Folder to write to; created if missing.")],
    *,
    orders: Annotated[int, typer.Option(min=1_000, help="Orders in the sample shop.")] = 10_000,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Write the raw files of the sample shop, as AWS DMS would.

    Creates the folders full-load, round-one and round-two.

    Example: cdclake local sample sample-files --orders 10000
    """
    from cdclake_devkit.shop.sample_shop import SampleShop  # slow to import, and --help does not need it

    shop = SampleShop(lambda: datetime.now(timezone.utc), orders=orders)
    written = []
    for name, make in (("full-load", shop.full_load), ("round-one", shop.round_one), ("round-two", shop.round_two)):
        files = make()
        sizes = [len(file.data) for file in files]
        written.append({"folder": str(folder / name), "files": len(files), "bytes": sum(sizes)})
        for file in files:
            path = folder / name / file.key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
    output_for(output).records("Raw files of the sample shop", _COLUMNS, written)
