"""The life of jobs: submitted, dispatched, finished, lost, cancelled; events in, commands out."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core.commands import EndJob, RequeueJob, StartJob
from farm.core.contention.laws import THESIS_TABLE, ContentionLaw
from farm.core.errors import ScenarioError
from farm.core.model import Job
from farm.core.policies import fifo, ljf, score, sjf
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import snapshot_of
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.scenario import load_scenario
from farm.testing import small_scenario
from tests.worlds.virtual import Story


def test_the_life_of_a_job(ledger):
    """The ordinary life, with every field of its end."""
    farm = ledger("b")
    job = farm.job("a")
    assert farm.submit(job) == ["start a/1 on b.0"]
    assert farm.commands == [StartJob(job, 1, "b", 0)]
    assert farm.started("a") == []
    assert farm.finish("a") == ["end a succeeded"]
    assert farm.commands == [
        EndJob(
            job,
            "succeeded",
            attempts=1,
            submitted_at=1.0,
            finished_at=3.0,
            dispatched_at=1.0,
            started_at=2.0,
            builder="b",
            slot=0,
            estimated_time=10.0,
            pool="p",
        )
    ]
    assert farm.scheduler.jobs == {}


def test_a_finish_without_a_start_counts_from_the_dispatch(ledger):
    """A lost "started" message costs the job nothing but its start."""
    farm = ledger("b")
    farm.submit("a")
    farm.finish("a", "failed", "exit 1")
    (end,) = farm.commands
    assert (end.outcome, end.reason) == ("failed", "exit 1")
    assert (end.started_at, end.dispatched_at) == (1, 1)


def test_commands_belong_to_their_reader(ledger):
    """An observer may keep the answer to an event: later events do not change it."""
    farm = ledger("b")
    farm.submit("a")
    kept = farm.commands
    farm.submit("c")
    farm.finish("a")
    assert [command.job.id for command in kept] == ["a"]


def test_the_size_that_a_builder_is_sent_is_kept_with_the_attempt(ledger):
    """A successor that sends the job again would send another size, and learn from that."""
    farm = ledger()
    estimator = make_estimator("oracle")
    estimator.size_sent = lambda *_: 42.0
    farm.scheduler = Scheduler(farm.rules, estimator)
    farm.join("x")
    farm.join("y", labels={"app": "1"})
    farm.submit("a", "b")

    assert [command.size for command in farm.commands] == [None, 42.0]
    kept = snapshot_of(farm.scheduler, farm.at).running
    assert [record.sent_size for record in kept] == [None, 42.0]


def test_jobs_wait_for_a_builder_and_go_in_order(ledger):
    """No job overtakes under fifo; the finish frees the slot and fills it in one answer."""
    farm = ledger()
    assert farm.submit("a") == []
    assert farm.submit("b") == []
    assert farm.join("x") == ["start a/1 on x.0"]
    assert farm.finish("a") == ["end a succeeded", "start b/1 on x.0"]
    assert farm.finish("b") == ["end b succeeded"]


def test_slots_of_one_builder_fill_from_the_lowest(ledger):
    """Slot numbers are reused, the lowest free one first."""
    farm = ledger()
    farm.join("x", slots=3)
    assert farm.submit("a", "b", "c") == [f"start {j}/1 on x.{n}" for n, j in enumerate("abc")]
    farm.finish("a")
    farm.finish("b")
    assert farm.submit("d") == ["start d/1 on x.0"]
    assert farm.submit("e") == ["start e/1 on x.1"]


def test_a_job_submitted_twice_is_one_job(ledger):
    """The second submission is ignored, alone or in a batch."""
    farm = ledger()
    farm.submit("a")
    assert farm.submit("a") == "ignored"
    assert farm.submit("a", "b", "b") == []
    assert farm.waiting == ["a", "b"]
    assert farm.submit("a", "b") == "ignored"


def test_a_batch_is_queued_before_it_is_dispatched(ledger):
    """Jobs released together compete with each other, whatever their order in the batch."""
    farm = ledger("x", "y", policy=sjf.key)
    batch = [farm.job("long", 30), farm.job("short", 1), farm.job("middle", 5)]
    assert farm.submit(*batch) == ["start short/1 on x.0", "start middle/1 on y.0"]
    assert farm.waiting == ["long"]


# --- loss and retries ---------------------------------------------------------------------------


def test_a_lost_builders_job_returns_to_its_old_place(ledger):
    """First in, first out, also after a loss; the job goes to another builder at once."""
    farm = ledger("x", retries=2)
    farm.submit("a")
    farm.submit("b")
    assert farm.lose("x") == ["requeue a/1"]
    assert farm.commands == [RequeueJob("a", 1, "x", "its builder was lost")]
    assert farm.waiting == ["a", "b"]
    assert farm.join("y") == ["start a/2 on y.0"]
    farm.finish("a")
    assert farm.running == {"b": "y.0"}


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries_are_bounded(ledger, retries):
    """After ``retries`` further attempts the job fails, and the reason says why."""
    farm = ledger(retries=retries, max_builders_lost=0)
    farm.submit("a")
    for attempt in range(retries):
        farm.join(f"b{attempt}")
        assert farm.lose(f"b{attempt}") == [f"requeue a/{attempt + 1}"]
    farm.join("last")
    assert farm.lose("last", "power cut") == ["end a failed"]
    total = retries + 1
    assert farm.commands[0].reason == f"power cut (attempt {total} of {total})"
    assert farm.commands[0].attempts == total
    assert farm.commands[0].builder == "last"


def test_stopping_a_builder_on_purpose_costs_no_retry(ledger):
    """However often an operator stops the farm: its jobs keep their retries."""
    farm = ledger(retries=1)
    farm.submit("a")
    for number in range(5):
        farm.join(f"b{number}")
        assert farm.lose(f"b{number}", "its host left", excused=True) == [f"requeue a/{number + 1}"]
    farm.restart()
    assert farm.scheduler.jobs["a"].losses == 0
    for number in range(2):
        farm.join(f"c{number}")
        commands = farm.lose(f"c{number}")
    assert commands == ["end a failed"]
    assert farm.commands[0].reason == "its builder was lost (attempt 2 of 2)"


def test_an_attempt_that_its_builder_does_not_know_is_void(ledger):
    """The slot is free again, and the job goes first: it was first."""
    farm = ledger("x")
    farm.submit("a")
    farm.submit("b")
    assert farm.attempt_lost("a") == ["requeue a/1", "start a/2 on x.0"]
    assert farm.commands[0].reason == "its builder does not know it"
    assert farm.waiting == ["b"]


def test_an_attempt_given_up_by_its_builder_is_void(ledger):
    """A "cancelled" that was not requested is a lost attempt, not the job's end."""
    farm = ledger("x", retries=1)
    farm.submit("a")
    assert farm.finish("a", "cancelled") == ["requeue a/1", "start a/2 on x.0"]
    assert farm.finish("a", "cancelled", "told to stop") == ["end a failed"]
    assert farm.commands[0].reason == "told to stop (attempt 2 of 2)"


def test_a_void_attempt_on_a_draining_builder_moves(ledger):
    """The draining builder does not get the job again; another one does."""
    farm = ledger("x")
    farm.submit("a")
    farm.drain("x", retire=True)
    farm.join("y")
    assert farm.attempt_lost("a") == ["requeue a/1", "retire x", "start a/2 on y.0"]


def test_a_builder_that_retires_with_jobs_returns_them(ledger):
    """A builder gone on purpose is gone all the same."""
    farm = ledger("x", "y")
    farm.submit("a")
    assert farm.retired("x") == ["requeue a/1", "start a/2 on y.0"]


# --- late, repeated and foreign reports ---------------------------------------------------------


def test_reports_about_what_is_over_are_ignored(ledger):
    """Late, repeated, foreign: none changes anything."""
    farm = ledger("x", "y")
    farm.submit("a")
    farm.lose("x")
    assert farm.started("a", attempt=1, builder="x") == "ignored"
    assert farm.finish("a", attempt=1, builder="x") == "ignored"
    assert farm.attempt_lost("a", attempt=1, builder="x") == "ignored"
    assert farm.finish("a", builder="x") == "ignored", "another builder's name"
    assert farm.finish("a", attempt=3) == "ignored", "an attempt that never was"
    assert farm.finish("unknown", builder="y") == "ignored"
    assert farm.started("a") == []
    assert farm.started("a") == "ignored", "repeated"
    assert farm.finish("a") == ["end a succeeded"]
    assert farm.finish("a", attempt=2, builder="y") == "ignored", "repeated"
    assert farm.lose("x") == "ignored"
    assert farm.retired("x") == "ignored"
    assert farm.cleaned("y") == "ignored"
    assert farm.cleaned("y", -1) == "ignored"
    assert farm.cleaned("y", 7) == "ignored"
    assert farm.drain("z*") == "ignored"
    assert farm.undrain("y") == "ignored", "it does not drain"
    assert farm.cancel("a") == "ignored"
    assert farm.prioritise("a", level=1) == "ignored"
    assert farm.join("y") == "ignored", "it is there"


# --- cancelling ---------------------------------------------------------------------------------


def test_cancelling_a_waiting_job_ends_it_at_once(ledger):
    """It never ran: no instants, no builder."""
    farm = ledger("x")
    farm.submit("a")
    farm.submit("b")
    assert farm.cancel("b", reason="not needed") == ["end b cancelled"]
    (end,) = farm.commands
    assert (end.reason, end.attempts) == ("not needed", 0)
    assert (end.dispatched_at, end.builder) == (None, None)


def test_cancelling_a_running_job_waits_for_its_builder(ledger):
    """The job ends when the builder reports it; the slot is not given away before."""
    farm = ledger("x")
    farm.submit("a")
    farm.submit("b")
    assert farm.cancel("a", reason="not needed") == ["stop a/1 on x"]
    assert farm.cancel("a") == "ignored", "asked already"
    assert farm.finish("a", "cancelled") == ["end a cancelled", "start b/1 on x.0"]
    assert farm.commands[0].reason == "not needed"


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_a_cancel_that_comes_too_late(ledger, outcome):
    """The builder had ended the job already: that outcome stands."""
    farm = ledger("x")
    farm.submit("a")
    farm.cancel("a")
    assert farm.finish("a", outcome) == [f"end a {outcome}"]
    assert farm.commands[0].reason == ""


def test_a_builder_lost_while_cancelling(ledger):
    """The job is not tried again: it ends as cancelled, once."""
    farm = ledger("x", "y")
    farm.submit("a")
    farm.cancel("a", reason="not needed")
    assert farm.lose("x") == ["end a cancelled"]
    assert farm.commands[0].reason == "not needed"
    assert farm.finish("a", "cancelled", attempt=1, builder="x") == "ignored"


def test_an_attempt_lost_while_cancelling(ledger):
    """The same when the builder is there, and its slot is used again."""
    farm = ledger("x")
    farm.submit("a")
    farm.submit("b")
    farm.cancel("a")
    assert farm.attempt_lost("a") == ["end a cancelled", "start b/1 on x.0"]


def test_cancelling_a_matrix_and_everything(ledger):
    """A matrix in the order of its submission; the empty path selects all."""
    farm = ledger("x")
    farm.submit("a", "b", matrix="m")
    farm.submit("c", matrix="n")
    farm.submit("d")
    assert farm.cancel(matrix="m") == ["stop a/1 on x", "end b cancelled"]
    assert farm.cancel("a", matrix="m") == "ignored"
    assert farm.cancel(invocation=()) == ["end c cancelled", "end d cancelled"]
    assert farm.cancel(invocation=("u",)) == "ignored"


# --- fail-fast ----------------------------------------------------------------------------------


def test_fail_fast_ends_the_rest_of_the_matrix(ledger):
    """Waiting jobs end at once, running ones are stopped, other matrices continue."""
    farm = ledger("x", "y", fail_fast=True)
    farm.submit("a", "b", "c", matrix="m")
    farm.submit("d", matrix="n")
    assert farm.finish("a", "failed") == [
        "end a failed",
        "stop b/1 on y",
        "end c cancelled",
        "start d/1 on x.0",
    ]
    assert farm.commands[2].reason == "fail-fast: a failed"
    assert farm.finish("b", "cancelled") == ["end b cancelled"]


def test_without_fail_fast_the_matrix_continues(ledger):
    """A failure then affects no other job; nor does one without a matrix."""
    farm = ledger("x")
    farm.submit("a", "b", matrix="m")
    assert farm.finish("a", "failed") == ["end a failed", "start b/1 on x.0"]
    other = ledger("x", fail_fast=True)
    other.submit("a", "b")
    assert other.finish("a", "failed") == ["end a failed", "start b/1 on x.0"]


def test_fail_fast_when_retries_are_exhausted(ledger):
    """A job that fails because its builders were lost is a failed job too."""
    farm = ledger(fail_fast=True, retries=0)
    farm.join("x", slots=2)
    farm.submit("a", "b", "c", matrix="m")
    farm.submit("d", matrix="n")
    assert farm.lose("x") == ["end a failed", "end b failed", "end c cancelled"]
    farm = ledger("x", fail_fast=True, retries=0)
    farm.submit("a", "b", matrix="m")
    assert farm.attempt_lost("a") == ["end a failed", "end b cancelled"]


def test_fail_fast_cancels_what_was_requeued_at_once(ledger):
    """Of two jobs lost together, one may fail for good: the other need not be tried again."""
    farm = ledger("x", fail_fast=True, retries=1)
    farm.submit("a", matrix="m")
    farm.lose("x")
    farm.join("y", slots=2)
    farm.submit("b", matrix="m")
    assert farm.running == {"a": "y.0", "b": "y.1"}
    assert farm.lose("y") == ["end a failed", "requeue b/1", "end b cancelled"]


# --- priorities ---------------------------------------------------------------------------------


def test_a_changed_priority_takes_effect_at_once(ledger):
    """Level, score: the waiting job takes its new place; a running one is not affected."""
    farm = ledger("x", policy=score.key)
    farm.submit("r")
    farm.submit("a", "b", "c")
    assert farm.prioritise("c", score=5.0) == []
    assert farm.waiting == ["c", "a", "b"]
    farm.prioritise("b", level=1)
    assert farm.waiting == ["b", "c", "a"]
    farm.prioritise("c", score=0.0)
    assert farm.waiting == ["b", "a", "c"]
    assert farm.prioritise("r", level=1) == "ignored"
    assert farm.prioritise("unknown", level=1) == "ignored"


def test_a_changed_priority_survives_a_loss(ledger):
    """The new place is the old place from then on."""
    farm = ledger()
    farm.submit("a", "b")
    farm.prioritise("b", level=3)
    farm.join("x")
    assert farm.lose("x") == ["requeue b/1"]
    assert farm.waiting == ["b", "a"]


# --- ends at one instant: slot by slot, or, as the thesis's pseudo-code does, all at once ---------

#: four jobs of a second, then two heavy ones of ten
SIX = [
    *(Job(id=f"light-{n}", service_time=1.0, arrived_at=0.0) for n in range(4)),
    *(Job(id=f"heavy-{n}", service_time=10.0, heavy=True, arrived_at=0.0) for n in range(2)),
]


def makespan(jobs: list[Job], **rules: Any) -> float:
    """Play jobs that all come at 0 on two builders of two slots; return when the last ends."""
    pool = PoolSpec(name="node", slots=2, builders=2, law=ContentionLaw(THESIS_TABLE))
    return max(end for _, end in Story().play([pool], jobs, **rules).times().values())


@pytest.mark.parametrize(("together", "found"), [(True, 11.0), (False, 15.0)])
def test_the_thesiss_example(together: bool, found: float) -> None:
    """Freed together, each heavy job has a builder to itself; one by one, both are on the first."""
    assert makespan(SIX, policy=fifo.key, ends_together=together) == pytest.approx(found)


def test_without_ties_there_is_no_difference() -> None:
    """Whatever the policy: the rule is about ends of one instant alone."""
    jobs = [
        Job(id=str(n), service_time=1.0 + n * 2**0.5 % 1 * 9, heavy=n % 3 == 0) for n in range(40)
    ]
    one_by_one, together = (
        makespan(jobs, policy=ljf.key, ends_together=rule) for rule in (False, True)
    )
    assert one_by_one == together


def test_a_scenario_names_the_rule() -> None:
    """Balancers with rules of their own refuse it."""
    scenario = small_scenario(scheduling={"simultaneous_ends": "together"})
    assert load_scenario(scenario).scheduling.simultaneous_ends == "together"
    scenario["scheduling"] |= {"balancer": "fastest"}
    with pytest.raises(ScenarioError, match="simultaneous_ends together with balancer fastest"):
        load_scenario(scenario)
