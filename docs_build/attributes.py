"""Writes the page of a table's attributes from their declarations."""

from __future__ import annotations

from cdclake.model.table.attributes import ATTRIBUTES, SetBy
from cdclake_cli.settings import meanings

HEAD = """\
<!-- Written by `make reference` from glue_jobs/cdclake/model: do not edit. -->

# Attributes of a table

Each source table has an item in the DynamoDB table `DMSCDC_Controller`. All values are strings. An unset
attribute is absent or `null`. [Configuration](../configuration.md) explains how to set them.
"""


def page() -> str:
    """The page in Markdown."""
    meaning_of, by_operator, by_jobs = meanings(), [], []
    for name, declared in ATTRIBUTES.items():
        text = meaning_of[name].replace("|", "\\|") + (f" [More](../{declared.more})" if declared.more else "")
        if declared.set_by is SetBy.OPERATOR:
            by_operator.append(f"| `{name}` | {text} | {f'`{declared.default}`' if declared.default else ''} |")
        else:
            by_jobs.append(f"| `{name}` | {text} |")
    return "\n".join(
        [
            HEAD,
            *("## Set by the operator", "", "No job ever writes these.", ""),
            *("| attribute | meaning | default |", "| --- | --- | --- |", *by_operator, ""),
            *("## Set by the jobs", "", "| attribute | meaning |", "| --- | --- |", *by_jobs, ""),
        ]
    )
