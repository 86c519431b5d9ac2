"""What the compiled loop leaves to the reference, in code and in documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.assembly import make_rules
from farm.scenario import parse_scenario
from farm.sim.fast.coverage import FEEDBACK, GROUPS, LEFT_TO_THE_REFERENCE, why_whole
from farm.sim.setting import Setting
from farm.testing import small_scenario

TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorials" / "python.md"


def test_documentation_lists_what_is_left_to_the_reference():
    """Protects readers from a list that says less, or more, than the loop covers."""
    section = TUTORIAL.read_text("utf-8").partition("\n## Engines\n")[2].partition("\n## ")[0]
    listed = [line.removeprefix("- ") for line in section.splitlines() if line.startswith("- ")]
    assert listed == list(LEFT_TO_THE_REFERENCE)


@pytest.mark.parametrize(
    "scheduling",
    [{"failures": "launchpad"}, {"platform_grace": 60}, {"balancer": "heavy-light"}],
)
def test_jobs_that_cannot_be_let_go_are_held(scheduling):
    """Protects attempts that failed, jobs that never started, and queues of heavy jobs."""
    load = {"every": 1, "count": 5, "service_time": 1, "fails": 0.5}
    scenario = parse_scenario(small_scenario({"slots": 2}, load, scheduling=scheduling))
    assert why_whole(scenario, Setting.of(scenario, make_rules(scenario)))
    plain = parse_scenario(small_scenario({"slots": 2}, load))
    assert not why_whole(plain, Setting.of(plain, make_rules(plain)))


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"every": 1, "group": "deploy"}, GROUPS),
        ({"every": None, "users": {"count": 2, "think_time": 1}}, FEEDBACK),
        ({"every": 1, "fails": 0.5, "reruns": {}}, FEEDBACK),
    ],
)
def test_jobs_that_others_release_are_held(keys, why):
    """Protects large loads from being played as if no job waited for another one."""
    load = {"count": 5, "service_time": 1, **keys}
    scenario = parse_scenario(small_scenario({"slots": 2}, load))
    assert why_whole(scenario, Setting.of(scenario, make_rules(scenario))) == why
