"""The fixtures; name this module in ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from farm.live.redis.server import choose_server
from farm.testing.simulated import Simulated, simulated
from farm.testing.virtual_farm import VirtualFarm


@pytest.fixture
def simulate() -> Callable[..., Simulated]:
    """``simulate(scenario, **overrides)``: a finished simulation, with ``assert_that``."""
    return simulated


@pytest.fixture
def virtual_farm() -> Callable[..., VirtualFarm]:
    """``virtual_farm(scenario, **overrides)``: a farm on fakeredis, in one process."""
    return VirtualFarm


@pytest.fixture(scope="session")
def farm_server() -> Iterator[str]:
    """Return the URL of a Redis-compatible server of the session's own, for live runs."""
    with choose_server(None) as server:
        yield server.url
