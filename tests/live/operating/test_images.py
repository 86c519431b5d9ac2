"""Images of the whole farm: who asks for one holds up nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import fakeredis
import msgspec
import pytest

from farm.core.state.snapshot import FarmSnapshot
from farm.live.operating import images as made
from farm.live.operating.answers import FarmImage, ImageName, Refusal
from farm.live.operating.images import FAILED, FORK_FROM, Images
from farm.live.redis.keys import Keys
from farm.live.redis.leader_fencing import Fence
from farm.live.redis.trouble import RedisError
from farm.live.store.published import Notices
from tests.fixtures.processes import until

PARENT = os.getpid()


def image(at: float) -> FarmImage:
    """Return an image of this farm time, in some pieces."""
    snapshot = FarmSnapshot(at=at, waiting=(), running=(), builders=(), pools=(), serial=0)
    return FarmImage(snapshot=snapshot, scenario={"name": "x" * 3_000_000})


class Asked:
    """Images that are asked for, of a farm on a fake server."""

    def __init__(self, make: Callable[[], FarmImage], jobs: int = FORK_FROM) -> None:
        self.images, self.make, self.jobs = Images(), make, jobs
        self.redis, self.keys = fakeredis.FakeRedis(protocol=2), Keys()
        self.notices = Notices(Fence(self.redis, self.keys), self.redis, self.keys)

    def turn(self, *asked: str) -> None:
        self.images.turn(asked, self.jobs, self.make, self.notices)

    def answer(self, asker: str) -> ImageName | Refusal:
        """Give turns until there is an answer, and return it."""

        def answered() -> bool:
            self.turn()
            return bool(self.redis.exists(self.keys.reply(asker)))

        until(answered, "an answer")
        text = self.redis.lindex(self.keys.reply(asker), 0)
        refusal = msgspec.json.decode(text, type=Refusal)
        return refusal if refusal.refused else msgspec.json.decode(text, type=ImageName)

    def image_for(self, asker: str) -> float:
        """Return the farm time of the image that was named."""
        answer = self.answer(asker)
        assert isinstance(answer, ImageName)
        key = self.keys.image(answer.image)
        assert self.redis.ttl(key) > 0
        text = b"".join(self.redis.lrange(key, 0, -1))
        return msgspec.json.decode(text, type=FarmImage).snapshot.at


@pytest.fixture
def gate() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe, from which a fork can await a byte."""
    ends = os.pipe()
    yield ends
    for one in ends:
        os.close(one)


def test_a_large_farm_continues_while_its_image_is_made(gate, monkeypatch):
    """A fork makes it, of the instant at which it was asked for; no turn waits for the fork."""
    monkeypatch.setattr(made, "SHARE_OF_FORK", 1e6)
    awaited, ready = gate
    now = [1.0]

    def make() -> FarmImage:
        assert os.getpid() != PARENT
        assert os.read(awaited, 1)
        return image(now[0])

    farm = Asked(make)
    farm.turn("a")
    now[0] = 2.0
    farm.turn()
    assert not farm.redis.keys()
    os.write(ready, b"x")
    assert farm.image_for("a") == 1.0
    farm.turn("b")
    assert farm.image_for("b") == 1.0
    assert len(farm.redis.keys(farm.keys.image("*"))) == 1


def test_who_asks_after_a_change_gets_no_image_that_was_begun_before():
    """One who drained builders must see them drained, even if an image is being made."""
    now = [1.0]
    farm = Asked(lambda: image(now[0]))
    farm.turn("before")
    farm.images.outdate()
    now[0] = 2.0
    farm.turn("after")
    assert (farm.image_for("before"), farm.image_for("after")) == (1.0, 2.0)


@pytest.mark.parametrize("jobs", [0, FORK_FROM])
def test_an_image_that_could_not_be_written_is_not_named(jobs: int, monkeypatch):
    """Who asked learns of it, and the next one gets a whole image."""
    farm = Asked(lambda: image(1.0), jobs)

    def refuse(*_: object) -> None:
        raise RedisError

    with monkeypatch.context() as patch:
        patch.setattr(farm.notices, "keep_piece", refuse)
        farm.turn("a")
        assert farm.answer("a") == FAILED
    farm.turn("b")
    assert farm.image_for("b") == 1.0


def descriptors() -> set[str]:
    """Return those of this process."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_a_fork_that_fails_is_no_error_of_the_farm(monkeypatch):
    """It may be killed for its memory, not be made at all, or wait for a lock without end."""
    farm = Asked(lambda: os._exit(9))
    farm.turn("a")
    assert farm.answer("a") == FAILED

    def refuse() -> int:
        raise BlockingIOError

    before = descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", refuse)
        farm.turn("b")
    assert farm.answer("b") == FAILED
    assert descriptors() == before

    def wait() -> FarmImage:
        threading.Event().wait()
        raise AssertionError

    monkeypatch.setattr(made, "FORK_TIMEOUT", 1)
    farm.make = wait
    farm.turn("c")
    assert farm.answer("c") == FAILED
