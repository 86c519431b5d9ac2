"""Images of the whole farm: who asks for one holds up nothing."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import msgspec
import pytest

from farm.core.state.snapshot import FarmSnapshot
from farm.live.operating import images as made
from farm.live.operating.answers import FarmImage, ImageName
from farm.live.operating.images import FAILED, FORK_FROM, Images
from farm.live.redis.trouble import RedisError
from farm.live.store.published import Notices
from tests.fixtures.processes import until

PARENT = os.getpid()


class Kept:
    """What notices would write."""

    def __init__(self) -> None:
        self.images: dict[str, bytes] = defaultdict(bytes)
        self.replies: dict[str, object] = {}
        self.broken = False

    def keep_piece(self, image: str, piece: bytes) -> None:
        if self.broken:
            raise RedisError
        self.images[image] += piece

    def keep_image(self, image: str, good_for: float, *, before: str) -> None:
        assert image in self.images
        assert before != image
        assert good_for > 0

    def reply(self, answer: object, *reply_to: str) -> None:
        self.replies |= dict.fromkeys(reply_to, answer)

    def image_for(self, asker: str) -> float:
        """Return the farm time of the image that was named."""
        answer = self.replies[asker]
        assert isinstance(answer, ImageName)
        return msgspec.json.decode(self.images[answer.image], type=FarmImage).snapshot.at


def image(at: float) -> FarmImage:
    """Return an image of this farm time, in some pieces."""
    snapshot = FarmSnapshot(at=at, waiting=(), running=(), builders=(), pools=(), serial=0)
    return FarmImage(snapshot=snapshot, scenario={"name": "x" * 3_000_000})


class Farm:
    """One whose images are asked for."""

    def __init__(self, make: Callable[[], FarmImage], jobs: int = FORK_FROM) -> None:
        self.kept, self.images, self.make, self.jobs = Kept(), Images(), make, jobs

    def turn(self, *asked: str) -> None:
        self.images.turn(asked, self.jobs, self.make, cast("Notices", self.kept))

    def answer(self, asker: str) -> object:
        """Give turns until there is an answer, and return it."""

        def answered() -> bool:
            self.turn()
            return asker in self.kept.replies

        until(answered, "an answer")
        return self.kept.replies[asker]


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

    farm = Farm(make)
    farm.turn("a")
    now[0] = 2.0
    farm.turn()
    assert not farm.kept.replies
    os.write(ready, b"x")
    farm.answer("a")
    assert farm.kept.image_for("a") == 1.0
    farm.turn("b")
    assert farm.kept.image_for("b") == 1.0
    assert len(farm.kept.images) == 1


def test_who_asks_after_a_change_gets_no_image_that_was_begun_before():
    """One who drained builders must see them drained, even if an image is being made."""
    now = [1.0]
    farm = Farm(lambda: image(now[0]))
    farm.turn("before")
    farm.images.outdate()
    now[0] = 2.0
    farm.turn("after")
    farm.answer("before")
    farm.answer("after")
    assert (farm.kept.image_for("before"), farm.kept.image_for("after")) == (1.0, 2.0)


@pytest.mark.parametrize("jobs", [0, FORK_FROM])
def test_an_image_that_could_not_be_written_is_not_named(jobs: int):
    """Who asked learns of it, and the next one gets a whole image."""
    farm = Farm(lambda: image(1.0), jobs)
    farm.kept.broken = True
    farm.turn("a")
    assert farm.answer("a") is FAILED
    farm.kept.broken = False
    farm.turn("b")
    farm.answer("b")
    assert farm.kept.image_for("b") == 1.0


def descriptors() -> set[str]:
    """Return those of this process."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_a_fork_that_fails_is_no_error_of_the_farm(monkeypatch):
    """It may be killed for its memory, not be made at all, or wait for a lock without end."""
    farm = Farm(lambda: os._exit(9))
    farm.turn("a")
    assert farm.answer("a") is FAILED

    def refuse() -> int:
        raise BlockingIOError

    before = descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", refuse)
        farm.turn("b")
    assert farm.kept.replies["b"] is FAILED
    assert descriptors() == before

    def wait() -> FarmImage:
        threading.Event().wait()
        raise AssertionError

    monkeypatch.setattr(made, "FORK_TIMEOUT", 1)
    farm.make = wait
    farm.turn("c")
    assert farm.answer("c") is FAILED
