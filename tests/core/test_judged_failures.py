"""Failed attempts under Launchpad's judgement: which is to blame, and what follows for both."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farm.core.model import Cause
from farm.core.state.snapshot import condition_of

MAX_RESETS = 3


def condition(farm, builder: str) -> str:
    """Return what a builder is doing."""
    return condition_of(farm.scheduler.builders[builder])


def test_a_job_that_always_fails_is_found_out_on_the_second_builder(ledger):
    """(1, 1): undecided, so it is tried elsewhere; (1, 2): it is the job."""
    farm = ledger("b", "c", max_resets=MAX_RESETS)
    assert farm.submit("a") == ["start a/1 on b.0"]
    assert farm.finish("a", "failed") == ["requeue a/1", "start a/2 on c.0"]
    assert farm.scheduler.builders["b"].failures == 1
    assert farm.finish("a", "failed", "exit 1") == ["end a failed"]
    assert farm.commands[0].reason == "exit 1 (failures: job 2, builder 1)"
    assert farm.scheduler.builders["c"].failures == 0  # it is not to blame


def test_a_builder_that_always_fails_is_taken_out_at_the_fifth_failure(ledger):
    """(1, 1), then four further jobs: reset each time, and at the fifth the builder is failed."""
    farm = ledger("b", max_resets=MAX_RESETS)
    for number in range(5):
        name = f"a{number}"
        assert farm.submit(name) == [f"start {name}/1 on b.0"]
        commands = farm.finish(name, "failed")
        if number < 4:  # it gets the job again: there is no other builder
            assert commands == [f"requeue {name}/1", f"start {name}/2 on b.0"]
            assert farm.cancel(name) == [f"stop {name}/2 on b"]
            farm.finish(name, "cancelled")
    assert commands == ["requeue a4/1"]
    assert condition(farm, "b") == "failed"
    assert farm.submit("later") == []  # it gets no more jobs


def test_a_failed_builder_finishes_its_other_jobs_and_is_ok_again_when_undrained(ledger):
    """Only new jobs are kept from it; an operator undrains it when it is repaired."""
    farm = ledger(max_resets=MAX_RESETS)
    farm.join("b", slots=2)
    farm.scheduler.builders["b"].failures = 4
    assert farm.submit("good") == ["start good/1 on b.0"]
    assert farm.submit("bad") == ["start bad/1 on b.1"]
    assert farm.finish("bad", "failed") == ["requeue bad/1"]
    assert condition(farm, "b") == "failed"
    assert farm.finish("good") == ["end good succeeded"]
    assert farm.undrain("b") == ["start bad/2 on b.0"]
    assert farm.scheduler.builders["b"].failures == 0
    assert condition(farm, "b") == "building"


def test_equal_counts_on_an_only_builder_end_after_a_number_of_resets(ledger):
    """Launchpad resets such a job forever; here it fails, and the builder keeps its count."""
    farm = ledger("b", max_resets=2)
    farm.submit("a")
    assert farm.finish("a", "failed") == ["requeue a/1", "start a/2 on b.0"]
    assert farm.finish("a", "failed") == ["requeue a/2", "start a/3 on b.0"]
    assert farm.finish("a", "failed") == ["end a failed"]
    assert farm.scheduler.builders["b"].failures == 3
    assert condition(farm, "b") == "idle"


def test_a_success_clears_the_builder(ledger):
    """A builder that works is not to blame for what came before."""
    farm = ledger("b", max_resets=MAX_RESETS)
    farm.scheduler.builders["b"].failures = 3
    farm.submit("a")
    farm.finish("a")
    assert farm.scheduler.builders["b"].failures == 0


def test_a_lost_attempt_is_judged_too(ledger):
    """Its builder did not know it: that counts against both."""
    farm = ledger("b", "c", max_resets=MAX_RESETS)
    farm.submit("a")
    assert farm.attempt_lost("a") == ["requeue a/1", "start a/2 on c.0"]
    assert farm.scheduler.builders["b"].failures == 1


def test_judged_attempts_do_not_eat_the_tries_that_losses_have(ledger):
    """``retries`` bounds builders that are lost; the judgement has a bound of its own."""
    farm = ledger("b", max_resets=9, retries=1)
    farm.submit("a")
    for attempt in range(1, 4):
        assert farm.finish("a", "failed") == [
            f"requeue a/{attempt}",
            f"start a/{attempt + 1} on b.0",
        ]
    farm.join("c")
    assert farm.lose("b") == ["requeue a/4", "start a/5 on c.0"]
    assert farm.lose("c") == ["end a failed"]


def test_a_job_that_is_being_cancelled_ends_so_but_its_builder_is_judged(ledger):
    """As Launchpad does it: the count of a builder that fails while it cancels keeps rising."""
    farm = ledger("b", max_resets=MAX_RESETS)
    for number in range(5):
        farm.submit(f"a{number}")
        farm.cancel(f"a{number}")
        if number % 2:
            assert farm.finish(f"a{number}", "failed") == [f"end a{number} cancelled"]
        else:
            assert farm.attempt_lost(f"a{number}") == [f"end a{number} cancelled"]
        assert farm.scheduler.builders["b"].failures == number + 1
    assert condition(farm, "b") == "failed"


def test_counts_outlive_a_restart(ledger):
    """A failed builder is still failed, and a job's counts are where they were."""
    farm = ledger("b", "c", max_resets=MAX_RESETS)
    farm.submit("a")
    farm.finish("a", "failed")
    farm.scheduler.builders["b"].failed = True
    farm.scheduler.builders["b"].accepts = False
    farm.restart()
    job = farm.scheduler.jobs["a"]
    assert (job.failures, job.resets) == (1, 1)
    assert condition(farm, "b") == "failed"
    assert farm.scheduler.builders["b"].failures == 1


# --- A job that ends its builders is retried only a few times -------------------------------------


def test_a_job_that_ends_its_builders_fails_whatever_its_retries(ledger):
    """It names them; a builder that did not know it or was stopped on purpose does not count."""
    farm = ledger("x", retries=99, max_builders_lost=2)
    farm.submit("a")
    assert farm.attempt_lost("a") == ["requeue a/1", "start a/2 on x.0"]
    assert farm.lose("x", "its host left", excused=True) == ["requeue a/2"]
    farm.join("y")
    assert farm.lose("y", "its host is silent") == ["requeue a/3"]
    farm.restart()
    assert farm.scheduler.jobs["a"].builders_lost == ("y",)
    farm.join("z")
    assert farm.lose("z", "its host is silent") == ["end a failed"]
    (end,) = farm.commands
    assert (end.cause, end.attempts) == (Cause.POISONOUS, 4)
    assert end.reason == "its host is silent (builders lost under it: y, z)"


@given(
    retries=st.integers(0, 20),
    bound=st.integers(1, 5),
    losses=st.lists(st.sampled_from(["lost", "excused", "unknown", "restart"]), max_size=40),
)
def test_no_job_takes_more_builders_with_it_than_the_bound(ledger, retries, bound, losses):
    """Whatever else happens to its attempts, and however often the scheduler is restarted."""
    farm = ledger(retries=retries, max_builders_lost=bound)
    farm.submit("a")
    lost = 0
    for number, how in enumerate(losses):
        if "a" not in farm.scheduler.jobs:
            break
        if how == "restart":
            farm.restart()
            continue
        if not farm.running:
            farm.join(f"b{number}")
        (place,) = farm.running.values()
        if how == "unknown":
            farm.attempt_lost("a")
        else:
            farm.lose(place.partition(".")[0], excused=how == "excused")
            lost += how == "lost"
    assert lost <= bound
    if lost == bound:
        assert farm.commands[-1].cause is Cause.POISONOUS
