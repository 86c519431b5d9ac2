"""Switches of slots between invocations: how many, and what they take."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import farm
from farm.app.recorded.result import Result
from farm.core.errors import InputError, ScenarioError

POOL = {"name": "linux", "platform": {"processor": "amd64"}, "builders": 2, "slots": 2}


def played(workload: list[Any], *, engine: Any = "auto", **pool: Any) -> Result:
    """Simulate some jobs on two builders with two slots."""
    document = {"version": 1, "name": "drawn", "pools": [POOL | pool], "workload": workload}
    return farm.simulate(document, keep_events=True, engine=engine)


def by_hand(result: Result, times: dict[str, float]) -> tuple[int, float]:
    """Go through the slots' jobs in the order of their dispatch."""
    jobs = {row["job"]: row for row in result.events if row["event"] == "job-submitted"}
    last: dict[tuple[str, int], Any] = {}
    count, time = 0, 0.0
    for row in result.events:
        if row["event"] == "job-dispatched":
            job, slot = jobs[row["job"]], (row["builder"], row["slot"])
            now = {"kind": job.get("kind"), "team": job.get("attributes", {}).get("team")}
            before = last.get(slot, now)
            differing = [key for key in times if before[key] != now[key]]
            last[slot] = now
            count += bool(differing)
            time += max((times[key] for key in differing), default=0.0)
    return count, time


jobs = st.fixed_dictionaries(
    {
        "every": st.sampled_from(["1s", "0s", "3s"]),
        "count": st.integers(1, 12),
        "service_time": st.sampled_from([{"constant": "2s"}, {"constant": "5s"}]),
        "kind": st.sampled_from(["unit", "lint"]),
        "attributes": st.sampled_from([{}, {"team": "web"}, {"team": "core"}]),
    }
)


@settings(max_examples=5)
@given(
    st.lists(jobs, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(["kind", "team"]), st.integers(1, 9), min_size=1),
)
def test_what_is_counted_is_what_happened(sources: list[Any], times: dict[str, float]) -> None:
    """The figures come from a table of jobs, the delays from the builders: both must agree."""
    names = [{"arrivals": {"name": f"s{n}", **one}} for n, one in enumerate(sources)]
    result = played(names, switch_times={key: f"{time}s" for key, time in times.items()})
    found = result.summary["switches"], result.summary["switching_time_s"]
    assert found == by_hand(result, times)
    started = result.jobs["started_at_s"] - result.jobs["dispatched_at_s"]
    assert float(started.sum()) == pytest.approx(found[1])


def test_times_of_zero_change_nothing() -> None:
    """Who does not use them has the same events, and the compiled loop."""
    source = [{"arrivals": {"name": "s", "every": "1s", "count": 20, "service_time": "5s"}}]
    plain, zero = played(source), played(source, switch_times={"kind": "0s"})
    assert list(plain.events) == list(zero.events)
    assert "switches" in plain.summary
    assert plain.summary["switches"] is None
    with pytest.raises(InputError, match="slots that go over to another invocation"):
        played(source, switch_times={"kind": "1s"}, engine="fast")


def test_stickiness_saves_switches() -> None:
    """The example's point, in the figures that its page tells."""
    sticky = farm.simulate("sticky-images").summary
    plain = farm.simulate("sticky-images", scheduling__stickiness=[]).summary
    assert (sticky["switches"], sticky["makespan_s"]) == (10, 110.0)
    assert (plain["switches"], plain["makespan_s"]) == (73, 236.0)
    assert (sticky["switching_time_s"], plain["switching_time_s"]) == (40.0, 292.0)


def test_an_unknown_key_is_named() -> None:
    """With what is allowed, as for fair share."""
    with pytest.raises(ScenarioError, match="unknown key 'imag'; did you mean image"):
        played([], switch_times={"imag": "1s"})
