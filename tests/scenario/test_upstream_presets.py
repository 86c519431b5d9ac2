"""``like``: one key stands for those with which a farm decides as another system does."""

from __future__ import annotations

from typing import Any

import pytest

import farm
from farm.core.errors import ScenarioError

FARM: dict[str, Any] = {
    "pools": [
        {
            "name": "p",
            "platform": {"processor": "amd64"},
            "provisioner": {"algorithm": "taskcluster", "max": 3},
        }
    ],
    "workload": [
        {
            "arrivals": {
                "every": "1s",
                "count": 40,
                "service_time": {"uniform": {"min": 1, "max": 9}},
            }
        }
    ],
}


@pytest.mark.parametrize(
    ("system", "keys"),
    [
        (
            "taskcluster",
            {
                "scheduling__compatibility": "taskcluster",
                "pools__p__provisioner__compatibility": "taskcluster",
            },
        ),
        ("jenkins", {"scheduling__runtime_estimates": "last-3", "scheduling__retries": 0}),
        (
            "buildbarn",
            {
                "policy": "buildbarn",
                "scheduling__fair_share": ["correlated_invocations_id", "tool_invocation_id"],
                "scheduling__platform_grace": "15m",
                "scheduling__compatibility": "buildbarn",
            },
        ),
        (
            "launchpad",
            {
                "policy": "score",
                "scheduling__runtime_estimates": "launchpad",
                "scheduling__failures": "launchpad",
                "estimates__rules": ["launchpad"],
            },
        ),
    ],
)
def test_like_stands_for_these_keys(system: str, keys: dict[str, object]) -> None:
    """The same scenario as with each of them, and kept as what it is in the resolved one."""
    like = farm.load_scenario(FARM, like=system)
    assert like == farm.load_scenario(FARM, **keys).model_copy(update={"like": system})
    assert farm.load_scenario(like) == like
    assert like != farm.load_scenario(FARM).model_copy(update={"like": system})
    assert farm.simulate(like).summary["jobs"]["succeeded"] == 40


def test_what_is_given_stays_and_others_are_refused() -> None:
    """A key beside it has its own value; provisioners of other kinds are left alone."""
    like = farm.load_scenario(FARM, like="buildbarn", policy="sjf")
    assert (like.scheduling.policy, like.scheduling.compatibility) == ("sjf", "buildbarn")
    counted = farm.load_scenario(FARM, like="taskcluster", scheduling__balancer="jenkins")
    assert counted.scheduling.balancer == "jenkins"
    own = {"pools": [{**FARM["pools"][0], "provisioner": {"algorithm": "keda", "max": 3}}]}
    assert farm.load_scenario(FARM | own | {"like": "taskcluster"})
    with pytest.raises(ScenarioError, match=r"like: found 'jenkin'; did you mean jenkins\? allow"):
        farm.load_scenario(FARM, like="jenkin")
