"""Behaviours that drive their own loop, on a builder of four slots in both worlds."""

from __future__ import annotations

import pytest

from farm.core.commands import StartJob
from farm.core.events import BuilderJoined, BuilderRetired, DrainRequested, JobFinished, SlotCleaned
from farm.core.model import Job
from farm.emulation.own_loop import OwnLoop


class Own(OwnLoop):
    """Notes what it is told; claims nothing by itself."""

    def __init__(self, spec):
        super().__init__(spec)
        self.seen = []
        self.attempts = {}

    def note(self, word):
        self.seen.append((word, self.now))

    def started(self):
        self.note("started")

    def received(self, attempt):
        self.attempts[attempt.job.id] = attempt
        self.note(f"received {attempt.job.id}")

    def ended(self, attempt):
        self.note(f"ended {attempt.job.id}")


@pytest.fixture
def own_loop(stage):
    """Return a builder that joins at 2 s, with its loop as ``loop``."""

    def make(own=Own, **spec):
        made = stage(own=own, boot_time=2.0, **spec)
        made.until(2.0)
        made.loop = made.builder._loop._own
        return made

    return make


def test_slots_are_offered_when_they_are_claimed(own_loop):
    """None before; as many as claimed, the lowest first, and none twice."""
    s = own_loop()
    assert s.instants(BuilderJoined) == [2.0]
    s.until(5.0)
    assert s.instants(SlotCleaned) == []
    found = []
    s.do(lambda: found.append(s.loop.claim_work()))
    s.until(6.0)
    s.do(lambda: found.extend(s.loop.claim_work(n) for n in (0, 5, 1)))
    assert found == [1, 0, 3, 0]
    assert [(e.at, e.slot) for e in s.of(SlotCleaned)] == [(5.0, 0), (6.0, 1), (6.0, 2), (6.0, 3)]


def test_a_job_ends_when_the_loop_says_so(own_loop):
    """With its own outcome or another; once; and its slot is offered by the next claim alone."""
    s = own_loop()
    s.do(lambda: s.loop.claim_work(4))
    for slot, job in enumerate("abcd"):
        s.start(job, 1.0, slot=slot, fails=job == "b")
    s.until(30.0)
    assert s.of(JobFinished) == []
    ended = []

    def resolve(job, *what):
        ended.append(s.loop.resolve_job(s.loop.attempts[job], *what))

    s.do(lambda: [resolve("a"), resolve("b"), resolve("c", "cancelled", "not here"), resolve("a")])
    assert ended == [True, True, True, False]
    assert [(e.job, e.at, e.outcome, e.reason) for e in s.of(JobFinished)] == [
        ("a", 30.0, "succeeded", ""),
        ("b", 30.0, "failed", ""),
        ("c", 30.0, "cancelled", "not here"),
    ]
    s.cancel("d", "by the farm")
    assert [word for word, at in s.loop.seen if at == 28.0] == [f"ended {job}" for job in "abcd"]
    assert len(s.of(SlotCleaned)) == 4
    s.do(lambda: s.loop.claim_work(2))
    assert [e.slot for e in s.of(SlotCleaned)[4:]] == [0, 1]


def test_an_attempt_is_not_taken_for_the_next_one_of_its_job(own_loop):
    """A timer of the first attempt must not end the second."""
    s = own_loop()
    s.start("a", 1.0)
    first = s.loop.attempts["a"]
    s.cancel("a")
    s.start("a", 1.0, attempt=2)
    s.do(lambda: s.loop.resolve_job(first))
    assert [(e.attempt, e.outcome) for e in s.of(JobFinished)] == [(1, "cancelled")]


def test_timers(own_loop):
    """A next tick at this instant; a timeout once; an interval until it (or another) clears it."""
    s = own_loop()
    loop, own = s.loop, []

    def stop():
        loop.note("its last")
        loop.clear_timer(own[0])

    def begin():
        loop.next_tick(lambda: loop.note("tick"))
        loop.set_timeout(lambda: loop.note("timeout"), 3.0)
        loop.clear_timer(loop.set_timeout(lambda: loop.note("never"), 3.0))
        every = loop.set_interval(lambda: loop.note("interval"), 2.0)
        loop.set_timeout(lambda: loop.clear_timer(every), 7.0)
        own.append(loop.set_interval(stop, 8.0))
        loop.note("now")

    s.do(begin)
    s.until(50.0)
    assert loop.seen[1:] == [
        ("now", 0.0),
        ("tick", 0.0),
        ("interval", 2.0),
        ("timeout", 3.0),
        ("interval", 4.0),
        ("interval", 6.0),
        ("its last", 8.0),
    ]


def test_the_builder_can_run_a_job_for_it(own_loop):
    """At its speed, once even if told twice; the loop may end it before."""
    s = own_loop(speed=2.0)
    for slot, job in enumerate("ab"):
        s.start(job, 20.0, slot=slot)
        s.do(lambda job=job: [s.loop.run_job(s.loop.attempts[job]) for _ in range(2)])
    s.until(7.0)
    s.do(lambda: s.loop.resolve_job(s.loop.attempts["b"], "failed", "gave up"))
    s.until(40.0)
    found = [(e.job, e.at, e.outcome) for e in s.of(JobFinished)]
    assert found == [("b", 7.0, "failed"), ("a", 12.0, "succeeded")]
    s.do(lambda: s.loop.run_job(s.loop.attempts["a"]))  # over: nothing happens
    s.until(60.0)
    assert len(s.of(JobFinished)) == 2


def test_as_it_is_it_does_what_the_pool_says(stage):
    """All slots offered at once; each job in its time, and its slot after the rest."""
    s = stage(own=type("Unchanged", (OwnLoop,), {}), inter_job_time=3.0)
    s.until(0.0)
    assert [(e.at, e.slot) for e in s.of(SlotCleaned)] == [(0.0, slot) for slot in range(4)]
    s.start("a", 5.0)
    s.until(20.0)
    assert s.instants(JobFinished) == [5.0]
    assert [(e.at, e.slot) for e in s.of(SlotCleaned)[4:]] == [(8.0, 0)]


def test_it_leaves_when_it_wants_to(own_loop):
    """It asks; once the farm lets it go it claims nothing, and its timers are silent."""
    s = own_loop(shutdown_time=4.0)
    s.do(lambda: s.loop.set_interval(lambda: s.loop.note("interval"), 5.0))
    s.do(s.loop.shut_down)
    asked = [(event.at, event.pattern, event.retire) for event in s.of(DrainRequested)]
    assert asked == [(2.0, "b", True)]
    s.do(s.builder.retire)
    s.do(lambda: s.loop.claim_work(4))
    s.until(30.0)
    assert s.instants(BuilderRetired) == [6.0]
    assert s.instants(SlotCleaned) == []
    assert s.loop.seen == [("started", 0.0)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda loop: loop.set_timeout(print, -1), "found -1; allowed: seconds, 0 or more"),
        (lambda loop: loop.set_interval(print, float("nan")), "found nan; allowed: seconds"),
        (lambda loop: loop.next_tick("soon"), "found 'soon'; allowed: a function"),
        (
            lambda loop: loop.resolve_job(loop.attempts["a"], "done"),
            "found outcome 'done'; allowed: succeeded, failed, cancelled",
        ),
        # a claim in the constructor would be of a builder that is not there
        (lambda loop: Own(loop.spec).claim_work(), "the builder has not started"),
    ],
)
def test_a_wrong_call_says_what_is_allowed(own_loop, wrong, said):
    """The message is what the user reads in the warning."""
    s = own_loop()
    s.start("a", 1.0)
    with pytest.raises((ValueError, TypeError, RuntimeError), match=said):
        wrong(s.loop)


def test_timers_cannot_stop_time(own_loop):
    """A loop of next ticks would never let the simulation, or the host, go on."""
    s = own_loop()

    def again():
        s.loop.next_tick(again)

    again()
    with pytest.raises(RuntimeError, match="1,000 timers of less than"):
        s.until(3.0)


def test_a_builder_of_a_snapshot_continues(stage):
    """A forked farm: its slots are offered again, and an attempt ends when the snapshot says."""
    s = stage(own=type("Unchanged", (OwnLoop,), {}), boot_time=1e6)
    running = StartJob(Job(id="a", service_time=9.0), 1, "b", 0)
    ends_at = s.builder._agenda.now + 4.0
    s.do(lambda: s.builder.resume(0.0, [(running, ends_at)], [1, 3]))
    assert [(e.at, e.slot) for e in s.of(SlotCleaned)] == [(0.0, 1), (0.0, 3)]
    s.until(10.0)
    assert [(e.at, e.job) for e in s.of(JobFinished)] == [(4.0, "a")]
    assert [(e.at, e.slot) for e in s.of(SlotCleaned)[2:]] == [(4.0, 0)]
