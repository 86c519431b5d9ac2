"""The ledger that tests of the scheduler are written with."""

from __future__ import annotations

import pytest

from tests.worlds.virtual import Ledger


@pytest.fixture(scope="session")
def ledger() -> type[Ledger]:
    """Make ledgers: ``ledger("b1", "b2", retries=0)`` is a farm of two builders."""
    return Ledger
