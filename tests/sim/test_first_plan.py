"""A provisioner plans first when its scenario says, then at every interval."""

from __future__ import annotations

import pytest

import farm
from farm.core.errors import FarmError


def plans(**provisioner):
    """Return when a pool of one builder for each job was planned, and for how many."""
    sizing = {"algorithm": "arc", "max": 9, "interval": "10s", **provisioner}
    made = farm.simulate(
        {
            "pools": [{"name": "p", "boot_time": "1s", "provisioner": sizing}],
            "workload": [{"arrivals": {"every": "15s", "count": 3, "service_time": "99s"}}],
        }
    )
    found = [(e["at_s"], e["desired"]) for e in made.events if e["event"] == "pool-planned"]
    return [one for one in found if one[0] < 60]


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_plans_are_counted_from_the_first(engine, request, monkeypatch):
    """By either engine; absent, the first plan is an interval after the start."""
    if engine == "compiled":
        request.getfixturevalue("kernel")
    else:
        monkeypatch.setattr("farm.sim.fast.kernel.native.is_there", lambda: False)
    assert plans() == [(10.0, 1), (20.0, 2), (40.0, 3)]
    assert plans(first_plan="7s") == [(7.0, 1), (17.0, 2), (37.0, 3)]
    assert plans(first_plan="33s") == [(33.0, 3)]


@pytest.mark.parametrize("given", ["0s", "-1s", "soon"])
def test_an_instant_that_is_none(given):
    """Protects users: one message with the key."""
    with pytest.raises(FarmError, match=r"pools\.p\.provisioner\.first_plan: found"):
        plans(first_plan=given)
