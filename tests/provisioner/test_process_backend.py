"""The process backend: as many hosts as builders need room."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from farm.live.hosts.host_processes import BUILDERS_PER_HOST
from farm.live.settings import LiveSettings
from provisioner.backends.process import ProcessBackend
from tests.fixtures.prepared_world import report


class Started(ProcessBackend):
    """Start fake hosts."""

    def _start(self) -> None:
        name = f"host-{len(self.hosts)}"
        self.hosts[name] = SimpleNamespace(exit_code=None, terminate=lambda: None)


@pytest.mark.parametrize(
    ("room", "builders", "hosts"),
    [(0, 0, 1), (0, BUILDERS_PER_HOST, 1), (0, BUILDERS_PER_HOST + 1, 2), (1, 3, 3), (2, 5, 3)],
)
def test_hosts_have_room_for_all_builders(tmp_path: Path, room: int, builders: int, hosts: int):
    """A host is counted on for the room that it was told to announce."""
    backend = Started(LiveSettings(room=room), tmp_path, cord=True)
    reports = {"p": report("p", builders), "q": report("q", 4, elsewhere=4)}
    assert backend.tend(reports, {}) == {}
    assert len(backend.hosts) == hosts
