"""A farm that another release left: continued, or refused with the sentence that says why."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from farm.app.recorded.auditing import audit_run
from farm.core.errors import ServerError
from farm.live.operating.client import FarmClient
from farm.live.redis.keys import Keys
from farm.live.store.log_drain import EVENTS, POSITION, LogDrain, Position, position_in
from farm.live.store.saved import STATE_VERSION, FarmReader
from farm.live.store.store import Store
from tests.fixtures.processes import until
from tests.worlds.up import Up

pytestmark = pytest.mark.live
#: what ``farm up`` of the release before leaves when it is killed: three jobs have ended, two run
#: and seven wait
EARLIER = Path(__file__).parent / "earlier_release"


@pytest.mark.slow
def test_the_folder_of_an_earlier_release_is_continued(tmp_path: Path):
    """Waiting, running and ended jobs are kept; each job ends once, and the log is sound."""
    shutil.copytree(EARLIER, tmp_path / ".farm")
    up = Up(tmp_path, (EARLIER / "farm.yaml").read_text())
    (tmp_path / ".farm/redis/lock").touch()
    ended = {"succeeds": "succeeded", "fails": "failed", "j8": "cancelled"}
    jobs = [*ended, *(f"j{number}" for number in range(10) if number != 8)]
    with up.running("--quiet"):
        up.until_ended(*(name for name in jobs if name not in ended))
        states = {name: up.state_of(name) for name in jobs}
    assert states == dict.fromkeys(jobs, "succeeded") | ended
    lines = map(json.loads, (tmp_path / ".farm/log" / EVENTS).read_text().splitlines())
    ends = Counter(line["job"] for line in lines if line.get("ended"))
    assert ends == dict.fromkeys(jobs, 1)
    found = audit_run(tmp_path / ".farm/log")
    assert (found.jobs, found.wrong, found.not_replayed) == (12, "", "")


def test_an_earlier_release_does_not_continue_what_a_later_one_wrote(client, keys: Keys):
    """It would know nothing of what that has added, and lose it; nor does this one go back."""
    store = Store(client, keys)
    store.open(1.0, stays=True)
    client.hset(keys.meta, "version", "3")  # the release before, which knows no other version
    store.take_over(1.0, "rules")
    assert client.hget(keys.meta, "version") == str(STATE_VERSION).encode() != b"3"
    for version, whose in ((STATE_VERSION + 1, "a later"), (2, "an earlier"), ("x", "another")):
        client.hset(keys.meta, "version", version)
        with pytest.raises(ServerError, match=rf"left by {whose} release .* run the release that"):
            FarmReader(client, keys).saved()


def test_commands_of_another_release_say_so(server, client, keys: Keys):
    """They said that a key holds the wrong kind of value, or that a message cannot be decoded."""
    client.hset(keys.meta, "version", 2)
    with (
        pytest.raises(ServerError, match=r"run by an earlier release .* on all sides"),
        FarmClient(server.url, keys.prefix),
    ):
        pytest.fail("it has another form")
    client.delete(keys.meta)
    client.rpush(keys.status, "a list")
    with (
        pytest.raises(ServerError, match="another release of the farm, or another program"),
        FarmClient(server.url, keys.prefix) as operator,
    ):
        operator.status()


def test_the_log_of_an_earlier_release_is_continued_without_repetition(
    server, client, keys: Keys, tmp_path: Path
):
    """Its last lines were there twice: 0.2 named the stream's entry instead of the commit."""
    moved = client.xadd(keys.log, {"l": b"old\n"})
    client.xadd(keys.log, {"l": b"new\n", "n": 7, "p": 0})
    (tmp_path / EVENTS).write_bytes(b"old\n")
    (tmp_path / POSITION).write_text(json.dumps({"entry": moved.decode(), "size": 4}))
    with LogDrain(server.url, keys, tmp_path):
        until(lambda: not client.xlen(keys.log), "the log")
    assert (tmp_path / EVENTS).read_bytes() == b"old\nnew\n"
    assert position_in(tmp_path) == Position(7, 8)
