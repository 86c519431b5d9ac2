"""A small simulated farm: pools and jobs in, the audited events out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from farm.core.model import Job
from farm.core.pools.spec import PoolSpec
from tests.worlds.virtual import Story


@pytest.fixture
def story() -> Story:
    """A farm that has not run yet: ``story.play([pool(builders=2)], jobs((0, 5), (1, 5)))``."""
    return Story()


@pytest.fixture
def pool() -> Callable[..., PoolSpec]:
    """Make a pool of amd64 builders called p."""
    return lambda **more: PoolSpec(**{"name": "p", "processors": ("amd64",), **more})


@pytest.fixture
def jobs() -> Callable[..., list[Job]]:
    """Make jobs called a, b, … from (arrival, service time) pairs."""

    def make(*pairs: tuple[float, float], **more: Any) -> list[Job]:
        return [
            Job(id=chr(97 + number), arrived_at=at, service_time=time, **more)
            for number, (at, time) in enumerate(pairs)
        ]

    return make
