"""Which jobs of a source are submitted, and when; without a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import farm.testing
from farm.app.jobs import submission_estimate
from farm.app.jobs.sources import jobs_of
from farm.app.jobs.submission import Submission, SubmitOptions, _prefixed
from farm.app.jobs.submission_estimate import with_provisioner
from farm.core.errors import InputError, TraceError
from farm.core.model import Job, Platform
from farm.core.state.snapshot import snapshot_of
from farm.live.operating.answers import FarmImage

AMD64 = Platform("amd64", True)
LINES = '{"service_time_s": 1, "job_id": "a"}\n{"service_time_s": 1, "job_id": "b"}\n'


def test_only_the_first_jobs_of_json_lines(tmp_path: Path):
    """As with a trace: ``submit FILE --jobs 1``."""
    path = tmp_path / "jobs.jsonl"
    path.write_text(LINES)
    found = [list(jobs_of(path, None, jobs, None, AMD64)) for jobs in (1, 3, None)]
    assert [[job.id for job in jobs] for jobs in found] == [["a"], ["a", "b"], ["a", "b"]]


def test_nothing_is_read_after_the_last_job_of_a_pipe(monkeypatch: pytest.MonkeyPatch):
    """``submit - --jobs 1`` ends although the pipe stays open."""

    def lines() -> Iterator[str]:
        yield LINES.splitlines()[0]
        pytest.fail("reads on")

    monkeypatch.setattr("farm.app.jobs.sources.standard_input", lines)
    assert [job.id for job in jobs_of(Path("-"), None, 1, None, AMD64)] == ["a"]


class Clock:
    """Real time, which passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Client:
    """A farm that knows no job, and notes at what time each one comes."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.came: list[tuple[float, str]] = []

    def known(self, _: list[str]) -> set[str]:
        return set()

    def check_room(self, _: int) -> None:
        pass

    def submit(self, jobs: list[Job], **_: bool) -> int:
        self.came += [(self.clock.now, job.id) for job in jobs]
        return len(jobs)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """A farm in virtual time."""
    clock = Clock()
    monkeypatch.setattr("farm.app.jobs.submission.time", clock)
    return Client(clock)


def submission(client: Client) -> Submission:
    """Return a submission at twice the pace that has begun."""
    begun = Submission("jobs", SubmitOptions(pace=2.0))
    begun.begin(client)  # type: ignore[arg-type]
    return begun


def at(*instants: float | None) -> list[Job]:
    """Return jobs that arrive at these instants, and are named after them."""
    return [Job(id=f"{instant}", service_time=1.0, arrived_at=instant) for instant in instants]


def test_a_file_in_any_order_is_submitted_in_order_of_time(client: Client):
    """None is late because a later one stands before it; one without a time comes at once."""
    submission(client).at_once(at(60.0, 20.0, None, 40.0))
    assert client.came == [(0.0, "None"), (10.0, "20.0"), (20.0, "40.0"), (30.0, "60.0")]


def test_a_pipe_that_goes_back_in_time_is_refused(client: Client):
    """It cannot be sorted; the message names the job."""
    said = "jobs: job '20.0': found submitted_at_s 20 after 50; allowed: jobs in order of time"
    with pytest.raises(TraceError, match=said):
        submission(client).paced(iter(at(40.0, 50.0, 20.0)))
    assert client.came == [(20.0, "40.0")]


# --- Estimates at submission on provisioned pools, compared with the actual dispatches ------------

SIZES = {"algorithm": "taskcluster", "max": 3}
ELASTIC = farm.testing.small_scenario(
    {"boot_time": "90s", "idle_timeout": "10m", "provisioner": SIZES},
    scheduling={"runtime_estimates": "oracle"},
)

ALGORITHMS = ["taskcluster", "keda", "gitlab", "arc"]


class Asked:
    """An client of this farm."""

    def __init__(self, built: farm.testing.VirtualFarm, scenario: dict[str, Any]) -> None:
        self.image = lambda: FarmImage(
            snapshot=snapshot_of(built.scheduler, built.at), scenario=scenario
        )
        self.status = built.operator.status


SIZED = [{"provisioner": {"algorithm": name, "max": 3}} for name in ALGORITHMS]
FIXED: dict[str, Any] = {"provisioner": None, "idle_timeout": None}
USED_UP = [
    {"uses": 1, "builders": 2, **FIXED},
    {"uses": 2, "builders": 1, **FIXED},  # one use is left when the others arrive
    {"uses": 1, **SIZED[0]},
    {"uses": 1, **SIZED[-1]},
]


@pytest.mark.parametrize(
    "kind",
    [
        SIZED[0],
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in SIZED[1:]),
        *USED_UP[:2],
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in USED_UP[2:]),
    ],
)
def test_the_estimate_equals_the_actual_dispatch(kind: dict[str, Any]):
    """Builders that boot, those that the provisioner will request, and successors are counted."""
    [pool] = ELASTIC["pools"]
    scenario = ELASTIC | {"pools": [pool | kind]}
    built = farm.testing.VirtualFarm(scenario)
    client: Any = Asked(built, scenario)
    built.submit(*(Job(id=f"early-{n}", service_time=200.0) for n in range(2)))
    built.advance("100.5s")
    jobs = [Job(id=f"late-{n}", service_time=60.0 * (1 + n % 4)) for n in range(8)]
    built.submit(*jobs)
    told = {}
    for job in jobs:
        before = built.explain(job.id)
        assert before.job is not None
        assert before.job.may_grow
        found = with_provisioner(client, job.id, before).job
        assert found is not None
        assert not found.may_grow
        told[job.id] = built.at + (found.dispatch_in_time or 0.0)
    built.advance_until_idle()
    ends = [built.operator.job(name) for name in told]
    assert [end.dispatched_at for end in ends] == pytest.approx(list(told.values()))


def test_a_farm_that_cannot_be_simulated_keeps_the_schedulers_estimate(monkeypatch):
    """It is too large, its functions are not installed here, or the job has been dispatched."""
    built = farm.testing.VirtualFarm(ELASTIC)
    built.submit(Job(id="a", service_time=1.0))
    found = built.explain("a")
    assert found.job is not None
    known = {"scheduling": {"policy": "nowhere:at_all"}}
    for client, job in ((Asked(built, ELASTIC | known), "a"), (Asked(built, ELASTIC), "unknown")):
        assert with_provisioner(client, job, found) is found  # type: ignore[arg-type]
    monkeypatch.setattr(submission_estimate, "MAX_SIMULATED", 0)
    assert with_provisioner(Asked(built, ELASTIC), "a", found) is found  # type: ignore[arg-type]


def needing(name: str, *needs: str, at: float | None = None) -> Job:
    """Return a job that needs others."""
    return Job(id=name, service_time=1.0, arrived_at=at, needs=needs)


def test_jobs_are_sent_behind_those_they_need(client: Client):
    """They are sent in pieces, and each piece is accepted by itself; a prefix holds for needs."""
    jobs = [needing("c", "b:ended"), needing("b", "a"), needing("a"), needing("d")]
    made = Submission("jobs", SubmitOptions(prefix="x-"))
    made._client = client  # type: ignore[assignment]
    made.at_once([_prefixed(job, "x-") for job in jobs])
    assert [name for _, name in client.came] == ["x-a", "x-b", "x-c", "x-d"]
    assert _prefixed(jobs[0], "x-").needs == ("x-b:ended",)


@pytest.mark.parametrize(
    ("jobs", "pace", "says"),
    [
        ([needing("a", "b"), needing("b", "a")], None, "a → b → a"),
        ([needing("a", "b")], None, "found 'b', which is not known"),
        ([needing("a", "b", at=0.0), needing("b", at=5.0)], 1.0, "found b, which arrives at 5s"),
    ],
)
def test_needs_that_cannot_be_met_are_refused_before_anything_is_sent(
    client: Client, jobs: list[Job], pace: float | None, says: str
):
    """Half a pipeline would be in the farm, and its other half refused."""
    made = Submission("jobs", SubmitOptions(pace=pace))
    made._client = client  # type: ignore[assignment]
    with pytest.raises(InputError, match=says):
        made.at_once(jobs)
    assert not client.came


def test_json_lines_name_needs_as_a_list_or_as_in_a_table(tmp_path: Path):
    """A line may be written by a program, or copied from a table."""
    path = tmp_path / "jobs.jsonl"
    path.write_text(
        '{"service_time_s": 1, "job_id": "t", "needs": "a; b:ended", "needs_delay_s": 5}\n'
        '{"service_time_s": 1, "job_id": "u", "needs": ["a", "b:failed"]}\n'
    )
    one, two = jobs_of(path, None, None, None, AMD64)
    assert (one.needs, one.needs_delay, two.needs) == (("a", "b:ended"), 5.0, ("a", "b:failed"))


def test_a_blocked_job_is_told_when_it_starts_at_its_submission():
    """It was said to go at once, as it has no place in line; then nothing."""
    built = farm.testing.VirtualFarm("mm1")
    built.submit(needing("a"), needing("t", "a"))

    class Asked:
        def is_attended(self) -> bool:
            return True

        def ask(self, *_: object) -> Any:
            return built.explain("t")

        def status(self) -> Any:
            return built.operator.status()

    made = submission_estimate.estimate_of(Asked(), "t")  # type: ignore[arg-type]
    assert made is not None
    assert made.ahead is None
    assert made.dispatch_in_s
    assert made.forecast.startswith("t starts in ")
    assert "it has been waiting for the end of a" in made.forecast
