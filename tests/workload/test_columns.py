"""Columns: the same draws as one by one, blocks joined and merged, jobs made on demand."""

from hashlib import sha256
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any

import pytest

from farm.core.model import JOB_FIELDS, Job
from farm.scenario.distributions import Distribution
from farm.workload import build_jobs, build_several, stream
from farm.workload.blocks import DEFAULTS, JobColumns
from farm.workload.generators import serials
from farm.workload.streams import MANY, drawn, uniforms

from .conftest import ScenarioOf

EVERYTHING = {
    "kind": {"a": 3, "b": 1},
    "attributes": {"team": {"x": 3, "y": 1}, "user": ["u", "v", "w"], "one": "k"},
    "attribute_sets": [{"attributes": {"p": "1"}}, {"attributes": {"p": "3"}, "weight": 2}],
    "invocation": ["team", "p", "night"],
    "fails": {"by_kind": {"a": 0.5}},
    "memory_heavy": {"probability": 0.3},
    "work_size": {"per_second": 2.5, "factor": {"uniform": {"min": 1, "max": 2}}},
    "action": {"reuse": 0.4, "window": 5},
    "declared": {"factor": {"lognormal": {"median": 1, "sigma": 0.3}}},
    "level": [1, 2, -3],
    "score": {"1.5": 2, "7": 1},
    "threads": [1, 4],
    "platform": [{"processor": "amd64", "weight": 3}, {}],
    "service_time": {
        "by_kind": {
            "a": {"empirical": {"quantiles": [1, 2, 7, 40]}},
            "b": {"exponential": {"mean": 9}},
        },
        "max": "30s",
    },
}  # fmt: skip
SOURCES = (
    {"arrivals": {**EVERYTHING, "poisson": {"rate": "400/h"}, "count": 500,
                  "heavy": {"kind": ["b"]}, "daily_cycle": [0.5, 0, 2, *[1] * 21]}},
    {"matrices": {**EVERYTHING, "every": 60, "count": 20, "size": {"3": 1, "9": 2},
                  "jobs_apart": 7, "heavy": {"longest": 0.3, "among": "batch"}}},
)  # fmt: skip
#: groups with weights
BRANCHES = {"main:latest": 3, "work:cancel": 1}


def test_uniforms_are_those_of_the_stream() -> None:
    """Drawn together or one by one, in any pieces, they are the same numbers."""
    one, other = stream(1, "a"), stream(1, "a")
    singly = [one.random() for _ in range(1000)]
    together = [number for size in (1, 0, 640, 359) for number in uniforms(other, size).tolist()]
    assert together == singly
    assert one.random() == other.random()


def test_serial_numbers_beyond_32_bits() -> None:
    """Ids stay apart however many jobs a source makes; a cycle can make more than expected."""
    first = 2**31 - 3
    assert serials(first, 6).tolist() == list(range(first, first + 6))
    assert serials(7, 2).dtype == "int32"


def test_numbers_drawn_by_numpy_are_those_of_the_stream() -> None:
    """Very many are drawn by NumPy's generator: the same, and the stream continues behind them."""
    one, other = stream(1, "a"), stream(1, "a")
    sizes = (5, MANY, MANY + 313, 7)
    together = [number for size in sizes for number in uniforms(other, size).tolist()]
    assert together == [one.random() for _ in range(sum(sizes))]
    assert one.getstate() == other.getstate()


@pytest.mark.parametrize(
    "form",
    [
        3,
        {"exponential": {"mean": 9}},
        {"empirical": {"quantiles": [1, 2, 7, 40]}},
        {"empirical": {"quantiles": [1, 2, 7, 40]}, "max": 5},
        {"empirical": {"values": [3, 1, 2]}},
        {"empirical": {"values": [3, 1, 2], "interpolate": True}},
        {"pareto": {"alpha": 0.01, "scale": 3}, "max": 1000},
    ],
)
def test_quantiles_of_many_are_those_of_each(form: Any) -> None:
    """To the last bit: a run repeated by another version draws the same service times."""
    quantile = Distribution.model_validate(form).quantile_function()
    numbers = uniforms(stream(1, "b"), 2000)
    assert drawn(quantile, numbers).tolist() == list(map(quantile, numbers.tolist()))


OF_PIPELINES = {"needs", "needs_delay", "group"}
"""Fields that say how jobs hang together; they came later than the digests below."""


def test_the_jobs_of_a_seed_stay_as_they_are(scenario_of: ScenarioOf) -> None:
    """All draws of all traits, from generators of both kinds: a recorded run can be repeated."""
    for sources, digest in (
        (SOURCES[:1], "77a9f01bcab99e96"),
        (SOURCES[1:], "9bd2495869313534"),
        (SOURCES, "cd05fe3860c08f2c"),
    ):
        jobs = list(build_jobs(scenario_of(*sources)))
        drawn_fields = [name for name in JOB_FIELDS if name not in OF_PIPELINES]
        values = attrgetter(*drawn_fields)
        assert sha256(repr([values(job) for job in jobs]).encode()).hexdigest()[:16] == digest


def test_sources_are_merged_as_single_jobs_would_be(scenario_of: ScenarioOf) -> None:
    """By arrival, then the position of the source, across the blocks of each."""
    arrivals = [
        {"arrivals": {"name": name, "every": every, "count": count, "service_time": 1, **more}}
        for name, every, count, more in (
            ("b", 1, 9000, {}), ("a", 3, 5000, {"fails": 0.5}), ("c", 0.5, 20_000, {"kind": "x"}),
            ("last", 30_000, 2, {"attributes": {"team": "t"}}),
        )
    ]  # fmt: skip
    whole = scenario_of(*arrivals)
    alone = [build_jobs(scenario_of(one)) for one in arrivals]
    found = build_jobs(whole)
    assert isinstance(found, JobColumns)
    some = list(islice(merge(*alone, key=lambda job: job.arrived_at or 0.0), 30_000))
    assert [(job.id, job.arrived_at, job.kind) for job in islice(found, 30_000)] == [
        (job.id, job.arrived_at, job.kind) for job in some
    ]


def test_several_seeds_are_drawn_as_each_of_them(scenario_of: ScenarioOf) -> None:
    """Drawn together, each seed has the jobs that it has alone; or it is left to be made alone."""
    alone = {"poisson": {"rate": "90/h"}, "weekly_cycle": [1, 0.2] * 84, "service_time": "1m"}
    alone["group"] = BRANCHES
    sources = [
        {"arrivals": {**SOURCES[0]["arrivals"], "action": None, "count": None, "duration": "3h"}},
        {"arrivals": {**alone, "platform": {"processor": "amd64"}, "start": "7m"}},
        {"arrivals": {"every": "40s", "service_time": "9s"}},
    ]
    phases = {"ramp_up": 0, "run": "2h", "ramp_down": 0}
    scenario, seeds = scenario_of(*sources, phases=phases), [3, 1, 4]
    together = build_several(scenario, seeds)
    assert together
    for seed, found in zip(seeds, together.each(), strict=True):
        assert list(found.jobs) == list(build_jobs(scenario.model_copy(update={"seed": seed})))
    assert build_several(scenario_of(SOURCES[0]), seeds) is None
    assert build_several(scenario_of(SOURCES[1]), seeds) is None
    rare = {"poisson": {"rate": "1/h"}, "duration": "1h", "service_time": 1}
    assert build_several(scenario_of({"arrivals": rare}), range(20)) is None


@pytest.mark.parametrize(
    "sources",
    [
        SOURCES,
        # the last block is of one source, those before it of both
        [{"arrivals": {"every": every, "service_time": 1, "count": count, "name": name}}
         for name, every, count in (("few", 20, 3), ("many", 1, 300))],
    ],
)  # fmt: skip
def test_held_jobs_are_those_that_are_made(scenario_of: ScenarioOf, sources: Any) -> None:
    """Held or passed through, singly or by column, before or after the others."""
    scenario = scenario_of(*sources)
    made = list(build_jobs(scenario))
    held = build_jobs(scenario)
    assert isinstance(held, JobColumns)
    assert not held.hold(10)
    assert list(held) == made
    held = build_jobs(scenario)
    assert isinstance(held, JobColumns)
    assert held.hold()
    assert [held[place] for place in range(len(held))] == made
    assert held.ids() == [job.id for job in made]
    assert held.held is not None
    given = held.held.taken(slice(100, 200)).given()
    for field in set(Job.__struct_fields__) - {"id"}:
        column = given.get(field, [DEFAULTS[field]] * 100)
        values = column if isinstance(column, list) else column.tolist()
        assert values == [getattr(job, field) for job in made[100:200]], field


def test_jobs_of_a_trace_have_what_it_says(scenario_of: ScenarioOf, tmp_path: Any) -> None:
    """Cells that are empty in some rows have the default, or what the scenario draws from."""
    path = tmp_path / "t.csv"
    path.write_text(
        "submitted_at_s,service_time_s,job_id,kind,size,declared_time_s,attributes\n"
        '0,10,a,x,7,,"{""team"": ""t""}"\n1,20,b,,,5,\n2,30,c,x,,,\n'
    )
    jobs = list(build_jobs(scenario_of({"trace": {"path": str(path), "fails": {"by_kind": {"x": 1}},
                                                  "attributes": {"user": "u"}}})))  # fmt: skip
    assert [(job.kind, job.size, job.declared_time, job.fails) for job in jobs] == [
        ("x", 7.0, 10.0, True), ("job", None, 5.0, False), ("x", None, 30.0, True),
    ]  # fmt: skip
    assert [job.attributes for job in jobs] == [{"team": "t", "user": "u"}, *[{"user": "u"}] * 2]


NAMED = {
    "every": 60,
    "count": 40,
    "service_time": {"exponential": {"mean": 9}},
    "platform": [{"processor": "amd64", "weight": 3}, {}],
    "jobs": [{"name": "test", "count": 3}, {"name": "deploy", "group": "deploy:2"}],
}


@pytest.mark.parametrize(
    "source", [SOURCES[1], {"matrices": NAMED}, SOURCES[0]], ids=["size", "jobs", "arrivals"]
)
def test_groups_are_drawn_without_changing_other_draws(
    scenario_of: ScenarioOf, source: dict[str, Any]
) -> None:
    """A matrix has one group, as a push has one branch, save for jobs that have their own."""
    ((sort, options),) = source.items()
    plain = list(build_jobs(scenario_of(source)))
    grouped = list(build_jobs(scenario_of({sort: {**options, "group": BRANCHES}})))
    others = attrgetter(*(name for name in JOB_FIELDS if name != "group"))
    assert list(map(others, grouped)) == list(map(others, plain))
    by_run: dict[str, set[str | None]] = {}
    for job in grouped:
        own = "deploy:2" if job.kind == "deploy" else None
        if own is not None:
            assert job.group == own
        else:
            by_run.setdefault(job.matrix or job.id, set()).add(job.group)
    assert all(len(groups) == 1 for groups in by_run.values())
    drawn_groups = [group for groups in by_run.values() for group in groups]
    assert set(drawn_groups) == set(BRANCHES)
    assert drawn_groups.count("main:latest") > drawn_groups.count("work:cancel")
    assert {job.group for job in plain} <= {None, "deploy:2"}
