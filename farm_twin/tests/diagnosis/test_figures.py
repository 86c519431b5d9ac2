"""The doctor's figures are those of the definitions, and its verdicts those of known farms."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farm.records.attempt import Attempt
from farm.records.bundle import write_bundle
from farm.records.runners import most_at_once
from farm.results.descriptive_statistics import quantile
from farm_twin.diagnosis.diagnose import diagnose
from farm_twin.diagnosis.figures import PlatformFigures, examine
from farm_twin.diagnosis.verdict import Verdict
from farm_twin.diagnosis.waits import Waits
from tests.conftest import Said
from tests.fixtures.attempts import attempt, bundle_of, served

START = 1_793_610_000.0
OBJECTIVE = 300.0


def played(
    *,
    jobs: int = 400,
    every: float = 60.0,
    run_time: float = 600.0,
    servers: int = 10,
    gap: float = 0.0,
    patience: float = float("inf"),
    comes: Callable[[int, random.Random], float] | None = None,
) -> list[Attempt]:
    """Return the attempts of a farm: first come, first served, ``gap`` between two jobs."""
    draw = random.Random(1)

    def arrivals() -> Iterator[float]:
        at = START
        for number in range(jobs):
            at += comes(number, draw) if comes else draw.expovariate(1 / every)
            yield at

    return served(arrivals(), lambda: draw.uniform(0.5, 1.5) * run_time, servers, gap, patience)


def figures(attempts: Iterable[Attempt], objective: float = OBJECTIVE) -> PlatformFigures:
    """Return the figures of the only platform."""
    [one] = examine(bundle_of(attempts), UTC, objective).platforms
    return one


def judged(attempts: Iterable[Attempt]) -> list[Verdict]:
    """Return the verdicts on the only platform."""
    return diagnose(bundle_of(attempts), UTC, OBJECTIVE).verdicts


def test_figures_by_hand():
    """Two runners and four jobs, counted on paper."""
    jobs = [  # eligible, started, finished, runner
        (0.0, 0.0, 100.0, "a"),
        (0.0, 10.0, 60.0, "b"),
        (20.0, 70.0, 120.0, "b"),
        (50.0, 110.0, 150.0, "a"),
    ]
    one = figures(
        attempt(n, START + e, START + s, START + f, runner=r) for n, (e, s, f, r) in enumerate(jobs)
    )
    assert one.run_time.mean == 60.0
    assert one.arrivals_per_hour == pytest.approx(4 / 50 * 3600)
    assert one.offered_load == pytest.approx(4 / 50 * 60)
    assert (one.runners, one.slots_seen) == (2, 2)
    # while jobs waited, 0-10 and 20-110: a to 100; b 20-60 and 70-110, there from 10 on
    assert one.busy_share_while_waiting == pytest.approx((10 + 80 + 40 + 40) / (100 + 90))
    assert sorted([one.turnaround.p50, one.turnaround.count]) == [2, 10.0]
    assert one.waits.mean == pytest.approx((0 + 10 + 50 + 60) / 4)


def test_a_farm_that_is_too_small_is_short_of_servers():
    """Work for ten slots on eight."""
    [one] = judged(played(servers=8))
    assert one.kind == "short of servers"
    found = figures(played(servers=8))
    assert found.utilization == pytest.approx(10 / 8, rel=0.1)
    # as many as it says do, and one fewer does not
    needed = found.servers_needed or 0
    for servers, is_enough in ((needed, True), (needed - 1, False)):
        waits = [job.waited for job in played(servers=servers)]
        assert (np.quantile(waits, 0.95) <= OBJECTIVE) == is_enough


def test_parts_of_slots_are_rounded_up():
    """Of jobs that take half a slot each, "0 slots would keep p95 within 5m" was said."""
    needed = {}
    for slots in (1.0, 0.5):
        jobs = [replace(job, runner="", slots=slots) for job in played(jobs=60)]
        [platform] = examine(bundle_of(jobs, capacity=10 * slots), UTC, OBJECTIVE).platforms
        needed[slots] = platform.servers_needed or 0
    assert needed[0.5] == math.ceil(needed[1.0] / 2)


def test_processors_in_use_are_all_for_jobs_that_take_several():
    """Two jobs on four nodes of five were no capacity at all, as no node could be named."""
    jobs = [replace(job, runner="", slots=128.0) for job in played(jobs=60, servers=2)]
    jobs = [replace(job, slots=100.0) if number % 9 == 0 else job for number, job in
            enumerate(jobs)]  # fmt: skip
    [verdict] = judged(jobs)
    assert (verdict.kind, verdict.grade) == ("short of servers", "likely")
    assert "unless there are more slots than were ever in use" in verdict.text
    assert "capacity 256 " in verdict.text


def test_a_node_counts_with_the_processors_that_were_in_use_on_it():
    """Of jobs of one and of twelve processors the sum on each node was its capacity."""
    jobs = [
        replace(job, slots=1.0 if number % 3 else 12.0)
        for number, job in enumerate(played(servers=4))
    ]
    found = figures(jobs)
    assert (found.slots_in_use, found.runner_slots) == (48.0, 12)
    # of few jobs that fill a node most of it is idle, and that says nothing of its number
    [verdict] = judged(jobs)
    assert verdict.kind == "cannot tell"
    assert "(--slots N, all that the platform has, settles it)" in verdict.text


def test_told_slots_are_those_of_jobs_that_take_several():
    """On 32 processors that were told, eight jobs of four at once looked like a quarter."""
    jobs = [replace(job, slots=4.0) for job in played(servers=8)]
    [verdict] = diagnose(bundle_of(jobs, capacity=32.0), UTC, OBJECTIVE).verdicts
    assert (verdict.kind, verdict.grade) == ("short of servers", "sure")


def test_jobs_that_gave_up_are_load_and_not_fine():
    """Those that started waited little: they are the ones that were lucky."""
    attempts = played(servers=5, patience=250.0)
    found = figures(attempts)
    assert found.waits.max is not None
    assert found.waits.max <= OBJECTIVE
    assert found.utilization == pytest.approx(10 / 5, rel=0.1)
    assert found.censored > 100
    [one] = judged(attempts)
    assert one.kind == "short of servers"
    assert "were cancelled before they started" in one.text


def test_what_passes_between_two_jobs_is_load():
    """Ten slots' work on twelve, and a quarter more of each slot's time for what lies between."""
    attempts = played(servers=12, gap=150.0)
    assert figures(attempts).utilization == pytest.approx(12.5 / 12, rel=0.05)
    [one] = judged(attempts)
    assert one.kind == "short of servers"
    assert "demand 12.4 slots, with 2m30s between two jobs, capacity 11.8 (105 %)" in one.text


def in_whole_seconds(attempts: Iterable[Attempt], hosted: bool) -> list[Attempt]:
    """Return them as GitHub tells them: an end may be said a second after the next one's start."""
    return [
        replace(
            one, started_at=one.started_at and one.started_at // 1, hosted=hosted,
            finished_at=one.finished_at and one.finished_at // 1 + n % 2,
            runner=f"GitHub Actions {n}" if hosted else one.runner,
        )
        for n, one in enumerate(attempts)
    ]  # fmt: skip


@pytest.mark.parametrize("hosted", [False, True])
def test_clocks_of_whole_seconds_hide_no_limit(hosted: bool):
    """Five slots were taken for seven, or for idle ones between two jobs."""
    attempts = in_whole_seconds(played(servers=5, every=110.0), hosted)
    one = figures(attempts)
    assert (one.busy_at_once, one.turnaround.p50) == (5, 0.0)
    assert one.utilization == pytest.approx(600 / 110 / 5, rel=0.1)
    assert [one.kind for one in judged(attempts)] == ["short of servers"]


def test_retries_that_cost_a_farm_are_told():
    """A third of its time goes into attempts that are tried again."""
    attempts = played(servers=17)
    for number, one in enumerate(attempts):
        if number % 3 == 1:
            one.job, one.attempt = attempts[number - 1].job, 2
            attempts[number - 1].result = "failed"
        elif number % 3 == 0:
            one.job = f"job-{number}"
    kinds = [one.kind for one in judged(attempts)]
    assert kinds == ["fine", "lost to retries"]


def test_a_stall_is_not_a_queue():
    """For two hours nothing ran, though jobs waited."""
    attempts = played(servers=25)
    from_at = attempts[200].eligible_at or 0.0
    for one in attempts:
        if one.started_at and one.finished_at and (one.eligible_at or 0.0) >= from_at:
            one.started_at, one.finished_at = one.started_at + 9000, one.finished_at + 9000
    assert "stalled" in [one.kind for one in judged(attempts)]


@pytest.mark.parametrize(
    ("attempts", "kind", "evidence"),
    [
        # half an hour of turnaround to ten minutes of work: more servers would stand idle, too
        (
            played(servers=30, gap=1800.0),
            "not capacity",
            "30m passed between two jobs of a runner",
        ),
        # eight of sixteen runners at once, each in its turn: a cap
        (
            [replace(one, runner=f"r-{n % 16}") for n, one in enumerate(
                sorted(played(servers=8), key=lambda one: one.started_at or 0))],
            "not capacity", "while about 8 jobs ran, as many as ever",
        ),
        # a nightly build of two hundred jobs, on a farm that is idle by day
        (
            played(servers=20, comes=lambda n, _: 86_400.0 if n % 200 == 0 and n else 0.1),
            "bursts", "",
        ),
        # whatever its utilization was at noon
        (played(servers=17), "fine", ""),
        # no verdict is better than a wrong one
        (played(jobs=3), "cannot tell", "3 jobs with a known wait: too few"),
        (played(servers=600, jobs=50), "cannot tell", "every wait is zero: either there always"),
        # no servers can be counted; how many would do, can
        (
            [replace(one, runner="") for one in played(servers=8)],
            "cannot tell", "slots would keep p95 within 5m",
        ),
    ],
    ids=["idle", "cap", "bursts", "fine", "too few", "no waits", "no names"],
)  # fmt: skip
def test_the_verdict_on_a_known_farm(attempts: list[Attempt], kind: str, evidence: str):
    """Its kind, with the evidence."""
    [one] = judged(attempts)
    assert one.kind == kind
    assert evidence in one.text


def test_the_product_limit_by_hand():
    """Kaplan and Meier's own arithmetic: 4 of 5 survive 1, then 2 of 3 survive 3."""
    ended = np.array([1.0, 3.0, 5.0])
    waits = Waits(ended, broken_off=np.array([2.0, 4.0]))
    assert waits.quantile(0.2) == 1.0
    assert waits.quantile(0.4) == 3.0
    assert waits.quantile(0.9) == 5.0
    assert Waits(ended, broken_off=np.array([6.0, 7.0])).quantile(0.9) is None


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.01, 1.0))
def test_without_broken_waits_it_is_the_quantile_of_all_other_figures(waits: list[float], p: float):
    """Type 7, so that no wait has two p95s."""
    assert Waits(np.array(waits), broken_off=np.array([])).quantile(p) == quantile(waits, p)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), min_size=1, max_size=8))
def test_slots_are_the_most_at_once(spans: list[tuple[int, int]]):
    """As counted at every instant."""
    pairs = [(float(start), float(start + lasts)) for start, lasts in spans]
    counted = max(sum(s <= at < e for s, e in pairs) for at, _ in pairs)
    begins, ends = np.array(pairs).T
    assert most_at_once(begins, ends) == counted


def test_the_command_answers_first(tmp_path: Path, farm: Callable[..., Said]):
    """A sentence for each platform, then the figures; JSON has all of them."""
    write_bundle(tmp_path / "b", bundle_of(played(servers=8)))
    shown = farm("doctor", tmp_path / "b").out
    assert "short of servers: p95 wait" in shown.splitlines()[1]
    for column in ("run time", "busy while waiting", "cancelled waiting", "worst hour"):
        assert column in shown
    assert "broken off" not in shown, "none was"
    assert "the worst hour is" in " ".join(shown.split())
    found = json.loads(farm("doctor", tmp_path / "b", "--json").out)
    [verdict] = found["verdicts"]
    assert (verdict["kind"], verdict["grade"]) == ("short of servers", "sure")
    assert verdict["evidence"][0] == "kept 400 of 400"
    assert [*verdict["assumed"][0]] == ["what", "value", "otherwise"]
    assert verdict["assumed"][0]["otherwise"] == "2: not capacity"
    assert found["figures"]["platforms"][0]["run_time_s"]["count"] == 400


def test_each_verdict_stands_out(
    tmp_path: Path, farm: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
):
    """The kind of every platform's verdict is bold, not that of the first alone."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    attempts = played(servers=8)
    other = [replace(one, id=f"o{one.id}", platform="other") for one in attempts]
    write_bundle(tmp_path / "b", bundle_of([*attempts, *other]))
    lines = farm("doctor", tmp_path / "b").out.split("\n\n")[0].splitlines()[1:]
    verdicts = [line for line in lines if ": " in line]
    assert len(verdicts) == 2
    assert all("\x1b[1m" in line for line in verdicts)


@pytest.mark.parametrize("kind", ["bundle", "csv"])
def test_a_first_scenario_waits_as_the_farm_did(
    kind: str, tmp_path: Path, farm: Callable[..., Said]
):
    """As many runners and slots as were seen, and the time between two jobs."""
    lived = played(servers=11, gap=20.0)
    if kind == "bundle":
        write_bundle(tmp_path / "b", bundle_of(lived))
        words = ["b"]
    else:
        rows = [f"{one.submitted_at},{one.started_at},{one.finished_at},{one.runner}"
                for one in lived]  # fmt: skip
        (tmp_path / "b.csv").write_text("\n".join(["came,began,over,who", *rows]))
        columns = ("submitted=came", "started=began", "finished=over", "runner=who")
        words = ["b.csv", *(word for one in columns for word in ("--column", one))]
    assert farm("init", *words, "-o", "mine.yaml").code == 0
    found = json.loads(farm("simulate", "mine.yaml", "--json").out)
    recorded = [one.waited for one in lived]
    assert found["builders"]["joined"] == 11
    assert found["waiting_time_s"]["mean"] == pytest.approx(np.mean(recorded), rel=0.02)
    assert found["waiting_time_s"]["p95"] == pytest.approx(np.quantile(recorded, 0.95), rel=0.02)


def test_runners_of_one_job_are_used_once(tmp_path: Path, farm: Callable[..., Said]):
    """As many as there were at once, each for one job."""
    lived = played(servers=11)
    for number, one in enumerate(lived):
        one.runner = f"runner-{number}"
    write_bundle(tmp_path / "b", bundle_of(lived))
    assert farm("init", "b", "-o", "mine.yaml").code == 0
    found = json.loads(farm("simulate", "mine.yaml", "--json").out)
    assert found["builders"]["joined"] >= len(lived)
    assert found["builders"]["max_running"] == 11


def test_a_job_that_takes_no_time_has_figures():
    """A window of no length would have no rates."""
    assert figures([attempt(1, START, START, START, runner="r")]).offered_load == 0.0


def test_records_have_a_page(tmp_path: Path, farm: Callable[..., Said]):
    """The verdict first, then the figures and a chart of each platform."""
    write_bundle(tmp_path / "b", bundle_of(played(servers=8)))
    assert farm("report", "b", "-o", "page.html").code == 0
    text = (tmp_path / "page.html").read_text()
    assert text.index("short of servers: p95 wait") < text.index("<table>") < text.index("<svg")
    assert farm("report", "b", "b", "-o", "other.html").code == 2
