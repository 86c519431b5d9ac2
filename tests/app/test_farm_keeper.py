"""The process that keeps a farm up: when it reports that the farm is up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from farm.app.long_running.farm_daemon import is_at_work
from farm.app.long_running.farm_place import FarmPlace, PlaceFile, place_file, read_place


def test_what_an_earlier_farm_left_is_not_taken_for_this_one():
    """Also where the clock was set back since: its status is of the future then."""
    future, present = 4e9, 1e9
    client: Any = SimpleNamespace(status=lambda: SimpleNamespace(written_at=future, hosts=1))
    assert not is_at_work(client, before=future)
    client.status = lambda: SimpleNamespace(written_at=present, hosts=0)
    assert not is_at_work(client, before=future)
    client.status = lambda: SimpleNamespace(written_at=present, hosts=1)
    assert is_at_work(client, before=future)
    assert is_at_work(client, before=None)


def test_a_disk_that_is_full_while_the_farm_comes_up_does_not_end_it(tmp_path: Path, caplog):
    """The server ended with it, and lost what it had acknowledged and could not write yet."""
    place = PlaceFile(tmp_path, FarmPlace(pid=1, began="then", redis_url=""))
    draft = place_file(tmp_path).with_suffix(".new")
    draft.mkdir()  # nothing can be written there
    place.update(state="up", redis_url="redis://127.0.0.1:1/0")
    assert place.retry() < 10
    assert read_place(tmp_path) is None
    assert [line for line in caplog.messages if "cannot be written" in line] == caplog.messages
    assert len(caplog.messages) == 1
    draft.rmdir()
    assert place.retry() == float("inf")
    found = read_place(tmp_path)
    assert found is not None
    assert (found.state, found.pid) == ("up", 1)
