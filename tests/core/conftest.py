"""The ledger that tests of the scheduler are written with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.worlds.virtual import FAIR, Ledger


@pytest.fixture(scope="session")
def ledger() -> type[Ledger]:
    """Make ledgers: ``ledger("b1", "b2", retries=0)`` is a farm of two builders."""
    return Ledger


@pytest.fixture(params=[{}, FAIR], ids=["plain", "fair"])
def with_both_queues(request: pytest.FixtureRequest) -> Callable[..., Ledger]:
    """Make ledgers with plain queues, and with trees."""
    return partial(Ledger, **request.param)
