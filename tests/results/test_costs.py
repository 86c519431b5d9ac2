"""Costs: boots and billing units are paid, and shared among the users of the builders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import farm
from farm.app.recorded.result import Result
from farm.app.recorded.run_recorder import RunRecorder
from farm.core.events import BuilderJoined
from farm.core.model import Builder
from farm.results.summary.costs import Bill
from farm.scenario import parse_scenario
from farm.testing import small_scenario
from farm.workload import Workload

pytestmark = pytest.mark.usefixtures("kernel")


def two_platforms(**pool: Any) -> dict[str, Any]:
    """Return a scenario: one builder boots for 60 s, team a runs 300 s on it, team b 100 s."""
    sizes = {"algorithm": "taskcluster", "min": 0, "max": 1, "scaling_ratio": 1.0}
    made = {"platform": {"processors": ["amd64", "i386"]}, "provisioner": sizes}
    return small_scenario(
        {"name": "cloud", **made, "boot_time": "60s", "idle_timeout": "200s", **pool},
        [
            {"start": "1s", "service_time": time, "platform": {"processor": processor},
             "attributes": {"team": {team: 1}}}
            for time, processor, team in (("300s", "amd64", "a"), ("100s", "i386", "b"))
        ],
    )  # fmt: skip


def test_a_boot_is_billed_and_idle_time_too() -> None:
    """From request to gone: 60 s of boot, 400 s of work, then idle until the end."""
    summary = farm.simulate(two_platforms(price=36.0)).summary
    pool = summary["pools"]["cloud"]
    boot = 60.0
    paid = boot + pool["builder_time_s"]
    assert summary["cost"] == pool["cost"] == pytest.approx(paid / 3600 * 36)
    assert summary["idle_share"] == pytest.approx(1 - 400 / paid)


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_a_builder_that_never_joins_is_paid_with_all_its_slots(engine: Any) -> None:
    """One slot works for 100 s, while a builder of four slots is still booting."""
    boots = {"name": "boots", "platform": {"processor": "arm64"}, "slots": 4, "boot_time": "1h"}
    source = {"service_time": "100s", "platform": {"processor": "amd64"}}
    summary = farm.simulate(small_scenario([{}, boots], source), engine=engine).summary
    assert summary["idle_share"] == pytest.approx(1 - 100 / (100 + 4 * 100))


def test_a_billing_unit_is_billed_whole() -> None:
    """A started hour is billed whole."""
    summary = farm.simulate(two_platforms(price=2.0, billing_unit="1h")).summary
    assert summary["cost"] == pytest.approx(2.0)


def test_a_builder_of_no_time_pays_a_unit() -> None:
    """Requested, and at once the run is over: at least one unit is billed."""
    given = small_scenario({"billing_unit": "1h"}, {"service_time": "0s"})
    summary = farm.simulate(given).summary
    assert (summary["builder_time_s"], summary["cost"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("used", "paid"), [(3600.000000000002, 3600.0), (3600.001, 7200.0), (3599.0, 3600.0)]
)
def test_a_whole_unit_is_not_two(used: float, paid: float) -> None:
    """A life of an hour from 0.7 s on is 2e-12 s longer, as floating point has it."""
    assert Bill(unit_time=3600.0).paid_time(np.array([used])).tolist() == [paid]


def test_a_pools_users_pay_for_it() -> None:
    """Three quarters of the work pay three quarters, and the parts add up to the whole."""
    summary = farm.simulate(two_platforms()).summary
    for parts, names in (("platforms", ("amd64/virtual", "i386/virtual")), ("invocations", "ab")):
        found = summary[parts]
        assert sorted(found) == sorted(names)
        assert found[names[0]]["cost"] == pytest.approx(0.75 * summary["cost"])
        assert sum(one["cost"] for one in found.values()) == pytest.approx(summary["cost"])
        assert sum(one["submitted"] for one in found.values()) == summary["jobs"]["submitted"]
        waits = [one["waiting_time_s"]["mean"] for one in found.values()]
        assert sum(waits) / 2 == pytest.approx(summary["waiting_time_s"]["mean"])


def test_parts_add_up_in_the_run_phase() -> None:
    """Clipped to the phase that counts, parts are clipped as the whole is."""
    phases = {"ramp_up": "30m", "run": "1h", "ramp_down": "30m"}
    summary = farm.simulate("demo", phases=phases).summary
    for parts in ("platforms", "pools"):
        jobs = sum(one["submitted"] for one in summary[parts].values())
        assert jobs == summary["jobs"]["submitted"]
        rate = sum(one["throughput_per_s"] for one in summary[parts].values())
        assert rate == pytest.approx(summary["throughput_per_s"])
    time = sum(one["builder_time_s"] for one in summary["pools"].values())
    assert time == pytest.approx(summary["builder_time_s"])


#: the last job ends in the second minute of an hour
SHORT_LOAD = small_scenario(
    {"builders": 2},
    {"start": "10m", "every": "10s", "count": 5, "service_time": "20s"},
    phases={"ramp_up": "10m", "run": "1h"},
)


@pytest.mark.parametrize("engine", ["reference", "fast"])
def test_builders_are_there_until_the_phases_end(engine: str) -> None:
    """Also when nothing happens any more: two builders for an hour, 100 s of work."""
    summary = farm.simulate(SHORT_LOAD, engine=engine).summary
    assert summary["builder_time_s"] == 7200.0
    assert summary["cost"] == pytest.approx(2.0)
    assert summary["utilization"] == pytest.approx(100 / 7200)
    assert summary["idle_share"] == pytest.approx(1 - 100 / 7200)


@pytest.mark.parametrize(
    ("end", "spans"),
    [({}, (3600, 3500)), ({"until": 900.0}, (300, 200)), ({"state": "interrupted"}, (100, 0))],
)
def test_a_run_that_ends_before_its_phases_pays_until_then(
    end: dict[str, Any], spans: tuple[int, int]
) -> None:
    """With ``duration`` until that instant, interrupted until its last event."""
    recorder = RunRecorder(parse_scenario(SHORT_LOAD), "live", None, Workload((), [], []))
    for name, at in (("b", 0.0), ("c", 700.0)):
        recorder.observers[0](BuilderJoined(at, Builder(id=name, pool="p", index=1)), [])
    summary = Result(*recorder.finish("test", **end)).summary
    assert summary["builder_time_s"] == sum(spans)
