"""Heavy-light: which builders take heavy jobs, by every measure of load, and its worst cases."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from farm.core.contention.laws import THESIS_TABLE, ContentionLaw, LoadLimits, ThreadSlowdown
from farm.core.dispatching.heavy_light import heavy_share, is_measured, slowdown_by
from farm.core.events import Event, LoadReported
from farm.core.model import Job
from farm.core.pools.spec import PoolSpec
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import HeavyLightOptions
from tests.fixtures.examples import examples
from tests.worlds.virtual import FAIR, Ledger, Story

HALF = LoadLimits(0.5, 0.25)


class Loaded(Ledger):
    """Builders of these slots in one pool; what is started is seen, as job@builder."""

    def __init__(self, *slots: int, rule: HeavyLightOptions | None = None, **rules: Any) -> None:
        super().__init__(
            heavy_light=rule or HeavyLightOptions(limits=HALF, measure=heavy_share), **rules
        )
        for number, count in enumerate(slots):
            self.join(f"b{number}", index=number, slots=count, processors=())

    def tell(self, event: Event) -> list[str]:
        super().tell(event)
        return self.starts

    def submit(self, names: str, **more: Any) -> Any:  # type: ignore[override]
        """Submit jobs together; a name that begins with h is a heavy job's."""
        return super().submit(*(self.job(n, heavy=n[0] == "h", **more) for n in names.split()))

    def report(self, builder: str, *, overloaded: bool) -> list[str]:
        return self.tell(LoadReported(self.at, builder, 2.0 if overloaded else 1.0, overloaded))


def reported(**more: Any) -> HeavyLightOptions:
    """Return the rule by which builders report their load."""
    return HeavyLightOptions(limits=LoadLimits(1.4, 1.0), measure=None, **more)


def test_near_overload_a_builder_gets_light_jobs_only():
    """Two heavy jobs of four slots are the limit; light ones pass the held ones."""
    farm = Loaded(4)
    assert farm.submit("h1 h2 h3 l1 l2 l3") == ["h1@b0", "h2@b0", "l1@b0", "l2@b0"]
    assert farm.finish("l1") == ["l3@b0"]
    assert farm.finish("l2") == []  # h3 is held though a slot is free
    assert farm.finish("h1") == ["h3@b0"]


def test_a_builder_with_room_may_prefer_heavy_jobs():
    """The thesis's order (7.1): heavy jobs first while there is room, though light ones are older.

    Without it the policy decides; levels stand above both.
    """
    rule = HeavyLightOptions(limits=LoadLimits(1.0, 0.5), measure=heavy_share, heavy_first=True)
    for first, then in ((None, "l2"), (rule, "h1")):
        farm = Loaded(1, rule=first)
        farm.submit("l1")
        farm.submit("l2 l3")
        farm.submit("h1 h2")
        assert farm.finish("l1") == [f"{then}@b0"]
    assert farm.submit("l4", level=1) == []
    assert farm.finish("h1") == ["l4@b0"]
    assert farm.finish("l4") == ["h2@b0"]
    assert farm.finish("h2") == ["l2@b0"]


def test_between_the_thresholds_a_builder_keeps_its_state():
    """One heavy job less is not room yet; then all that fit are dispatched at once."""
    farm = Loaded(4, rule=HeavyLightOptions(limits=LoadLimits(0.5, 0.0), measure=heavy_share))
    farm.submit("h1 h2 h3 h4")
    assert farm.finish("h1") == []
    assert farm.finish("h2") == ["h3@b0", "h4@b0"]


def test_a_heavy_job_goes_where_the_load_is_lowest():
    """Busy with light jobs beats free but heavy; light jobs follow the ranking."""
    farm = Loaded(4, 4)
    assert farm.submit("h1") == ["h1@b0"]
    assert farm.submit("l1 l2") == ["l1@b1", "l2@b0"]
    assert farm.submit("l3 l4") == ["l3@b1", "l4@b0"]
    farm.finish("l4")
    farm.finish("l2")
    assert farm.submit("h2") == ["h2@b1"]
    farm = Loaded(4)
    farm.join("b1", index=1, slots=4)  # of another kind
    assert farm.submit("h1 h2") == ["h1@b0", "h2@b1"]


def test_an_idle_builder_has_room_whatever_it_reports():
    """The worst case: every builder says overloaded and idles. A heavy job does not wait."""
    farm = Loaded(2, 2, rule=reported())
    farm.report("b0", overloaded=True)
    farm.report("b1", overloaded=True)
    assert farm.submit("h1 h2") == ["h1@b0", "h2@b1"]


def test_reported_load_lets_one_heavy_job_in_at_a_time():
    """A builder gets no second heavy job before it has reported its load with the first."""
    farm = Loaded(4, rule=reported())
    assert farm.submit("h1 h2 h3") == ["h1@b0"]
    assert farm.report("b0", overloaded=False) == []  # it has not begun h1 yet
    farm.started("h1")
    assert farm.report("b0", overloaded=False) == ["h2@b0"]
    farm.started("h2")
    assert farm.report("b0", overloaded=True) == []
    assert farm.submit("l1") == ["l1@b0"]
    farm.finish("h1")
    assert farm.report("b0", overloaded=False) == ["h3@b0"]


def test_a_builder_that_never_reports_takes_one_heavy_job_after_the_other():
    """Without reports there is no room, but the queue still moves."""
    farm = Loaded(2, rule=reported())
    assert farm.submit("h1 h2") == ["h1@b0"]
    assert farm.finish("h1") == ["h2@b0"]


def test_held_for_long_enough_a_heavy_job_goes_to_an_overloaded_builder():
    """The worst case: an endless stream of light jobs keeps a builder overloaded.

    One heavy job goes per hold_at_most, at the alarm if a slot is free, else into the next one.
    """
    farm = Loaded(2, rule=reported(hold_at_most=60.0))
    farm.submit("l0")
    farm.started("l0")
    farm.report("b0", overloaded=True)
    held_at = farm.at
    assert farm.submit("h1 h2 h3") == []
    assert farm.alarms == [held_at + 60.0]
    assert farm.ring(held_at + 60.0) == ["h1@b0"]
    assert farm.alarms[1:] == [held_at + 120.0]
    assert farm.ring(held_at + 120.0) == []  # no free slot
    farm.submit("l1")
    assert farm.finish("l0") == ["h2@b0"]
    assert farm.finish("h1") == ["l1@b0"]


def test_each_wave_of_heavy_jobs_is_held_from_its_own_beginning():
    """A job that arrives when none is held waits as long as the first did."""
    farm = Loaded(2, rule=reported(hold_at_most=60.0))
    farm.submit("l0")
    farm.started("l0")
    farm.report("b0", overloaded=True)
    for name, farm.at in (("h1", 100.0), ("h2", 1000.0)):
        assert farm.submit(name) == []
        assert farm.ring(farm.alarms[-1]) == [f"{name}@b0"]
        assert farm.finish(name) == []
    assert farm.alarms == [160.0, 1060.0]


def test_load_by_the_contention_law():
    """Threads count, light ones too, by the law of the builder's pool."""
    law = ContentionLaw(ThreadSlowdown(4, 4))
    rule = HeavyLightOptions(limits=LoadLimits(1.5, 1.0), measure=slowdown_by({"p": law}))
    farm = Loaded(8, rule=rule)
    farm.submit("l1 l2", threads=1)
    assert farm.submit("h1 h2") == ["h1@b0"]  # 6 threads on 4 cores
    farm.finish("l1")
    assert farm.finish("l2") == ["h2@b0"]


def test_a_measure_of_the_users_own_is_none_that_the_compiled_loop_knows():
    """It would go by another load, or no load at all."""
    by_law = slowdown_by({"p": ContentionLaw(THESIS_TABLE)})
    measures = (heavy_share, by_law, lambda builder: 0.5 * heavy_share(builder), None)

    measured = [is_measured(HeavyLightOptions(limits=HALF, measure=one)) for one in measures]
    assert measured == [True, True, False, False]


def test_fair_share_holds_among_heavy_and_among_light_jobs():
    """Users take turns in each class; between the classes the one with fewer slots goes first."""
    farm = Loaded(4, **FAIR)
    farm.submit("h1 h2 h3 l1", attributes={"user": "a"})
    assert list(farm.scheduler.jobs["l1"].path) == ["a"]
    assert farm.submit("h4 l2", attributes={"user": "b"}) == ["l2@b0"]
    assert farm.finish("h1") == ["h4@b0"]
    assert farm.finish("l1") == []


def test_a_fair_share_offers_heavy_jobs_no_slot_of_an_overloaded_builder():
    """The slot that has been free longest is the one beside the first heavy job."""
    assert Loaded(2, 4, **FAIR).submit("h1 h2") == ["h1@b0", "h2@b1"]


def test_a_restored_scheduler_knows_the_overloaded_builders():
    """After a restart the same event leads to the same commands."""
    farm = Loaded(4)
    farm.submit("h1 h2 h3 l1")
    before = farm.scheduler
    farm.restart()
    for name in ("l1", "h1"):
        farm.finish(name)
        event, commands = farm.story[-1]
        assert list(before.handle(event)) == commands


def test_a_restored_scheduler_admits_a_heavy_job_at_the_same_instant():
    """Alarms do not outlive a scheduler: the next one sets them again, as they were."""
    farm = Loaded(4, rule=HeavyLightOptions(limits=HALF, measure=heavy_share, hold_at_most=100.0))
    farm.submit("h1 h2 h3")
    (rings_at,) = farm.alarms
    farm.restart()
    farm.at = 50.0
    assert farm.open() == []
    assert farm.alarms == [rings_at] * 2
    farm.restart()
    assert farm.ring(rings_at) == ["h3@b0"]
    farm = Loaded(4, rule=HeavyLightOptions(limits=HALF, measure=heavy_share, hold_at_most=100.0))
    farm.submit("h1 h2 h3")
    farm.restart()
    farm.at = rings_at + 100.0
    assert farm.open() == ["h3@b0"]


# --- whole farms -------------------------------------------------------------------------------

MEASURES = ("heavy-share", "slowdown", "reported")
jobs_of = st.lists(
    st.tuples(
        st.floats(0.0, 200.0),  # arrival
        st.sampled_from([1.0, 5.0, 30.0]),
        st.booleans(),
        st.sampled_from("ab"),
    ),
    min_size=1,
    max_size=60,
)


def rule_of(measure: str) -> HeavyLightOptions:
    """Return the rule with each measure's usual limits."""
    measures = {
        "heavy-share": heavy_share,
        "slowdown": slowdown_by({"p": ContentionLaw(THESIS_TABLE)}),
        "reported": None,
    }
    limits = HALF if measure == "heavy-share" else LoadLimits(1.4, 1.0)
    return HeavyLightOptions(limits=limits, measure=measures[measure], hold_at_most=100.0)


@examples(60)
@given(
    drawn=jobs_of,
    measure=st.sampled_from(MEASURES),
    fair=st.booleans(),
    slots=st.integers(1, 5),
    builders=st.integers(1, 3),
    cleaning=st.sampled_from([0.0, 2.0]),
)
def test_every_job_ends_and_light_jobs_never_wait_beside_room(
    drawn, measure, fair, slots, builders, cleaning
):
    """Work conservation for light jobs; for heavy ones as long as a builder has room for them."""
    rules: dict[str, Any] = {"heavy_light": rule_of(measure)}
    if fair:
        rules |= FAIR | {"make_queue": lambda: FairShareQueue((20.0,))}
    limits = rules["heavy_light"].limits if measure == "reported" else None
    pool = PoolSpec(
        name="p",
        slots=slots,
        builders=builders,
        inter_job_time=cleaning,
        law=ContentionLaw(THESIS_TABLE),
        load_limits=limits,
    )
    jobs = [
        Job(id=f"j{n}", service_time=time, arrived_at=at, heavy=heavy, attributes={"user": user})
        for n, (at, time, heavy, user) in enumerate(sorted(drawn))
    ]
    story = Story()

    def check(*_: Any) -> None:
        for builder in story.scheduler.builders.values():
            room = builder.busy < len(builder.slots)
            running = any(slot.running for slot in builder.slots)
            assert running or not builder.overloaded
            for lane in builder.group.lanes if room else ():
                assert not lane.waiting or (lane.heavy and builder.overloaded)
            assert (builder in builder.group.calm) == (room and not builder.overloaded)

    story.then = check
    story.play([pool], jobs, **rules)


def test_heavy_light_spares_the_light_jobs_a_slowdown():
    """Its purpose: a burst of heavy jobs does not take the farm away from the light ones."""

    def mean_response(heavy_light: HeavyLightOptions | None) -> float:
        pool = PoolSpec(name="p", slots=4, builders=2, law=ContentionLaw(THESIS_TABLE))
        jobs = [
            Job(id=f"j{n}", service_time=40.0 if n < 20 else 4.0, heavy=n < 20, arrived_at=n * 2.0)
            for n in range(100)
        ]
        ends = Story().play([pool], jobs, heavy_light=heavy_light).ends().values()
        return fmean(end.finished_at - end.submitted_at for end in ends if not end.job.heavy)

    rule = HeavyLightOptions(limits=HALF, measure=heavy_share)
    assert mean_response(rule) < 0.5 * mean_response(None)
