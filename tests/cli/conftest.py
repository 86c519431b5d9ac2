"""The command ``farm``, run in this process as its entry point runs it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from farm.cli.main import main
from farm.live.redis.connection import connect
from farm.live.redis.server import choose_server
from tests.cli.still_farm import StillFarm


class Said(NamedTuple):
    """What a command ended with, and what it wrote."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]


@pytest.fixture
def farm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Command:
    """Run ``farm`` with these words in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("FARM_REDIS_URL", raising=False)

    def run(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["farm", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        assert isinstance(code, int)
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a server for the tests of one process."""
    with choose_server(None) as running:
        yield running.url


@pytest.fixture
def still(server: str, tmp_path: Path) -> Iterator[StillFarm]:
    """A farm with two pools and nobody at work."""
    with closing(connect(server, "test")) as client:
        client.flushall()
        yield StillFarm(client, server, tmp_path)
