"""Jobs that need others: blocked until these have ended, then released or skipped."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from farm.core.commands import EndJob
from farm.core.events import JobsSubmitted
from farm.core.jobs.needs import flaw_of_needs, need_of
from farm.core.model import Cause, Job, Platform
from farm.core.policies import critical_path, ljf, sjf
from farm.core.pools.spec import PoolSpec
from tests.worlds.virtual import Story


def needing(name: str, *needs: str, **more: object) -> Job:
    """Return a job of 10 s that needs others."""
    return Job(id=name, service_time=10.0, needs=needs, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "need"),
    [
        ("a", ("a", "succeeded")),
        ("a:succeeded", ("a", "succeeded")),
        ("a:ended", ("a", "ended")),
        ("//app:test:failed", ("//app:test", "failed")),
        ("//app:test", ("//app:test", "succeeded")),
        (":failed", (":failed", "succeeded")),
    ],
)
def test_a_suffix_that_is_no_condition_belongs_to_the_id(text, need):
    """Ids of build systems have colons."""
    assert need_of(text) == need


def test_a_job_is_released_when_its_needs_have_succeeded(ledger):
    """Not before the last of them; its place in line and its waiting time are from then."""
    farm = ledger("b", "c")
    assert farm.submit("a", "b", needing("t", "a", "b")) == ["start a/1 on b.0", "start b/1 on c.0"]
    assert farm.finish("a") == ["end a succeeded"]
    assert farm.submit("later") == ["start later/1 on b.0"]
    assert farm.finish("b") == ["end b succeeded", "start t/1 on c.0"]
    released_at = farm.at - 1.0
    farm.finish("t")
    (end,) = farm.commands
    assert (end.released_at, end.dispatched_at) == (released_at, released_at)


def test_fifo_goes_by_the_release(ledger):
    """A job that was submitted first and released last is the last in line."""
    farm = ledger("b")
    farm.submit("a", needing("t", "a"))
    farm.submit("x")
    assert farm.finish("a") == ["end a succeeded", "start x/1 on b.0"]
    farm.submit("y")
    assert farm.waiting == ["t", "y"]
    farm.restart(rekey=True)
    assert farm.waiting == ["t", "y"]


def test_a_released_job_may_take_the_slot_of_the_one_it_needed(ledger):
    """It is queued before the freed slot is offered, so that an urgent one is not passed over."""
    farm = ledger("b")
    farm.submit("a", needing("t", "a", level=1))
    farm.submit("x")
    assert farm.finish("a") == ["end a succeeded", "start t/1 on b.0"]


def test_what_it_is_sorted_by_is_determined_at_the_release(ledger):
    """The estimate of a learning estimator is by then another one."""
    farm = ledger("b", estimates="last-3", policy=sjf.key)
    farm.submit(Job(id="a", service_time=10.0, kind="k"), needing("t", "a", kind="k"))
    before = farm.scheduler.jobs["t"].estimated_time
    farm.at = 500.0
    farm.finish("a")
    farm.finish("t")
    (end,) = farm.commands
    assert end.estimated_time == 499.0 != before


@pytest.mark.parametrize(
    ("outcome", "released", "skipped"),
    [
        ("succeeded", {"s", "e"}, {"f": "skipped: a succeeded"}),
        ("failed", {"e", "f"}, {"s": "skipped: a failed"}),
    ],
)
def test_a_need_says_how_the_job_must_have_ended(ledger, outcome, released, skipped):
    """What can no longer be released ends as skipped, at that instant, and says why."""
    farm = ledger("b", "x", "y")
    farm.submit("a", needing("s", "a"), needing("e", "a:ended"), needing("f", "a:failed"))
    farm.finish("a", outcome)
    ends = [one for one in farm.commands if isinstance(one, EndJob) and one.job.id != "a"]
    assert {end.job.id: end.reason for end in ends} == skipped
    assert {(end.outcome, end.cause) for end in ends} == {("cancelled", Cause.SKIPPED)}
    assert set(farm.running) == released


def test_of_jobs_that_are_to_fail_one_must_and_all_must_have_ended(ledger):
    """A report on failures waits for the whole stage; without a failure there is none."""
    farm = ledger("b", "c")
    farm.submit("a", "b", needing("report", "a:failed", "b:failed"))
    assert farm.finish("a", "failed") == ["end a failed"]
    assert farm.finish("b") == ["end b succeeded", "start report/1 on b.0"]
    farm.submit("d", "e", needing("none", "d:failed", "e:failed"))
    farm.finish("report")
    farm.finish("d")
    farm.finish("e")
    assert farm.commands[1].reason == "skipped: none of d, e failed"


def test_skips_cascade_in_rounds_by_order_of_submission(ledger):
    """Each ends once; what only needs a skipped one to end is released."""
    farm = ledger("b")
    farm.submit(
        "a", needing("z", "y"), needing("y", "a"), needing("x", "a"), needing("w", "z:ended")
    )
    assert farm.finish("a", "failed") == [
        "end a failed",
        "end y cancelled",
        "end x cancelled",
        "end z cancelled",
        "start w/1 on b.0",
    ]


def test_the_critical_path_goes_first(ledger):
    """By the estimates of all that hangs on a job; a restored scheduler knows them too."""
    farm = ledger(policy=critical_path.key)
    chain = [Job(id="a", service_time=1.0), needing("b", "a"), needing("c", "b:ended")]
    farm.submit(Job(id="long", service_time=20.0), *chain)
    assert farm.waiting == ["a", "long"]
    farm.restart(rekey=True)
    assert farm.waiting == ["a", "long"]
    assert farm.dispatch_order("x") == ["a", "long", "b", "c"]


def test_a_job_waits_for_its_delay_after_its_needs(ledger):
    """One alarm is set, and it is released when that rings."""
    farm = ledger("b")
    farm.submit("a", needing("t", "a", needs_delay=5.0))
    assert farm.finish("a") == ["end a succeeded", "alarm 7"]
    assert farm.ring(7.0) == ["start t/1 on b.0"]


def test_a_delay_survives_a_restart(ledger):
    """Alarms do not: the next scheduler sets one for what is left."""
    farm = ledger("b")
    farm.submit("a", needing("t", "a", needs_delay=5.0))
    farm.finish("a")
    farm.restart()
    assert farm.open() == ["alarm 7"]
    assert farm.ring(7.0) == ["start t/1 on b.0"]


def test_needs_that_ended_before_are_on_the_event(ledger):
    """The scheduler forgets ended jobs; with all needs met a job arrives as any other does."""
    farm = ledger("b")
    ended = {"gone": "succeeded", "bad": "failed"}
    jobs = (needing("t", "gone"), needing("u", "bad"), needing("v", "u:ended"))
    farm.observers = []  # the auditor has not seen those that ended
    told = farm.tell(JobsSubmitted(5.0, jobs, ended))
    assert told == ["end u cancelled", "start t/1 on b.0"]
    assert farm.waiting == ["v"]
    assert farm.scheduler.jobs["t"].released_at == 5.0


def test_a_need_that_ended_before_is_not_said_to_be_cancelled_if_it_may_have_been_skipped(ledger):
    """Who looks for the one that cancelled it would search in vain."""
    farm = ledger("b")
    farm.observers = []  # the auditor has not seen the one that ended
    jobs = (needing("t", "gone"), needing("u", "t"))
    farm.tell(JobsSubmitted(5.0, jobs, {"gone": "cancelled"}))
    reasons = {end.job.id: end.reason for end in farm.commands}
    assert reasons == {
        "t": "skipped: gone was cancelled or skipped",
        "u": "skipped: t was skipped",
    }


def test_a_blocked_job_that_is_cancelled_ends_at_once(ledger):
    """By itself, with its matrix, or by fail-fast; what needed it follows."""
    farm = ledger("b", fail_fast=True)
    farm.submit("a", needing("t", "a"), needing("u", "t"))
    assert farm.cancel("t") == ["end t cancelled", "end u cancelled"]
    assert [end.cause for end in farm.commands] == [Cause.REQUESTED, Cause.SKIPPED]
    farm.finish("a")
    farm.submit("m", needing("n", "m"), matrix="m")
    farm.submit(needing("o", "n:ended", matrix="m"))
    assert farm.finish("m", "failed") == ["end m failed", "end o cancelled", "end n cancelled"]


def test_the_priority_of_a_blocked_job_can_be_changed(ledger):
    """It counts when the job is released."""
    farm = ledger("b")
    farm.submit("a", needing("t", "a"))
    farm.submit("x")
    assert farm.prioritise("t", level=1) == []
    assert farm.finish("a") == ["end a succeeded", "start t/1 on b.0"]


def test_a_released_job_joins_the_execution_of_its_action(ledger):
    """Whose leader is determined at the release, not at the submission."""
    farm = ledger("b", "c", dedup=True)
    farm.submit("a", needing("t", "a", action="A"))
    assert farm.submit(Job(id="l", service_time=9.0, action="A")) == ["start l/1 on c.0"]
    assert farm.finish("a") == ["end a succeeded"]
    assert farm.finish("l") == ["end l succeeded", "end t succeeded"]


def test_blocked_jobs_are_not_given_up(ledger):
    """Only when those are that they need; then they are skipped."""
    farm = ledger()
    farm.submit("a", needing("t", "a"))
    assert farm.arrivals_end() == ["end a cancelled", "end t cancelled"]
    assert [end.cause for end in farm.commands] == [Cause.UNRUNNABLE, Cause.SKIPPED]


def test_a_platform_without_builders_gives_up_what_is_released_to_it(ledger):
    """At its release, as it would at its arrival: no other event need come."""
    farm = ledger("b")
    farm.submit("a", needing("t", "a", platform=Platform("riscv", virtualized=True)))
    farm.arrivals_end()
    assert farm.finish("a") == ["end a succeeded", "end t cancelled"]


def test_a_policy_sorts_blocked_jobs_by_the_rules_of_their_release(ledger):
    """The policy was changed while they were blocked."""
    farm = ledger("b")
    farm.submit("a", needing("s", "a"), Job(id="l", service_time=99.0, needs=("a",)))
    farm.rules = ledger(policy=ljf.key).rules
    farm.restart(rekey=True)
    farm.finish("a")
    assert set(farm.running) == {"l"}


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ([needing("a", "a")], r"itself \(a → a\)"),
        ([needing("a", "b"), needing("b", "c:ended"), needing("c", "a")], "a → b → c → a"),
        ([needing("a", "unknown")], "'unknown', which is not known"),
        ([needing("a", *map(str, range(1001)))], "found 1,001; allowed: at most 1,000"),
    ],
)
def test_needs_that_can_never_be_met_are_flaws(jobs, says):
    """Jobs with such needs would never be released."""
    flaw = flaw_of_needs(jobs)
    assert flaw is not None
    assert re.search(says, flaw.why)


def test_a_long_chain_has_no_circle():
    """The search does not recurse, and looks at each job once."""
    chain = [needing(f"j{n}", f"j{n - 1}") for n in range(1, 3000)]
    assert flaw_of_needs(chain, {"j0"}.__contains__) is None
    circle = flaw_of_needs([*chain, needing("j0", "j2999")])
    assert circle is not None
    assert "…" in circle.why


def test_jobs_that_many_paths_lead_to_are_searched_once():
    """A submission of a hundred jobs would hold the scheduler up: it has 2^50 paths."""
    layers = [(f"a{n}", f"b{n}") for n in range(50)]
    jobs = [needing(name, *below) for below, layer in pairwise(layers) for name in layer]
    assert flaw_of_needs(jobs[::-1], {"a0", "b0"}.__contains__) is None


def test_the_simulated_world_remembers_how_needed_jobs_ended():
    """A job that arrives later may need one that is over."""
    story = Story()
    pool = PoolSpec(name="p", builders=1)
    jobs = [
        Job(id="a", service_time=1.0, arrived_at=0.0),
        Job(id="f", service_time=1.0, arrived_at=0.0, fails=True),
        Job(id="t", service_time=1.0, arrived_at=10.0, needs=("a",)),
        Job(id="u", service_time=1.0, arrived_at=10.0, needs=("f",)),
    ]
    ends = story.play([pool], jobs).ends()
    assert ends["t"].started_at == 10.0
    assert ends["u"].reason == "skipped: f failed"
