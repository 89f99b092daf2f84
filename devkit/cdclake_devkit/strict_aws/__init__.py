"""Rules that make the embedded AWS as strict as the real one, where moto accepts more or answers otherwise."""

from cdclake_devkit.strict_aws.rules import RULES, strict

__all__ = ["RULES", "strict"]
