"""What a change tells of when its raw files were written, from which its delay follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.orders import PATH, Orders, after, change_name

if TYPE_CHECKING:
    from pathlib import Path


def test_a_change_tells_when_the_files_that_are_new_to_its_table_were_written(tmp_path: Path):
    orders = Orders(tmp_path)

    def told() -> tuple[str, str]:
        log = orders.installation.log(PATH)
        record = log.record(log.head())
        return record.oldest_written_utc, record.newest_written_utc

    orders.put(change_name(after(minutes=1)), "U,1,waited for the full load\n")
    orders.run()
    assert told() == ("", "")
    orders.put(change_name(after(minutes=61)), "U,1,new\n")
    orders.put(change_name(after(minutes=60)), "U,2,new\n", after(minutes=62))
    orders.run()
    assert told() == ("2024-03-05T11:01:00Z", "2024-03-05T11:02:00Z")
    orders.rollback(2)
    orders.run()
    assert (orders.rows(), told()) == ({1: "new", 2: "new"}, ("", ""))
    orders.put(change_name(after(minutes=190)), "U,2,newer\n")
    orders.touch("LOAD00000001.csv", after(minutes=55))
    orders.set(LastFullLoadDate="1900-01-01 00:00:00")
    orders.run()
    assert orders.rows() == {1: "new", 2: "newer"}
    assert told() == ("2024-03-05T13:03:00Z", "2024-03-05T13:03:00Z")
