"""The scheduler's explanation of a waiting job is true, whatever the reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from farm.app.jobs.job_descriptions import description_of, method_in_full
from farm.app.jobs.job_forecast import clock_time, forecast_of, in_words
from farm.core import events
from farm.core.commands import StartJob
from farm.core.model import Job, Platform
from farm.core.policies import sjf
from farm.core.pools.spec import PoolSpec
from farm.core.state.snapshot import JobRecord
from farm.core.state.working_state import BuilderRequest
from farm.forecasts.dispatch import recent_errors
from farm.forecasts.dispatch.at_submission import Forecast
from farm.forecasts.dispatch.recent_arrivals import RecentArrivals
from farm.forecasts.dispatch.recent_errors import ErrorMemory, Lately, RecentErrors
from farm.forecasts.dispatch.wait_range import WaitRange
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.live.operating.answering import Questions
from farm.live.operating.answers import FAILED, Answer, Forecasts, Waiting
from farm.live.wire.messages import Ask
from tests.worlds.virtual import Ledger

AFTERNOON = datetime(2026, 3, 2, 14, 0, tzinfo=UTC)
AMD64 = Platform("amd64", True)
POOLS = {
    name: PoolSpec(name=name, processors=(processor,), provisioned=processor == "arm64")
    for name, processor in (("linux", "amd64"), ("arm", "arm64"))
}


@pytest.fixture
def farm() -> Ledger:
    """A farm of one pool for amd64 and one for arm64, without builders."""
    return Ledger(pools=list(POOLS.values()))


def submit(farm: Ledger, *ids: str, **fields: Any) -> None:
    """Submit jobs for the first pool."""
    farm.submit(*ids, **{"service_time": 9.0, "platform": AMD64, **fields})


def request(farm: Ledger, pool: str) -> None:
    """Let a builder of this pool boot."""
    builder = POOLS[pool].builder(1, 1)
    farm.scheduler.pool(pool).requested[builder.id] = BuilderRequest(builder, 1.0)


def told(
    farm: Ledger,
    job: str,
    *,
    rollouts: Any = None,
    lately: Any = lambda _: None,
    by_errors: Any = lambda *_: None,
    arrivals: Any = lambda _: None,
) -> Waiting:
    """Return what is answered about a job."""
    answers = []
    questions = Questions(
        farm.scheduler,
        lambda: farm.at,
        lambda asked, found: answers.append((asked, found)),
        rollouts=rollouts,
        lately=lately,
        by_errors=by_errors,
        arrivals=arrivals,
    )
    question = Ask("job", job, "token")
    questions.ask(question)
    while questions.step() or not answers:
        pass
    ((asked, answer),) = answers
    assert asked is question
    assert answer.job is not None
    return answer.job


def test_there_is_no_builder(farm: Ledger):
    """Booting ones count only if they could run it; also for a platform that no builder has."""
    submit(farm, "a")
    submit(farm, "b", platform=Platform("sparc", False))
    request(farm, "arm")
    assert told(farm, "a").why == "no builder that could run it is there, and none of them boot"
    request(farm, "linux")
    assert told(farm, "a").why == "no builder that could run it is there, and 1 of them boot"
    assert told(farm, "a").booting == 1
    assert told(farm, "b").why == "no pool of the farm has builders that could run it"


def test_a_provisioner_may_bring_builders_that_no_estimate_counts(farm: Ledger):
    """Only for jobs that builders of a provisioned pool could run."""
    submit(farm, "fixed")
    submit(farm, "elastic", platform=Platform("arm64", True))
    assert not told(farm, "fixed").may_grow
    assert told(farm, "elastic").may_grow
    said = [in_words("j", told(farm, job), 1.0, AFTERNOON) for job in ("elastic", "fixed")]
    assert said[0].endswith("; sooner if more builders come")
    assert "sooner" not in said[1]


def test_builders_are_busy_or_accept_no_jobs(farm: Ledger):
    """How many jobs are ahead; a running job has no reason."""
    farm.join("linux-1", pool="linux")
    submit(farm, "a", "b", "c")
    assert told(farm, "a").why == ""
    assert told(farm, "b").why == "the only builder that could run it is busy, it is the next"
    assert told(farm, "c").why == "the only builder that could run it is busy, 1 job is ahead"
    farm.drain("*")
    assert told(farm, "c").why == "the only builder that could run it is drained, failed or leaving"


def test_jobs_of_other_platforms_are_ahead_where_builders_run_both(farm: Ledger):
    """A job that runs anywhere has all of them before it: it said none, beside the right time."""
    farm.join("linux-1", pool="linux")
    farm.join("arm-1", pool="arm", processors=("arm64",))
    submit(farm, "running", "first", "second")
    submit(farm, "on-arm", "third", platform=Platform("arm64", True))
    submit(farm, "anywhere", platform=Platform())
    submit(farm, "behind-it")

    assert told(farm, "anywhere").ahead == 3
    assert told(farm, "behind-it").ahead == 3
    assert told(farm, "third").ahead == 0
    assert told(farm, "anywhere").why.endswith("busy, 3 jobs are ahead")


def test_builders_with_all_their_uses_taken(farm: Ledger):
    """They are not called drained: others take their place; the estimate expects them."""
    farm.join("linux-1", pool="linux", uses=1)
    submit(farm, "a", "b")
    found = told(farm, "b")
    reason = "closed, 1 of them because all their uses are taken"
    assert found.why == f"the only builder that could run it is {reason}"
    assert found.dispatch_in_time is not None


def test_a_job_that_is_served_by_anothers_execution():
    """It has no place in the queue, and does not run itself, also while that one runs."""
    farm = Ledger(pools=list(POOLS.values()), dedup=True)
    submit(farm, "a", action="x")
    submit(farm, "b", action="x")
    said = "a, which does the same action, is executed for both"
    assert told(farm, "b").why == said
    farm.join("linux-1", pool="linux")
    assert told(farm, "a").why == ""
    assert told(farm, "b").why == said


def test_the_farm_keeps_working_while_a_question_is_answered(farm: Ledger):
    """Several questions wait for their turn; each answer is of the moment when it was asked."""
    farm.join("linux-1", pool="linux")
    submit(farm, *(f"j{number}" for number in range(200)))
    at, answers = [2.0], {}
    clerk = Questions(
        farm.scheduler,
        lambda: at[0],
        lambda asked, found: answers.setdefault(asked.job, found),
    )
    assert not clerk.step()
    for job in ("j150", "j199", "unknown"):
        clerk.ask(Ask("job", job, "token"))
    assert clerk.step()
    at[0] = 9.0
    farm.scheduler.handle(events.JobFinished(9.0, "j0", 1, "linux-1", "succeeded"))
    while clerk.step():
        pass
    assert {job: found.at for job, found in answers.items()} == {
        "j150": 2.0,
        "j199": 9.0,
        "unknown": 9.0,
    }
    assert answers["j150"].job.ahead == 149
    assert answers["j199"].job.ahead == 197
    assert answers["unknown"].job is None


class Rolled:
    """Rollouts that answer at the third look, or are too dear."""

    run_times = "declared"

    def __init__(self, start_at: float | None, *, dear: bool = False) -> None:
        self.start_at, self.dear, self.looks = start_at, dear, 0
        self.forecasts: dict[str, Forecast] = {}
        self.rollouts = 0

    def ask(self, jobs, patience) -> Rolled | None:
        """Remember who was asked about."""
        assert patience > 0
        self.jobs = jobs
        return None if self.dear else self

    @property
    def done(self) -> bool:
        """Whether they have answered."""
        self.looks += 1
        if self.looks == 3:
            start_at = self.start_at
            known = () if start_at is None else tuple(start_at + n for n in range(-4, 5))
            self.forecasts, self.rollouts = {self.jobs[0]: Forecast(start_at, None, known)}, 50
        return self.looks == 3

    def basis(self, job: Job) -> tuple[int, str]:
        """Return that three run times are known."""
        assert job.id in self.jobs
        return 3, "all kinds"


def test_how_an_estimate_was_made(farm: Ledger):
    """By which method, from what, and how good it was; why the formula says something else."""
    farm.join("linux-1", pool="linux")
    submit(farm, "a", "b", "c")
    was = {"rollout": Lately(50, 0.68, 0.96), "launchpad": Lately(1, 0.0, 1.0)}
    by_formula = told(farm, "c", lately=was.get)
    assert (by_formula.method, by_formula.lately) == ("formula", was["launchpad"])
    formula = by_formula.dispatch_in_time
    assert formula == 17.0
    rolled = told(farm, "c", rollouts=Rolled(2.0 + 9.0), lately=was.get)
    assert (rolled.method, rolled.dispatch_in_time) == ("rollouts", 9.0)
    assert rolled.dispatch_range == WaitRange(5.0, 13.0)
    assert (rolled.rollouts, rolled.past_run_times, rolled.drawn_from) == (50, 3, "all kinds")
    assert (rolled.lately, rolled.formula_in_time) == (was["rollout"], formula)
    assert rolled.differs.startswith("the formula adds up waits that pass side by side")
    assert told(farm, "c", rollouts=Rolled(2.0 + 16.5)).differs == ""
    assert "as such jobs really ran" in told(farm, "c", rollouts=Rolled(99.0)).differs
    dear = told(farm, "c", rollouts=Rolled(None, dear=True))
    assert (dear.method, dear.dispatch_in_time) == ("formula", formula)
    assert dear.no_rollouts == "the farm is too large now to be simulated"


def test_of_a_very_long_queue_not_all_that_was_told_is_kept(monkeypatch):
    """It is saved every few seconds; who was told already stays, and a dispatch makes room."""
    monkeypatch.setattr(recent_errors, "MAX_TOLD", 2)
    recent = RecentErrors(lambda _: True)

    def tell(*jobs: str) -> list[int]:
        for job in jobs:
            recent.observe(events.EstimateMade(0.0, job, "rollout", 9.0, waiting=1), ())
        return [len(recent.memory.given.get(job, ())) for job in ("a", "b", "c")]

    assert tell("a", "b", "c", "a") == [2, 1, 0]
    start = StartJob(Job(id="a", service_time=1.0, platform=AMD64), 1, "linux-1", 0)
    recent.observe(events.AlarmRang(9.0), [start])
    assert tell("c") == [0, 1, 1]


def test_how_good_estimates_were_lately(farm: Ledger):
    """Of the last fifty jobs that were told before they started; by method."""
    recent = RecentErrors(lambda job: job != "gone")
    made = [
        events.EstimateMade(0.0, f"j{n}", "rollout", at, waiting=1)
        for n, at in enumerate([10.0, 40.0, 700.0, 5000.0])
    ]
    made += [
        events.EstimateMade(0.0, "gone", "rollout", 99.0, waiting=1),
        events.EstimateMade(0.0, "at-once", "rollout", 0.0),
        events.EstimateMade(0.0, "j0", "launchpad", 90.0, waiting=1),
    ]
    for one in made:
        recent.observe(one, ())
    assert recent.of("rollout") is None
    farm.join("linux-1", pool="linux")
    for name in ("j0", "j1", "j2", "j3", "gone", "at-once"):
        job = Job(id=name, service_time=1.0, platform=AMD64)
        recent.observe(events.AlarmRang(90.0), [StartJob(job, 1, "linux-1", 0)])
    assert recent.of("rollout") == Lately(4, 0.25, 0.5)
    assert recent.of("launchpad") == Lately(1, 1.0, 1.0)
    said = "of the last 50 jobs 68 % started within 1 minute of what they were told, 96 % within 10"
    assert str(Lately(50, 0.68, 0.96)) == said
    now = Waiting(
        status="waiting",
        attempts=0,
        submitted_at=1.0,
        estimated_time=9.0,
        ahead=3,
        method="rollouts",
        rollouts=50,
        past_run_times=23,
        drawn_from="kind",
        formula_in_time=60.0,
        dispatch_in_time=30.0,
        differs="because",
        lately=Lately(50, 0.68, 0.96),
    )
    job = JobRecord(Job(id="a", service_time=1.0), 1, (0, 0.0, 1), 0.0, 9.0)
    history = description_of(job, [], Answer(at=2.0, job=now))
    assert method_in_full(history) == (
        "50 simulations of the farm from now on, with run times as of 23 past jobs of its kind; "
        f"{said}"
    )
    assert {
        name: history[name] for name in ("rollouts", "estimates_lately", "why_they_differ")
    } == {
        "rollouts": 50,
        "estimates_lately": {"jobs": 50, "within_1_min": 0.68, "within_10_min": 0.96},
        "why_they_differ": "because",
    }


def test_a_method_without_ranges_has_those_of_its_errors(farm: Ledger):
    """All users are told a range: at first a guess, then what the last errors allow."""
    recent = RecentErrors(lambda _: True)
    first = recent.range_of("launchpad", 600.0)
    assert (first.is_proven, first.coverage) == (False, None)
    assert first.p10_time < 600.0 < first.p90_time
    for n in range(20):
        job = Job(id=f"j{n}", service_time=1.0, platform=AMD64)
        recent.observe(events.EstimateMade(0.0, job.id, "launchpad", 100.0, waiting=1), ())
        recent.observe(events.AlarmRang(200.0 + n), [StartJob(job, 1, "linux-1", 0)])
    learned = recent.range_of("launchpad", 100.0)
    assert learned.is_proven
    assert 190.0 < learned.p10_time < 210.0 < learned.p90_time < 225.0
    assert learned.errors == 20
    assert learned.coverage is not None
    farm.join("linux-1", pool="linux")
    submit(farm, "a", "b")
    found = told(farm, "b", by_errors=recent.range_of)
    assert found.dispatch_range == recent.range_of("launchpad", found.dispatch_in_time or 0.0)


def test_a_memory_of_an_earlier_release_is_read():
    """It has pairs where this release keeps the range too; a take-over must not lose its jobs."""
    memory = msgspec.json.decode(b'{"told": {"a": [["rollout", 9.0]]}}', type=ErrorMemory)
    assert memory.given["a"][0].dispatch_at == 9.0
    recent = RecentErrors(lambda _: True)
    recent.memory = memory
    start = StartJob(Job(id="a", service_time=1.0, platform=AMD64), 1, "linux-1", 0)
    recent.observe(events.AlarmRang(9.0), [start])
    assert recent.of("rollout") == Lately(1, 1.0, 1.0)


def test_a_blocked_job_is_told_when_it_starts(farm: Ledger):
    """After the rest of what it needs, one after the other, its delay, and those that wait now."""
    farm.join("linux-1", pool="linux")
    submit(farm, "build", service_time=100.0)
    needing = {"service_time": 30.0, "platform": AMD64}
    farm.submit(
        Job(id="test", needs=("build",), needs_delay=20.0, **needing),
        Job(id="deploy", needs=("test",), **needing),
        Job(id="group-1", group="g", **needing),
        Job(id="group-2", group="g", **needing),
    )
    farm.at += 40.0
    waiting, test, deploy, group = (
        told(farm, name).dispatch_in_time or 0.0
        for name in ("group-1", "test", "deploy", "group-2")
    )
    assert test >= max(60.0 + 20.0, waiting)
    assert deploy == test + 30.0
    assert group >= waiting + 30.0
    said = in_words("deploy", told(farm, "deploy"), 1.0, AFTERNOON)
    assert said.startswith("deploy starts in about 2m30s (unproven")
    assert said.endswith("waiting for the end of test (blocked for 41s)")


def test_a_job_that_needs_hundreds_of_blocked_ones_is_told_when_it_starts(farm: Ledger):
    """Each of them is looked at once: after every one all were, and it was given up."""
    farm.join("linux-1", pool="linux")
    submit(farm, "build", service_time=100.0)
    tests = [f"test-{number}" for number in range(600)]
    needing = {"service_time": 30.0, "platform": AMD64}
    farm.submit(
        *(Job(id=name, needs=("build",), **needing) for name in tests),
        Job(id="deploy", needs=tuple(tests), **needing),
    )
    assert told(farm, "deploy").dispatch_in_time is not None


def test_a_blocked_job_is_told_the_place_that_its_policy_gives_it():
    """Under shortest job first a short one waits for no long job that has not started."""
    farm = Ledger(pools=list(POOLS.values()), policy=sjf.key)
    farm.join("linux-1", pool="linux")
    submit(farm, "build", service_time=100.0)
    submit(farm, "a", "b", "c", service_time=900.0)
    submit(farm, "test", needs=("build",), service_time=30.0)
    submit(farm, "release", needs=("build",), service_time=1000.0)
    test, release = (told(farm, name).dispatch_in_time or 0.0 for name in ("test", "release"))
    assert test < 110.0
    assert release > 2700.0


@pytest.mark.parametrize("rollouts", [None, Rolled(None)], ids=["formula", "rollouts"])
def test_a_job_that_waits_for_a_failure_is_told_no_start(farm: Ledger, rollouts):
    """Most likely it is skipped: the end of what it needs is no start, and no long wait either."""
    farm.join("linux-1", pool="linux")
    submit(farm, "build")
    submit(farm, "clean-up", needs=("build:failed",))
    found = told(farm, "clean-up", rollouts=rollouts)
    assert found.dispatch_in_time is None
    said = in_words("clean-up", found, 1.0, AFTERNOON)
    assert said.startswith("clean-up waits, runs about 9s: ")
    assert said.endswith("unless build fails, it is skipped")


def test_a_job_that_shorter_ones_keep_waiting_is_told_no_end():
    """Shortest job first: while shorter jobs bring as much work as can be done, it never starts."""
    farm = Ledger(pools=list(POOLS.values()), policy=sjf.key)
    farm.join("linux-1", pool="linux")
    submit(farm, "running")
    submit(farm, "long", service_time=900.0)
    submit(farm, "short", service_time=20.0)
    come = tuple((Job(id=f"c{n}", service_time=30.0, platform=AMD64),) for n in range(100))
    for job, time, is_open in (
        ("long", 3000.0, True),
        ("long", 4000.0, False),
        ("short", 3000.0, False),
    ):
        recent = RecentArrivals(come, time)
        found = told(
            farm,
            job,
            by_errors=lambda *_: WaitRange(20.0, 60.0, True),
            arrivals=lambda _, recent=recent: recent,
        )
        assert forecast_of(found).is_open == is_open
        assert ("may wait very long" in in_words(job, found, 1.0, AFTERNOON)) == is_open
    assert not told(farm, "long").may_starve


def test_by_when_a_job_is_done_is_told_as_a_clock_shows_it():
    """Only where a second of the farm is one of the user's; another day has its name."""
    assert clock_time(3000.0, 1.0, AFTERNOON) == "14:50"
    assert clock_time(3010.0, 1.0, AFTERNOON) == "14:51"
    assert clock_time(86_400.0, 1.0, AFTERNOON) == "Tue 14:00"
    assert clock_time(30 * 86_400.0, 1.0, AFTERNOON) == "2026-04-01 14:00"
    assert clock_time(3000.0, 60.0, AFTERNOON) == clock_time(None, 1.0, AFTERNOON) == ""


def test_a_declared_time_that_past_runs_do_not_bear_out_is_told():
    """And it weighs in: the range of this job's run time goes as far."""
    farm = Ledger(pools=list(POOLS.values()))
    learned = RuntimeDistribution(make_estimator("learned"))
    builder = POOLS["linux"].builder(1, 1)
    for n in range(12):
        old = Job(id=f"old{n}", service_time=1.0, declared_time=90.0)
        learned.learn(old, builder, 80.0 + 2 * n, "succeeded")
    farm.scheduler.estimator = learned
    submit(farm, "a", declared_time=240.0)
    submit(farm, "b", declared_time=90.0)
    doubted, believed = told(farm, "a"), told(farm, "b")
    assert (doubted.unlike_declared, believed.unlike_declared) == (240.0, None)
    assert doubted.run_time_range is not None
    assert doubted.run_time_range.high == 240.0
    said = in_words("a", doubted, 1.0, AFTERNOON)
    assert said.endswith("; you said 4 min; this kind takes about 1m30s")


def test_what_a_kind_takes_is_told_by_what_ran_where_declared_times_are_believed():
    """By the estimate it was the declared time: you said 10 min; this kind takes about 10 min."""
    farm = Ledger(pools=list(POOLS.values()))
    learned = RuntimeDistribution(make_estimator("declared"))
    for n in range(12):
        old = Job(id=f"old{n}", service_time=1.0, declared_time=600.0)
        learned.learn(old, POOLS["linux"].builder(1, 1), 270.0 + 5 * n, "succeeded")
    farm.scheduler.estimator = learned
    submit(farm, "a", declared_time=600.0)
    assert told(farm, "a").kind_time == pytest.approx(300.0, abs=10.0)


def test_several_jobs_are_told_when_they_start_by_the_same_rollouts(farm: Ledger):
    """A listing asks once: for each job the farm would be simulated again."""
    farm.join("linux-1", pool="linux")
    submit(farm, "a", "b", "c")
    farm.submit(Job(id="t", needs=("c",), service_time=9.0, platform=AMD64))
    answers: list[Any] = []
    asked: list[Any] = []

    class Dear(Rolled):
        def ask(self, jobs: Any, patience: float) -> Rolled | None:
            asked.append(tuple(jobs))
            return super().ask(jobs, patience)

    for rollouts in (Dear(None, dear=True), Rolled(20.0)):
        questions = Questions(
            farm.scheduler,
            lambda: farm.at,
            lambda _, found: answers.append(found),
            rollouts=rollouts,
        )
        questions.ask(Ask("forecasts", "", "token", ("b", "a", "c", "t", "unknown")))
        before = len(answers)
        while questions.step() or len(answers) == before:
            pass
    by_formula, rolled = answers
    assert asked == [("b", "c", "t")]
    assert list(by_formula.jobs) == ["b", "c", "t"]
    times = [one.dispatch_in_time for one in by_formula.jobs.values()]
    assert times == sorted(times)
    assert [one.method for one in rolled.jobs.values()] == ["rollouts", "formula", "formula"]


class SlowRollouts:
    """Rollouts without an answer, which are waited for once."""

    run_times = "oracle"
    rollouts = 0

    def __init__(self) -> None:
        self.forecasts: Any = {}
        self._is_done = iter((False, True))

    @property
    def done(self) -> bool:
        """False, then True."""
        return next(self._is_done)

    def ask(self, *_: object) -> SlowRollouts:
        """Return what to wait for."""
        return self


def asked_about_held_jobs(
    farm: Ledger, *questions: Ask, rollouts: Any
) -> tuple[Questions, list[Any]]:
    """Return questions of which the first one is begun, and where their answers come."""
    submit(farm, "first", "held", group="deploy")
    answers: list[Any] = []
    asked = Questions(
        farm.scheduler, lambda: farm.at, lambda _, found: answers.append(found), rollouts=rollouts
    )
    for question in questions:
        asked.ask(question)
    asked.step()
    return asked, answers


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (Ask("job", "held", "token"), Answer(at=1.0)),
        (Ask("forecasts", "", "token", ("held",)), Forecasts(at=1.0)),
    ],
)
def test_a_job_held_by_its_group_may_be_cancelled_while_it_is_asked_about(
    farm: Ledger, question: Ask, answer: Answer | Forecasts
):
    """Its group has gone with it: the scheduler looked for that, and ended."""
    asked, answers = asked_about_held_jobs(farm, question, rollouts=SlowRollouts())
    farm.cancel("first", "held")
    while asked.step():
        pass
    assert answers == [msgspec.structs.replace(answer, at=answers[0].at)]


def test_a_question_that_fails_is_refused_and_the_next_one_answered(
    farm: Ledger, caplog: pytest.LogCaptureFixture
):
    """One question must not end the scheduler: its log says what failed."""
    rollouts = SlowRollouts()
    rollouts.forecasts = None
    questions = Ask("job", "held", "token"), Ask("job", "gone", "token")
    asked, answers = asked_about_held_jobs(farm, *questions, rollouts=rollouts)
    while asked.step():
        pass
    assert answers == [FAILED, Answer(at=farm.at)]
    assert "'held' could not be answered" in caplog.text
