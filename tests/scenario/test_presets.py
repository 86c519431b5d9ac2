"""Presets of provisioners: what they fill in, and what the user's keys keep."""

from __future__ import annotations

from typing import Any

import pytest

import farm
from farm.core.errors import FarmError, ScenarioError
from farm.scenario.presets import PRESETS
from farm.scenario.provisioner import ProvisionerSettings
from farm.testing import small_scenario
from provisioner.algorithms.buildkite import Buildkite
from provisioner.from_scenario import algorithms_of


def with_preset(pool: dict[str, Any], **provisioner: Any) -> farm.Scenario:
    """Return a scenario whose only pool has a preset."""
    settings = {"preset": "elastic-ci-stack", **provisioner}
    load = {"every": "1m", "count": 3, "service_time": "5m"}
    return farm.load_scenario(small_scenario({"provisioner": settings, **pool}, load))


def test_the_stack_as_it_ships() -> None:
    """Protects the numbers of the stack's parameters, which are not those of its scaler."""
    loaded = with_preset({})
    stack = {"out_cooldown": 300.0, "in_cooldown": 3600.0, "disable_scale_in": True}
    assert algorithms_of(loaded)["p"] == Buildkite(min=0, max=10, interval=10.0, **stack)
    assert loaded.pools[0].idle_timeout == 600.0
    plain = {"algorithm": "buildkite", "max": 10}
    assert algorithms_of(farm.load_scenario(loaded, pools__p__provisioner=plain))["p"] == Buildkite(
        max=10
    )


def test_the_users_keys_hold_and_all_are_shown() -> None:
    """Protects the resolved scenario: it says everything, and loads into the same."""
    loaded = with_preset({"idle_timeout": None}, max=30, out_cooldown="1m")
    made: Any = algorithms_of(loaded)["p"]
    assert (made.max, made.out_cooldown, made.disable_scale_in) == (30, 60.0, True)
    for resolved in (loaded, farm.load_scenario(loaded)):
        assert resolved == loaded
        assert resolved.pools[0].idle_timeout is None
    shown = with_preset({}).to_yaml()
    for line in ("preset: elastic-ci-stack", "out_cooldown: 5m", "max: 10", "idle_timeout: 10m"):
        assert f" {line}\n" in shown


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_an_algorithms(name: str) -> None:
    """Protects presets from options that their algorithm does not know."""
    loaded = with_preset({}, preset=name)
    assert algorithms_of(loaded)["p"].interval > 0


def test_mistakes() -> None:
    """Protects users: an unknown preset, or one of another algorithm."""
    with pytest.raises(FarmError, match=r"preset: found 'elastic-ci'; did you mean elastic-ci-sta"):
        with_preset({}, preset="elastic-ci")
    with pytest.raises(FarmError, match=r"algorithm: found 'keda'; the preset elastic-ci-stack is"):
        with_preset({}, algorithm="keda")


def test_agents_that_end_by_themselves_are_not_replaced() -> None:
    """Protects the stack's rest: after idle time-outs the group is as small as what is left."""
    found = farm.simulate(with_preset({"boot_time": "1m"}), phases={"run": "2h"}, keep_events=True)
    assert found.summary["builders"]["requested"] == 3
    assert found.summary["jobs"]["succeeded"] == 3
    last = max(e["at_s"] for e in found.events if e["event"] == "builder-retired")
    assert last < 1800.0


def test_the_schema_demands_a_preset_or_the_keys() -> None:
    """Protects editors that check a scenario file by the schema."""
    schema = ProvisionerSettings.model_json_schema()
    assert schema["anyOf"] == [{"required": ["algorithm", "max"]}, {"required": ["preset"]}]


# --- ``like``: one key stands for those with which a farm decides as another system does ----------

FARM = small_scenario(
    {"provisioner": {"algorithm": "taskcluster", "max": 3}},
    {"count": 40, "service_time": {"uniform": {"min": 1, "max": 9}}},
)


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
