"""The browser in which pages are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.fixtures.chromium import Chromium


@pytest.fixture(scope="module")
def browser(
    tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chromium]:
    """One browser for all pages."""
    with Chromium(tool("chromium"), tmp_path_factory.mktemp("profile")) as chromium:
        yield chromium
