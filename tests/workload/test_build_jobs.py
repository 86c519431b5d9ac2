"""build_jobs: order, ids, traits, independent streams, batches."""

from collections import Counter
from itertools import islice
from typing import Any

import pytest

from farm.core.errors import ScenarioError
from farm.core.model import Job, Platform
from farm.workload import batches, build_jobs, stream

from .conftest import ScenarioOf, Write


def arrivals(**keys: Any) -> dict[str, Any]:
    """Return a Poisson source with these keys."""
    given = {"service_time": {"exponential": {"mean": 10}}, **keys}
    if "every" not in given:
        given.setdefault("poisson", {"rate": 1})
    return {"arrivals": {"count": 2000, **given}}


def test_a_seed_gives_the_same_jobs(scenario_of: ScenarioOf) -> None:
    """Same scenario, same jobs; another seed, others."""
    first, again = (list(build_jobs(scenario_of(arrivals()))) for _ in range(2))
    other = list(build_jobs(scenario_of(arrivals(), seed=2)))
    assert first == again
    assert first != other
    assert first[0].id == "amd64-000001"
    assert first[0].platform == Platform("amd64", True)
    assert first[0].declared_time == first[0].service_time


def test_the_first_draws_of_a_stream_are_fixed() -> None:
    """A recorded run stays reproducible: streams do not change with new versions."""
    assert stream(1, "a").random() == 0.5728746054585846
    assert stream(1, "workload", 0).random() != stream(1, "workload", "0").random()
    assert stream(1, "ab", "c").random() != stream(1, "a", "bc").random()


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"kind": ["a", "b"]}, {"kind"}),
        ({"attributes": {"user": ["a", "b"]}}, {"attributes"}),
        ({"fails": 0.5}, {"fails"}),
        ({"level": [1, 2]}, {"level"}),
        ({"score": [1, 2.5]}, {"score"}),
        ({"priority": [-1, 2]}, {"priority"}),
        ({"heavy": {"probability": 0.5}}, {"heavy"}),
        ({"memory_heavy": {"threshold": 10}}, {"memory_heavy"}),
        ({"declared": {"factor": {"uniform": {"min": 1, "max": 2}}}}, {"declared_time"}),
        ({"work_size": {"per_second": 10}}, {"size"}),
        ({"mode": {"timed": 3, "stress": 1}, "threads": [1, 4]}, {"mode", "threads"}),
        ({"platform": [{"processor": "amd64"}, {}]}, {"platform", "id"}),
        ({"service_time": {"uniform": {"min": 1, "max": 2}}}, {"service_time", "declared_time"}),
        ({"poisson": {"rate": 2}}, {"arrived_at"}),
    ],
)
def test_changing_one_part_reshuffles_no_other(
    scenario_of: ScenarioOf, change: dict[str, Any], changed: set[str]
) -> None:
    """Each kind of draw has its own stream: only what was changed changes."""
    before = list(build_jobs(scenario_of(arrivals())))
    after = list(build_jobs(scenario_of(arrivals(**change))))
    different = {
        field
        for field in Job.__struct_fields__
        if any(getattr(a, field) != getattr(b, field) for a, b in zip(before, after, strict=True))
    }
    assert different == changed


def test_named_sources_are_independent(scenario_of: ScenarioOf) -> None:
    """A source put before a named one leaves its jobs as they were."""
    alone = list(build_jobs(scenario_of(arrivals(name="web"))))
    both = build_jobs(scenario_of(arrivals(name="infra"), arrivals(name="web")))
    assert [job for job in both if job.id.startswith("web-")] == alone


def test_sources_are_merged_by_arrival_then_position_then_serial(scenario_of: ScenarioOf) -> None:
    """At one instant the list's order holds, then each source's own."""
    jobs = build_jobs(
        scenario_of(
            arrivals(name="b", every=10, count=3),
            arrivals(name="a", every=5, count=4),
            {"matrices": {"name": "m", "every": 10, "count": 1, "size": 2, "service_time": 1}},
        )
    )
    assert [(job.arrived_at, job.id) for job in jobs] == [
        (0.0, "b-000001"),
        (0.0, "a-000001"),
        (0.0, "m-0001-001"),
        (0.0, "m-0001-002"),
        (5.0, "a-000002"),
        (10.0, "b-000002"),
        (10.0, "a-000003"),
        (15.0, "a-000004"),
        (20.0, "b-000003"),
    ]


def test_ids_are_unique_across_sources(scenario_of: ScenarioOf) -> None:
    """Unnamed sources of one platform, and one named like them, keep apart."""
    sources = [arrivals(count=5), arrivals(count=5), arrivals(count=5, name="amd64")]
    jobs = list(build_jobs(scenario_of(*sources)))
    assert len({job.id for job in jobs}) == 15
    assert {job.id[:-7] for job in jobs} == {"amd64.2", "amd64.3", "amd64"}


def test_matrices_are_apart_across_sources(scenario_of: ScenarioOf, write: Write) -> None:
    """Two recordings number their jobs alike; fail-fast of one matrix must not cancel another's."""
    for name in ("a.swf", "b.swf"):
        write(name, f"1 0 -1 10 2 {'-1 ' * 13}\n")
    write("c.csv", "submitted_at_s,service_time_s,matrix\n0,10,1\n0,10,\n")
    swf, other, csv = (
        {"trace": {"path": path, "parallel": "split"}} for path in ("a.swf", "b.swf", "c.csv")
    )
    jobs = build_jobs(scenario_of(swf, other, csv))
    assert [job.matrix for job in jobs] == ["a-1", "a-1", "b-1", "b-1", "c-1", None]
    assert [job.matrix for job in build_jobs(scenario_of(swf))] == ["1", "1"]


def test_jobs_are_made_one_by_one(scenario_of: ScenarioOf) -> None:
    """A workload of a million million jobs begins at once."""
    sources = [arrivals(count=10**12), arrivals(count=10**12, name="more")]
    assert len(list(islice(build_jobs(scenario_of(*sources)), 100))) == 100


def test_batches_are_the_jobs_of_one_instant(scenario_of: ScenarioOf) -> None:
    """Jobs released together are submitted together."""
    source = {"matrices": {"every": 30, "count": 3, "size": 4, "service_time": 1}}
    found = [(at, len(jobs)) for at, jobs in batches(build_jobs(scenario_of(source)))]
    assert found == [(0.0, 4), (30.0, 4), (60.0, 4)]


def test_phases_end_the_arrivals(scenario_of: ScenarioOf) -> None:
    """With phases a generator needs no limit: it continues until the last one ends."""
    scenario = scenario_of(
        {"arrivals": {"every": 10, "service_time": 1}},
        phases={"ramp_up": 20, "run": 60, "ramp_down": 20},
    )
    assert [job.arrived_at for job in build_jobs(scenario)][-1] == 90.0


def test_an_empty_workload_is_refused(scenario_of: ScenarioOf) -> None:
    """Limits that leave no jobs are reported before the run starts."""
    with pytest.raises(ScenarioError, match="workload: found no job at all"):
        build_jobs(scenario_of({"arrivals": {"poisson": {"rate": "1/d"}, "duration": "1ms",
                                             "service_time": 1}}))  # fmt: skip


def test_jobs_of_a_matrix_arrive_apart(scenario_of: ScenarioOf) -> None:
    """In order of arrival, also where the next matrix begins before one is complete."""
    source = {
        "matrices": {"every": 3, "count": 2, "size": 3, "service_time": 1, "jobs_apart": "2s"}
    }
    jobs = list(build_jobs(scenario_of(source)))
    arrivals = [(job.arrived_at, (job.matrix or "")[-1]) for job in jobs]
    assert arrivals == [(0, "1"), (2, "1"), (3, "2"), (4, "1"), (5, "2"), (7, "2")]


@pytest.mark.parametrize(
    ("among", "per_matrix"), [("matrix", [2, 2, 2, 2]), ("batch", [0, 0, 0, 8])]
)
def test_the_longest_share_is_heavy(
    scenario_of: ScenarioOf, among: str, per_matrix: list[int]
) -> None:
    """`longest` counts within each matrix, or over all that is released at one instant."""
    kinds = {"matrices": {"every": 0, "count": 4, "size": 10, "heavy": {"longest": 0.2,
             "among": among}, "service_time": {"uniform": {"min": 1, "max": 2}}}}  # fmt: skip
    jobs = list(build_jobs(scenario_of(kinds)))
    heavy = [job for job in jobs if job.heavy]
    assert len(heavy) == 8
    if among == "matrix":
        counts = Counter(job.matrix for job in heavy)
        assert sorted(counts.values()) == per_matrix
    else:
        lightest = min(job.service_time for job in heavy)
        assert all(job.service_time <= lightest for job in jobs if not job.heavy)


def test_traits_build_on_each_other(scenario_of: ScenarioOf) -> None:
    """Kind decides failing, weight and time; invocation is made of attributes."""
    source = arrivals(
        kind={"test": 3, "build": 1},
        service_time={"by_kind": {"test": 5, "build": {"uniform": {"min": 60, "max": 90}}}},
        fails={"by_kind": {"test": 0.5}},
        heavy={"kind": ["build"]},
        attributes={"team": {"web": 3, "infra": 1}, "user": ["ada", "bob"]},
        invocation=["team", "user", "nightly"],
    )
    jobs = list(build_jobs(scenario_of(source)))
    tests = [job for job in jobs if job.kind == "test"]
    assert len(tests) == pytest.approx(1500, rel=0.05)
    assert all(job.service_time == 5.0 and not job.heavy for job in tests)
    assert sum(job.fails for job in tests) == pytest.approx(len(tests) / 2, rel=0.1)
    assert all(job.heavy and not job.fails and job.service_time >= 60
               for job in jobs if job.kind == "build")  # fmt: skip
    job = jobs[0]
    assert job.attributes["invocation"] == "/".join(
        [job.attributes["team"], job.attributes["user"], "nightly"]
    )
    # few dicts for many jobs
    assert len({id(job.attributes) for job in jobs}) == 4


def test_repeated_actions_are_the_same_work(scenario_of: ScenarioOf) -> None:
    """Jobs that share an action share what they do; the share of repeats is as asked."""
    source = arrivals(action={"reuse": 0.3, "window": 10}, kind=["a", "b"], fails=0.2,
                      work_size={"per_second": 2}, heavy={"probability": 0.3})  # fmt: skip
    jobs = list(build_jobs(scenario_of(source)))
    works: dict[str | None, set[tuple[object, ...]]] = {}
    for job in jobs:
        work = (job.service_time, job.kind, job.platform, job.fails, job.size, job.heavy)
        works.setdefault(job.action, set()).add(work)
    assert len(works) == pytest.approx(1400, rel=0.05)
    assert all(len(work) == 1 for work in works.values())


def test_weights_of_platforms_and_sizes(scenario_of: ScenarioOf) -> None:
    """Platforms and matrix sizes are drawn in proportion to their weights."""
    platforms = [{"processor": "amd64", "weight": 3}, {"weight": 1}]
    jobs = list(build_jobs(scenario_of(arrivals(platform=platforms))))
    counts = Counter(job.platform for job in jobs)
    assert counts[Platform("amd64")] == pytest.approx(1500, rel=0.05)
    source = {"matrices": {"every": 1, "count": 1000, "size": {"2": 1, "4": 1}, "service_time": 1}}
    assert len(list(build_jobs(scenario_of(source)))) == pytest.approx(3000, rel=0.05)
