"""The compiled engine gives the reference's events, one by one and to the last digit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import event as noted
from hypothesis import given
from hypothesis import strategies as st

import farm
from farm.app.runs.simulated_run import simulated_run
from farm.columns import Coded
from farm.core.contention.laws import ContentionLaw, LinearSlowdown, LoadLimits, SlowdownTable
from farm.core.dispatching.balancers import RANKINGS
from farm.core.dispatching.heavy_light import heavy_share, slowdown_by
from farm.core.model import Job, Platform
from farm.core.policies import POLICIES, PolicyOptions
from farm.core.pools.spec import PoolSpec
from farm.core.rules import HeavyLightOptions, SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.results.log.writer import EventLogLines
from farm.results.summary.figures import RunInfo
from farm.results.summary.summary import summarise
from farm.results.table.recorder import Recorder, RunRecords
from farm.scenario import parse_scenario
from farm.sim.fast.coverage import Properties, why_not, why_not_these
from farm.sim.fast.event_log import log_of
from farm.sim.fast.job_arrays import load_of
from farm.sim.fast.kernel import layout, native
from farm.sim.fast.play import play as play_fast
from farm.sim.fast.provisioners import Asking
from farm.sim.fast.run_records import records
from farm.sim.setting import Setting
from farm.sim.simulation import play, provision
from farm.sim.world import SimulatedWorld
from farm.testing import small_scenario
from farm.workload import batches, needed_of
from provisioner.algorithms.registry import ALGORITHMS
from provisioner.algorithms.sizing import AnySizing
from provisioner.from_scenario import ByTime
from tests.fixtures import plain_kernel
from tests.fixtures.examples import examples, of_part
from tests.sim.drawn_algorithms import SPARED, algorithms_named

pytestmark = pytest.mark.usefixtures("kernel")

INFO: Any = {"name": "", "world": "simulated", "engine": "", "seed": 1, "policy": ""}

#: few instants and spans: simultaneous events are the difficult ones
spans = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 3.7, 10.0])
platforms = st.sampled_from(
    [Platform("a", True), Platform("b", True), Platform(None, True), Platform("a", False)]
)
laws = st.none() | st.builds(
    ContentionLaw,
    cpu=st.none()
    | st.builds(LinearSlowdown, st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.4]))
    | st.just(SlowdownTable((1.0, 1.0, 1.4, 1.8))),
    memory=st.none() | st.just(SlowdownTable((1.0, 1.3))),
    combine=st.sampled_from(["product", "max"]),
)


def spans_by_number(spans: tuple[float, ...]) -> Callable[[int], float]:
    """Return a span of the n-th builder: these, repeatedly."""
    return lambda number: spans[number % len(spans)]


#: without a measure: the slowdown by the laws of the pools that are drawn
holding = st.builds(
    HeavyLightOptions,
    limits=st.sampled_from([LoadLimits(0.5, 0.25), LoadLimits(1.4, 1.0), LoadLimits(1.0, 0.0)]),
    measure=st.sampled_from([heavy_share, None]),
    hold_at_most=st.sampled_from([0.0, 0.5, 3.0, 3600.0]),
    heavy_first=st.booleans(),
)
delays = st.none() | st.sampled_from([(0.0, 3.0), (0.1, 0.2)]).map(spans_by_number)


@st.composite
def pools(draw: st.DrawFn, *, changes: bool) -> list[PoolSpec]:
    """Draw pools, of which all builders stay unless there are changes.

    Most times they run every platform; else jobs of some have to be given up.
    """
    made = []
    lacks = draw(st.sampled_from([False, False, True]))
    kinds = [(("a", "b"), True), (("a",), False), (("a",), True), (("b", "c"), True)]
    for number, (processors, virtualized) in enumerate(kinds):
        broken = draw(st.sampled_from([None, None, lambda n: n % 2 == 0]))
        comes_and_goes: dict[str, Any] = {}
        if changes:
            provisioned = draw(st.booleans())
            time_outs = [None, None, 3.0, 20.0] if provisioned else [None, None, 400.0]
            spans = st.tuples(st.sampled_from([5.0, 60.0]), st.sampled_from([0.5, 7.0]))
            lives = draw(st.none() | st.none() | spans)
            comes_and_goes = {
                "provisioned": provisioned,
                "idle_timeout": draw(st.sampled_from(time_outs)),
                "shutdown_time": draw(st.sampled_from([0.0, 2.0])),
                "lifetime": None if lives is None else spans_by_number((1000.0, *lives)),
                "lost_at": draw(st.sampled_from([(), (), (1.0, 7.0), (5.0, 5.0, 9.5)])),
                "uses": draw(st.sampled_from([None, None, 1, 1, 2, 5])),
            }
            if provisioned and comes_and_goes["idle_timeout"] is None:
                broken = None  # otherwise it might stay forever in place of one that works
        made.append(
            PoolSpec(
                name=f"p{number}",
                processors=processors,
                virtualized=virtualized,
                builders=draw(st.integers(1 if number < 2 and not lacks else 0, 3)),
                slots=draw(st.integers(1, 4)),
                boot_time=draw(st.sampled_from([0.0, 0.0, 1.0, 5.0])),
                boot_delay=draw(delays),
                pickup_time=draw(st.sampled_from([0.0, 0.0, 0.0, 1.0, 2.5])),
                inter_job_time=draw(st.sampled_from([0.0, 0.0, 1.0])),
                speed=draw(st.sampled_from([1.0, 1.0, 0.7, 3.0])),
                fails_to_boot=broken,
                law=draw(laws),
                **comes_and_goes,
            )
        )
    return made


@st.composite
def sizing(draw: st.DrawFn, pools: list[PoolSpec]) -> dict[str, AnySizing]:
    """Draw the algorithm that sizes each provisioned pool."""
    names = sorted(ALGORITHMS)
    made = {}
    for pool in pools:
        if pool.provisioned:
            # with other algorithms builders that time out would come and go while a job waits
            others = names if pool.idle_timeout is None else []
            name = draw(st.sampled_from(["taskcluster", "taskcluster", *others]))
            intervals = (0.7, 1.0, 7.0) if name in SPARED else (10.0, 70.0)
            least = 0 if pool.idle_timeout is not None else draw(st.integers(0, 2))
            made[pool.name] = draw(algorithms_named(name, least, intervals))
    return made


@st.composite
def needs(draw: st.DrawFn, jobs: list[Job]) -> dict[str, Any]:
    """Draw what a job needs of these, each on one or several conditions."""
    if not jobs or not draw(st.booleans()):
        return {}
    names = draw(st.lists(st.sampled_from([job.id for job in jobs][-8:]), max_size=4))
    conditions = st.sampled_from(["", "", ":succeeded", ":ended", ":failed"])
    texts = tuple(f"{name}{draw(conditions)}" for name in names)
    return {"needs": texts, "needs_delay": draw(st.sampled_from([0.0, 0.0, 0.5, 1.0, 7.0]))}


@st.composite
def loads(draw: st.DrawFn) -> list[Job]:
    """Draw jobs in bursts, which may need others: those before them, or behind in their burst."""
    at, made = 0.0, []
    needing, forward = draw(st.booleans()), draw(st.booleans())
    for number in range(draw(st.integers(1, 40))):
        at += draw(st.sampled_from([0.0, 0.0, 0.0, 0.5, 1.0, 7.0]))
        made.append(
            Job(
                id=f"j{number}",
                arrived_at=at,
                service_time=draw(spans),
                declared_time=draw(st.none() | spans),
                platform=draw(platforms),
                level=draw(st.sampled_from([0, 0, 1, -1])),
                score=draw(st.sampled_from([0.0, 1.5])),
                priority=draw(st.sampled_from([0, 100])),
                matrix=draw(st.sampled_from([None, "m", "n"])),
                heavy=draw(st.booleans()),
                memory_heavy=draw(st.booleans()),
                fails=draw(st.booleans()),
                **(draw(needs(made)) if needing and not forward else {}),
            )
        )
    if needing and forward:
        for number, job in enumerate(made):
            others = [one for one in made[number + 1 :] if one.arrived_at == job.arrived_at]
            others += [one for one in made[:number] if one.arrived_at != job.arrived_at]
            made[number] = msgspec.structs.replace(job, **draw(needs(others)))
    return made


@st.composite
def rules(draw: st.DrawFn) -> SchedulingRules:
    """Draw rules that the compiled engine covers."""
    options = PolicyOptions(
        aging_factor=draw(st.sampled_from([0.0, 0.3, 10.0])),
        aging=draw(st.sampled_from(["linear", "matrix"])),
        seed=draw(st.integers(0, 9)),
    )
    return SchedulingRules(
        policy=POLICIES[draw(st.sampled_from(sorted(POLICIES)))](options),
        ranking=RANKINGS[draw(st.sampled_from(sorted(RANKINGS)))],
        retries=draw(st.integers(0, 4)),
        max_builders_lost=draw(st.integers(0, 3)),
        max_resets=draw(st.none() | st.none() | st.integers(0, 3)),
        heavy_light=draw(st.none() | st.none() | st.none() | holding),
        platform_grace=draw(st.sampled_from([None, None, 0.5, 4.0, 900.0])),
    )


def simulated(
    rules: Any, specs: list[PoolSpec], algorithms: Any, jobs: list[Job], estimator: str, ends: float
) -> tuple[RunRecords, bytes]:
    """Simulate by the scheduler; return the records and the event log."""
    recorder, log = Recorder(), EventLogLines()
    scheduler = Scheduler(rules, make_estimator(estimator), specs)
    world = SimulatedWorld(specs, batches(jobs), ends_at=ends, needed=needed_of(jobs))
    provision(world, scheduler, specs, algorithms)
    play(scheduler, world, [recorder, log])
    return recorder.records(), log.take()


def plain(column: Any) -> Any:
    """Return a column with its values, if these are numbered."""
    return column.tolist() if isinstance(column, Coded) else column


def compare(
    rules: Any,
    specs: list[PoolSpec],
    jobs: list[Job],
    estimator: str,
    ends: float,
    data: Any,
    algorithms: dict[str, Any] | None = None,
) -> None:
    """Simulate with both engines, and compare if the compiled one could."""
    if rules.heavy_light is not None and rules.heavy_light.measure is None:
        measure = slowdown_by({pool.name: pool.law for pool in specs if pool.law is not None})
        options = msgspec.structs.replace(rules.heavy_light, measure=measure)
        rules = msgspec.structs.replace(rules, heavy_light=options)
    if algorithms is None:
        algorithms = data.draw(sizing(specs))
    setting = Setting(specs, rules, algorithms, ends)
    assert not why_not(setting, make_estimator(estimator))
    assert not why_not_these(setting, Properties.of(jobs))
    load = load_of(rules.policy, make_estimator(estimator), jobs, heavy_light=rules.heavy_light)
    played = play_fast(load, setting, noted=True)
    noted(f"played: {played is not None}, comes and goes: {any(s.loses for s in specs)}")
    if played is None:
        return
    kept, log = simulated(rules, specs, algorithms, jobs, estimator, ends)
    told = b"".join(log_of(played, data.draw(st.sampled_from([1, 5, 1000])))).splitlines()
    for fast, reference in zip(told, log.splitlines(), strict=True):
        assert fast == reference
    of_play = records(played)
    for part in ("jobs", "lost", "builders", "void"):
        ours, theirs = (getattr(one, part) for one in (of_play, kept))
        for name in ours.columns:
            mine, other = (plain(getattr(table, name)) for table in (ours, theirs))
            if isinstance(mine, list):
                assert mine == other, f"{part}: {name}"
            else:
                np.testing.assert_array_equal(mine, other, f"{part}: {name}")
    assert (of_play.events, of_play.last_at) == (kept.events, kept.last_at)
    summaries = [summarise(one, RunInfo(**INFO), 0.0) for one in (of_play, kept)]
    assert summaries[0] == summaries[1]


drawn = given(
    rules(),
    loads(),
    st.sampled_from(["oracle", "declared"]),
    st.sampled_from([0.0, 0.0, 30.0, 100.0]),
    st.data(),
)
changing = pytest.mark.parametrize(
    "changes", [True, False], ids=["builders change", "builders stay"]
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(4))
@changing
def test_the_same_events(changes, part):
    """Protects equality on many farms and loads drawn at random."""

    @of_part(part)
    @examples(60)
    @drawn
    def same_events(rules, jobs, estimator, ends_at, data):
        compare(rules, data.draw(pools(changes=changes)), jobs, estimator, ends_at, data)

    same_events()


#: formulas whose drawn farms take seconds
LONG_DRAWN = {"buildkite", "jenkins"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LONG_DRAWN else [])
        for name in layout.FORMULAS[1:]
    ],
)
@examples(15)
@given(loads(), st.sampled_from([30.0, 300.0]), st.data())
def test_each_formula_plans_as_its_algorithm(name, jobs, ends, data):
    """Protects the formulas: the loop plans by them without a halt, and as the algorithm does."""
    specs = [
        PoolSpec(
            name="p",
            processors=("a", "b"),
            provisioned=True,
            slots=data.draw(st.integers(1, 3)),
            boot_time=data.draw(st.sampled_from([0.0, 1.0, 20.0])),
            inter_job_time=data.draw(st.sampled_from([0.0, 1.0])),
            shutdown_time=data.draw(st.sampled_from([0.0, 2.0])),
            uses=data.draw(st.sampled_from([None, None, 1])),
        ),
        PoolSpec(name="q", processors=("a",), virtualized=False, builders=1),
    ]
    algorithm = data.draw(algorithms_named(name, None, (1.0, 1.5, 7.0)))
    with pytest.MonkeyPatch.context() as patch:
        if not isinstance(algorithm, ByTime):
            patch.setattr(Asking, "answer", lambda *_: pytest.fail("it was asked"))
        compare(SchedulingRules(), specs, jobs, "oracle", ends, data, {"p": algorithm})


@changing
@drawn
@examples(12)
def test_the_same_events_by_python(changes, rules, jobs, estimator, ends_at, data):
    """Protects the kernel's sources: run as they are, they give what they give compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "is_there", lambda: True)
        patch.setattr(native, "Call", plain_kernel.Call)
        # where builders come and go for long, Python would take minutes over one example
        patch.setattr("farm.sim.fast.play._goes_nowhere", lambda farm: len(farm.builders) > 100)
        compare(rules, data.draw(pools(changes=changes)), jobs, estimator, ends_at, data)


@pytest.mark.parametrize("probability", [0, 0.5, 1])
def test_a_truth_value_of_all_jobs_is_in_the_log(probability):
    """Where all jobs are heavy, no line may lack it: a column of equal values is no default."""
    load = {"every": "4s", "count": 5, "service_time": "20s", "heavy": {"probability": probability}}
    scenario = parse_scenario(small_scenario({"slots": 2}, load))
    logs = [
        b"".join(simulated_run(scenario, keep_events=True, engine=engine).kept.log_lines())
        for engine in ("fast", "reference")
    ]
    assert logs[0] == logs[1]
    if probability == 1:
        assert logs[0].count(b'"heavy":true') == 5


def both_logs(document: dict[str, Any]) -> list[bytes]:
    """Return the event log of each engine."""
    scenario = parse_scenario(document)
    return [
        b"".join(simulated_run(scenario, keep_events=True, engine=engine).kept.log_lines())
        for engine in ("fast", "reference")
    ]


def test_platforms_without_builders_are_watched_in_the_order_of_their_jobs():
    """It decides which alarms are set; a source may name its platforms in another order."""
    # a loss of a builder of another platform: after its alarm all others are set
    pool = {"platform": {"processor": "other"}, "losses": {"at": [5]}}
    platforms = [{"processor": "amd64"}, {"processor": "arm64"}]
    load = {"every": 1, "count": 6, "service_time": 1, "platform": platforms}
    document = small_scenario(pool, load, seed=5, scheduling={"platform_grace": 10})
    document["allow_unrunnable"] = True
    fast, reference = both_logs(document)
    assert fast == reference
    assert fast.index(b'"arm64"') < fast.index(b'"amd64"')


def test_needs_of_jobs_that_come_too_late_are_in_no_table(tmp_path):
    """Both engines write the same columns where the phases end before jobs with needs arrive."""
    table = tmp_path / "jobs.csv"
    table.write_text("job_id,submitted_at_s,service_time_s,needs\nbuild,1,1,\ntest,50,1,build\n")
    document = small_scenario({}, {"every": 1, "count": 1, "service_time": 1})
    document |= {"workload": [{"trace": {"path": str(table)}}], "phases": {"run": 20}}
    document["workload"][0]["trace"]["time_scale"] = 2
    fast, reference = (farm.simulate(document, engine=engine) for engine in ("fast", "reference"))
    assert fast.jobs.columns == reference.jobs.columns
