"""Provisioning algorithms with options drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from farm.scenario.times_of_week import Period
from provisioner.algorithms.registry import make_algorithm
from provisioner.from_scenario import ByTime

few = st.integers(0, 4)
spans = st.sampled_from([0.0, 0.3, 1.0, 2.0, 7.5, 60.0, 400.0])
shares = st.sampled_from([0.0, 0.25, 0.5, 1.0])

#: options of each algorithm that has any, beside min, max and interval
OPTIONS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "fixed": {"builders": few},
    "manual": {
        "capacity": few | st.dictionaries(st.integers(0, 23), few, min_size=1, max_size=3),
        "compatibility": st.sampled_from([None, "taskcluster"]),
    },
    "taskcluster": {
        "scaling_ratio": shares,
        "terminate": st.booleans(),
        "compatibility": st.sampled_from([None, "taskcluster", "taskcluster-2020"]),
    },
    "keda": {
        "trigger": st.sampled_from(["redis", "github-runner"]),
        "list_length": st.sampled_from([None, 0.5, 2.0]),
        "length": st.sampled_from([None, "waiting", "waiting+running"]),
        "polling_interval": spans,
        "cooldown": spans,
        "stabilization_window": spans,
    },
    "target-wait": {
        "objective": st.sampled_from([1.0, 20.0, 300.0]),
        "release": st.sampled_from([0.25, 1.0]),
        "hold": spans,
    },
    "arc": {},
    "buildkite": {
        "availability_threshold": shares,
        "settle_time": spans,
        "instance_buffer": few,
        "out_factor": shares,
        "in_factor": shares,
        "out_cooldown": spans,
        "in_cooldown": spans,
        "scale_only_after_all_events": st.booleans(),
        "disable_scale_in": st.booleans(),
    },
    "gitlab": {
        "idle_count": few,
        "idle_time": spans,
        "scale_factor": shares,
        "idle_unit": st.sampled_from(["jobs", "machines"]),
        "preemptive_mode": st.sampled_from([None, False, True]),
        "throttle_limit": st.sampled_from([0.0, 0.01, 0.5]),
        "throttle_burst": few,
        "max_booting": few,
    },
    "buildbarn": {"quantile": shares, "window": st.sampled_from([2.0, 20.0])},
    "predictive": {
        "period": st.sampled_from([20.0, 86400.0]),
        "step": st.sampled_from([5.0, 20.0]),
        "ahead": spans,
        "headroom": shares,
    },
    "jenkins": {"margin": shares, "margin0": shares, "initial_delay": spans},
}
#: those that skip some ticks in some scenario
SPARED = ("fixed", "manual", "taskcluster", "target-wait", "arc", "buildkite", "gitlab")


#: minutes of Monday, the first ones of a run
minutes = st.none() | st.frozensets(st.integers(0, 5), min_size=1)
instants = st.sampled_from([0.0, 7.0, 20.5, 60.0, 90.0])


@st.composite
def algorithms_named(
    draw: st.DrawFn,
    name: str,
    least: int | None = None,
    intervals: Sequence[float] = (0.1, 1.0, 1.5, 7.0, 10.0),
) -> Any:
    """Draw an algorithm of a kind with any options, or with others at some times."""
    fixed: dict[str, Any] = {
        "interval": draw(st.sampled_from(intervals)),
        "first_plan": draw(st.sampled_from([None, None, 0.1, 3.7, 25.0])),
    }
    if "compatibility" in OPTIONS[name]:
        fixed["compatibility"] = draw(OPTIONS[name]["compatibility"])

    def made() -> Any:
        low = draw(few) if least is None else least
        options = {"min": low, "max": low + draw(st.integers(1, 6))}
        options |= {key: draw(values) for key, values in OPTIONS[name].items()}
        return make_algorithm(name, options | fixed)

    usual, changes = made(), []
    for _ in range(draw(st.integers(0, 2))):
        start = draw(instants)
        end = start + draw(st.sampled_from([13.0, 60.0, 1000.0]))
        changes.append((Period(draw(minutes), start, end), made(), ""))
    return ByTime(usual, changes) if changes else usual
