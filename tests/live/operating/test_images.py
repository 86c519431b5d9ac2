"""Images of the whole farm: who asks for one holds up nothing."""

from __future__ import annotations

import itertools
import os
import time
from collections import defaultdict

import msgspec
import pytest

from farm.core.state.snapshot import FarmSnapshot
from farm.live.operating.answers import FarmImage, ImageName
from farm.live.operating.images import FAILED, FORK_FROM, Images
from farm.live.redis.trouble import RedisError


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


def answered(images: Images, kept: Kept, asker: str) -> bool:
    """Give turns until there is an answer; return whether one came."""
    deadline = time.monotonic() + 20
    while asker not in kept.replies and time.monotonic() < deadline:
        time.sleep(0.005)
        images.turn([], FORK_FROM, kept)  # type: ignore[arg-type]
    return asker in kept.replies


def test_a_large_farm_continues_while_its_image_is_made():
    """A fork makes it, of the instant at which it was asked for; no turn waits for the fork."""
    kept, now = Kept(), [1.0]

    def slow() -> FarmImage:
        time.sleep(0.3)
        return image(now[0])

    images = Images(slow)
    began = time.monotonic()
    images.turn(["a"], FORK_FROM, kept)  # type: ignore[arg-type]
    now[0] = 2.0
    assert time.monotonic() - began < 0.3
    assert not kept.replies
    assert answered(images, kept, "a")
    assert kept.image_for("a") == 1.0
    images.turn(["b"], FORK_FROM, kept)  # type: ignore[arg-type]
    assert kept.image_for("b") == 1.0
    assert len(kept.images) == 1


def test_who_asks_after_a_change_gets_no_image_that_was_begun_before():
    """One who drained builders must see them drained, even if an image is being made."""
    kept, times = Kept(), itertools.count(1.0)

    images = Images(lambda: image(float(os.getpid() == parent)))
    parent = os.getpid()
    images.turn(["before"], FORK_FROM, kept)  # type: ignore[arg-type]
    images.outdate()
    images._make = lambda: image(next(times) + 1)
    images.turn(["after"], FORK_FROM, kept)  # type: ignore[arg-type]
    assert answered(images, kept, "before")
    assert answered(images, kept, "after")
    assert (kept.image_for("before"), kept.image_for("after")) == (0.0, 2.0)


@pytest.mark.parametrize("jobs", [0, FORK_FROM])
def test_an_image_that_could_not_be_written_is_not_named(jobs: int):
    """Who asked learns of it, and the next one gets a whole image."""
    kept, images = Kept(), Images(lambda: image(1.0))
    kept.broken = True
    images.turn(["a"], jobs, kept)  # type: ignore[arg-type]
    assert answered(images, kept, "a")
    assert kept.replies["a"] is FAILED
    kept.broken = False
    images.turn(["b"], jobs, kept)  # type: ignore[arg-type]
    assert answered(images, kept, "b")
    assert kept.image_for("b") == 1.0


def test_a_fork_that_fails_is_no_error_of_the_farm(monkeypatch):
    """It may be killed for its memory, or not be made at all."""
    kept, images = Kept(), Images(lambda: os._exit(9))
    images.turn(["a"], FORK_FROM, kept)  # type: ignore[arg-type]
    assert answered(images, kept, "a")
    assert kept.replies["a"] is FAILED

    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    images.turn(["b"], FORK_FROM, kept)  # type: ignore[arg-type]
    assert kept.replies["b"] is FAILED
