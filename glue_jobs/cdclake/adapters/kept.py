"""What every object store says of a retired data file that it cannot bring back."""

from __future__ import annotations

from cdclake.errors import IntegrityError


def not_kept(key: str, **where: object) -> IntegrityError:
    """The error for a data file that is neither in sight nor kept."""
    return IntegrityError(
        "A data file is gone: it is not in the table's folder, and nothing is kept of it",
        remedy="It is past its retention, or somebody deleted it: choose a later change, or load the table anew",
        **where,
        file=key,
    )
