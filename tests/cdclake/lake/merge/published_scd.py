"""A published example of slowly changing dimensions: users with a city, changes that arrive out of order.

Databricks' documentation of AUTO CDC (formerly APPLY CHANGES), "SCD type 1 and SCD type 2 processing with CDF source
data": https://docs.databricks.com/aws/en/dlt/cdc
"""

from __future__ import annotations

Change = tuple[int, "str | None", "str | None", str, int]

CHANGES: tuple[Change, ...] = (
    (124, "Raul", "Oaxaca", "I", 1),
    (123, "Isabel", "Monterrey", "I", 1),
    (125, "Mercedes", "Tijuana", "I", 2),
    (126, "Lily", "Cancun", "I", 2),
    (123, None, None, "D", 6),
    (125, "Mercedes", "Guadalajara", "U", 6),
    (125, "Mercedes", "Mexicali", "U", 5),
    (123, "Isabel", "Chihuahua", "U", 5),
)
"""User, name, city, operation, sequence number."""
TYPE_1 = {(124, "Raul", "Oaxaca"), (125, "Mercedes", "Guadalajara"), (126, "Lily", "Cancun")}
"""User, name and city after all changes."""
