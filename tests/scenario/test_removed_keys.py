"""``--set key=null`` removes an optional key: it has its default again."""

from __future__ import annotations

import pytest

from farm.core.errors import ScenarioError
from farm.scenario import Scenario, load_scenario
from farm.testing import small_scenario

POOL = {
    "idle_timeout": "5m",
    "provisioner": {"algorithm": "target-wait", "max": 4, "objective": "10m", "hold": "20m"},
}
BOINC = {"runtime_estimates": "boinc", "runtime_options": {"kind_samples": 5}}


def changed(*sets: str) -> Scenario:
    """Return the scenario with these overrides."""
    return load_scenario(small_scenario(POOL, scheduling=BOINC), list(sets))


def test_an_option_of_an_algorithm_has_its_default_again() -> None:
    """It was handed on as null, which no algorithm takes."""
    provisioner = changed("pools.p.provisioner.hold=null").pools[0].provisioner

    assert provisioner is not None
    assert provisioner.options == {"objective": "10m"}


def test_a_key_that_cannot_be_null_has_its_default_again() -> None:
    """The message was that nothing was found, though the key is optional."""
    options = changed("scheduling.runtime_options.kind_samples=null").scheduling.runtime_options

    assert options.kind_samples == 100
    assert changed("scheduling.retries=null").scheduling.retries == 2


def test_a_key_that_may_be_null_is_null() -> None:
    """An idle builder stays then."""
    assert changed("pools.p.idle_timeout=null").pools[0].idle_timeout is None


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("pools.p.provisioner.max", "provisioner.max: found nothing"),
        ("scheduling.polcy", "polcy: unknown key"),
    ],
)
def test_what_is_required_or_unknown_is_refused(key: str, told: str) -> None:
    """A key that is not there for a scenario cannot be removed."""
    with pytest.raises(ScenarioError, match=told):
        changed(f"{key}=null")
