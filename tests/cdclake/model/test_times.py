from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from cdclake.model.times import display_utc, iso_utc, parse_iso_utc

MOMENT = datetime(2026, 11, 22, 11, 15, 0, 250_000, timezone(timedelta(hours=1)))


def test_times_are_formatted_in_utc_without_fractions():
    assert iso_utc(MOMENT) == "2026-11-22T10:15:00Z"
    assert display_utc(MOMENT) == "2026-11-22 10:15:00 UTC"
    assert parse_iso_utc(iso_utc(MOMENT)) == MOMENT.replace(microsecond=0)


@pytest.mark.parametrize("text", ["2026-11-22T10:15:00Z", "2026-11-22T11:15:00.250000+01:00"])
def test_stored_times_can_be_displayed(text: str):
    assert display_utc(text) == "2026-11-22 10:15:00 UTC"


@pytest.mark.parametrize("text", ["", "null", "soon"])
def test_a_text_that_is_no_time_is_displayed_as_it_is(text: str):
    assert display_utc(text) == text


@pytest.mark.parametrize("moment", [MOMENT.replace(tzinfo=None), "2026-11-22T10:15:00"])
def test_a_time_without_a_zone_is_refused(moment: datetime | str):
    with pytest.raises(ValueError, match="has no time zone"):
        display_utc(moment)
