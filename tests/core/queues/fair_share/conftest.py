"""The ledger that tests of the tree are written with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.worlds.fair_share import Yard


@pytest.fixture
def make_yard() -> Callable[..., Yard]:
    """Make yards: ``make_yard(stickiness, compatibility)``."""
    return Yard


@pytest.fixture
def yard() -> Yard:
    """A yard without stickiness."""
    return Yard()
