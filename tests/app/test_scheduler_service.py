"""What a scheduler of a long-running farm goes by after a restart."""

from __future__ import annotations

from farm.app.api import load_scenario
from farm.app.long_running.scheduler_service import rules_of


def test_sizes_in_the_file_are_gone_by_once_they_are_changed() -> None:
    """What ``farm set`` changed holds for the same scenario, and not against an edited one."""
    rules = rules_of(load_scenario("quickstart"))
    for same in ({"seed": 3}, {"live__hosts": 2}):
        assert rules_of(load_scenario("quickstart", **same)) == rules
    for other in ({"pools__linux__builders": 9}, {"policy": "sjf"}):
        assert rules_of(load_scenario("quickstart", **other)) != rules
