"""Each check of records, on records in which something is amiss, and what its verdict says then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from farm.core.errors import TraceError
from farm.records.bundle import with_capacity
from farm.records.repeated_hour import LEFT_OUT
from farm.records.sifting import CLOCK_OFF
from farm_twin.bundles.slicing import sliced
from farm_twin.diagnosis.diagnose import Examination, diagnose
from farm_twin.diagnosis.evidence import Finding
from farm_twin.diagnosis.sanity import RULES
from farm_twin.diagnosis.verdict import verdicts
from farm_twin.importing import import_files
from tests.conftest import Said
from tests.fixtures.attempts import bundle_of
from tests.fixtures.attempts import served as played

START = 1_793_606_400
"""2026-11-02, 08:00 UTC."""


def examined(
    folder: Path, lines: Iterable[str], *, slots: float | None = None, zone: str = "UTC"
) -> Examination:
    """Return what the doctor finds in a file of these lines."""
    path = folder / "records"
    path.write_text("\n".join(lines) + "\n")
    bundle = import_files([path], zone=ZoneInfo(zone))
    if slots is not None:
        bundle = with_capacity(bundle, slots)
    return diagnose(bundle, UTC, 300.0)


def served(
    jobs: int, every: float, run_time: Callable[[int], float], servers: int
) -> list[tuple[float, float, float, int]]:
    """Return arrival, start, end and server of jobs, first come, first served."""
    free_at = [0.0] * servers
    found = []
    for number in range(jobs):
        at = START + number * every
        server = min(range(servers), key=free_at.__getitem__)
        begins = max(at, free_at[server])
        free_at[server] = begins + run_time(number)
        found.append((at, begins, free_at[server], server))
    return found


def run_time(number: int) -> float:
    """Return a run time of some 410 s, of whole seconds that have no step in common."""
    return 371.0 + 13 * number % 97


def rules(examination: Examination) -> list[str]:
    """Return the names of the rules that found something."""
    return [finding.rule for finding in examination.findings]


@pytest.mark.parametrize("step", [6.0, 60.0, 36.0])
def test_rounded_run_times_make_no_second_slot(step: float, tmp_path: Path):
    """They overlap the next job's by half a step: "not capacity" was said of full machines."""
    lines = ["submitted,started,duration_s,runner"]
    for at, begins, ends, server in served(60, 127.0, run_time, 3):
        rounded = round((ends - begins) / step) * step
        lines.append(f"{at:.0f},{begins:.0f},{rounded:.3f},m{server}")

    examination = examined(tmp_path, lines)

    [verdict] = examination.verdicts
    [platform] = examination.figures.platforms
    assert (verdict.kind, platform.slots_seen) == ("short of servers", 3)
    assert verdict.grade == "likely"
    assert rules(examination) == ["same-runner overlaps by a sliver"]
    assert verdict.text.startswith("unless overlaps by less than")


@pytest.mark.parametrize(
    ("step", "kind"), [(60, "short of servers"), (300, "cannot tell"), (3600, "cannot tell")]
)
@pytest.mark.parametrize("column", ["wait_s", "duration_s"])
def test_times_rounded_beside_exact_ones_reverse_no_verdict(
    column: str, step: int, kind: str, tmp_path: Path
):
    """Of a full farm it was said "not capacity", where arrivals fall on whole minutes, too."""
    lines = ["submitted,wait_s,duration_s,runner"]
    jobs = served(60, 120.0, lambda number: 171.0 + 131 * number % 613, 3)
    for at, begins, ends, server in jobs:
        times = {"wait_s": begins - at, "duration_s": ends - begins}
        times[column] -= times[column] % step
        lines.append(f"{at:.0f},{times['wait_s']:.0f},{times['duration_s']:.0f},m{server}")

    [verdict] = examined(tmp_path, lines).verdicts

    assert verdict.kind == kind


def test_overlaps_by_milliseconds_make_no_second_slot(tmp_path: Path):
    """Two clocks, or truncated ends: each job begins 20 ms before the one ahead of it ends."""
    lines = ["submitted,started,finished,runner"]
    for number, (at, begins, ends, server) in enumerate(served(60, 127.0, run_time, 3)):
        lines.append(f"{at:.3f},{begins:.3f},{ends + 0.001 * (7 + number % 14):.3f},m{server}")

    [verdict] = examined(tmp_path, lines).verdicts

    assert verdict.kind == "short of servers"


def test_machines_with_two_slots_keep_them(tmp_path: Path):
    """Real overlaps are of any length: they are no rounding."""
    lines = ["submitted,started,duration_s,runner"]
    for at, begins, ends, server in served(80, 90.0, run_time, 4):
        lines.append(f"{at:.0f},{begins:.0f},{ends - begins:.0f},m{server % 2}")

    [platform] = examined(tmp_path, lines).figures.platforms

    assert (platform.runner_slots, platform.slots_seen) == (2, 4)


@pytest.mark.parametrize("order", [("created_at", "queued_at"), ("queued_at", "created_at")])
def test_a_job_waits_from_when_it_was_queued(order: tuple[str, str], tmp_path: Path):
    """Whichever column came first was the arrival, and half an hour of others' work a wait."""
    lines = [f"{order[0]},{order[1]},started_at,finished_at,runner"]
    for number in range(40):
        times = {"created_at": START + 600 * number}
        times["queued_at"] = times["created_at"] + 1800 * (number % 2)
        queued = times["queued_at"]
        lines.append(
            f"{times[order[0]]},{times[order[1]]},{queued + 5},{queued + 305},r{number % 6}"
        )

    examination = examined(tmp_path, lines)

    [verdict] = examination.verdicts
    assert (verdict.kind, verdict.grade) == ("fine", "likely")
    assert verdict.text.startswith("unless jobs wait from created_at on")
    assert rules(examination) == ["two arrival columns"]
    [assumed] = [one for one in verdict.assumed if one.what == "waits begin"]
    assert assumed.value == "queued_at"


def page(run: int, jobs: Iterable[int], total: int, label: str = "linux", wait: int = 0) -> str:
    """Return a page of a run's jobs, as GitHub has it."""

    def instant(seconds: int) -> str:
        return f"2026-11-02T{8 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"

    return json.dumps(
        {
            "total_count": total,
            "jobs": [
                {
                    "id": 1000 * run + job,
                    "run_id": run,
                    "run_attempt": 1,
                    "name": f"job {job}",
                    "status": "completed",
                    "conclusion": "success",
                    "created_at": instant(600 * run + job),
                    "started_at": instant(600 * run + job + wait),
                    "completed_at": instant(600 * run + job + wait + 300),
                    "labels": [label],
                    "runner_id": 1 + job,
                    "runner_name": f"box-{job}",
                    "runner_group_name": "Default",
                }
                for job in jobs
            ],
        }
    )


def test_pages_that_are_missing_allow_no_verdict(tmp_path: Path):
    """A quarter of the jobs, and it may be those of the platform that is short."""
    examination = examined(tmp_path, [page(run, range(6), total=8, wait=9) for run in range(6)])

    [verdict] = examination.verdicts
    assert (verdict.kind, verdict.grade) == ("cannot tell", "cannot-tell")
    assert verdict.text.startswith("12 of 48 jobs (total_count")
    assert examination.why_no_platform_is_judged == verdict.text
    with pytest.raises(TraceError, match="--strict: fewer records than announced"):
        examination.refuse_doubtful()


def test_a_server_s_error_among_pages_is_passed_over_and_told(tmp_path: Path):
    """Answers that say that the limit of requests was reached ended the import."""
    error = {"message": "API rate limit exceeded", "documentation_url": "https://…"}
    pages = [page(run, range(4), total=4, wait=9) for run in range(12)]

    examination = examined(tmp_path, [*pages, json.dumps(error)])

    assert examination.verdicts[0].text.startswith("1 of 13 answers (they are errors of the server")


def test_runs_without_their_jobs_are_told(tmp_path: Path):
    """The loop over runs was cut off."""
    runs = {"workflow_runs": [{"id": run, "status": "completed"} for run in range(6)]}
    pages = [page(run, range(8), total=8, wait=9) for run in range(3)]

    examination = examined(tmp_path, [*pages, json.dumps(runs)])

    assert "3 of 6 runs" in examination.verdicts[0].text


@pytest.mark.parametrize("ahead", [28_800, 19_800])
def test_a_shortest_wait_of_hours_is_of_two_zones(ahead: int, tmp_path: Path):
    """Starts by a clock that is ahead: every wait is hours, and none of it was."""
    lines = ["created_at,started_at,finished_at,runner"]
    for at, begins, ends, server in served(40, 240.0, lambda _: 450.0, 2):
        lines.append(f"{at:.0f},{begins + ahead:.0f},{ends + ahead:.0f},m{server}")

    examination = examined(tmp_path, lines)

    [verdict] = examination.verdicts
    assert verdict.kind == "cannot tell"
    assert "the columns may be of two zones" in verdict.text


def test_attempts_that_share_an_id_are_kept(tmp_path: Path):
    """Half of the load was taken for copies."""
    lines = ["job_id,attempt,submitted,started,finished,runner,result"]
    for number, (at, begins, ends, server) in enumerate(served(48, 200.0, lambda _: 700.0, 3)):
        result = "success" if number % 2 else "lost"
        lines.append(
            f"{number // 2},{1 + number % 2},{at:.0f},{begins:.0f},{ends:.0f},m{server},{result}"
        )

    examination = examined(tmp_path, [*lines, lines[-1]])

    first, second = examination.verdicts
    assert (first.kind, second.kind) == ("short of servers", "lost to retries")
    assert second.text.startswith("50% of the busy time")
    assert examination.figures.platforms[0].attempts == 48
    assert rules(examination) == ["one id with different times"]


def test_attempts_may_be_counted_from_0(tmp_path: Path):
    """What was tried twice was counted as tried once."""
    lines = ["job,attempt,submitted,started,finished,runner,result"]
    for number, (at, begins, ends, server) in enumerate(served(48, 200.0, lambda _: 700.0, 3)):
        result = "success" if number % 2 else "lost"
        lines.append(
            f"{number // 2},{number % 2},{at:.0f},{begins:.0f},{ends:.0f},m{server},{result}"
        )

    [platform] = examined(tmp_path, lines).figures.platforms

    assert platform.retries == 24
    assert platform.wasted_share == pytest.approx(0.5)


def test_runners_that_come_for_jobs_are_waited_for(tmp_path: Path):
    """Of a pool that grows on demand, "0.4 slots of work met 0.4 slots" was said."""
    lines = ["submitted,started,finished,runner"]
    for hour in range(12):
        at = START + 3600 * hour
        for job in range(4):
            begins = at + 240 + 302 * (job // 2)
            lines.append(f"{at + job},{begins},{begins + 300},i-{2 * hour + job % 2}")

    examination = examined(tmp_path, lines)

    [verdict] = examination.verdicts
    assert (verdict.kind, verdict.grade) == ("boot time", "likely")
    assert "24 of 48 waits ended with the first job of a new runner" in verdict.text
    assert "keep runners ready" in verdict.text
    assert "runners that live for their jobs" in rules(examination)


def test_a_label_of_one_run_is_no_platform(tmp_path: Path):
    """Each run was a platform of six jobs: too few to judge."""
    pages = [page(run, range(6), total=6, label=f"runs-on={run}", wait=30) for run in range(10)]

    examination = examined(tmp_path, pages)

    assert len(examination.figures.platforms) == 1
    assert examination.figures.platforms[0].attempts == 60
    assert "labels of one run" in rules(examination)


def test_a_runner_whose_clock_is_behind_keeps_its_work(tmp_path: Path):
    """One machine of ten, five seconds off, and the file was refused."""
    lines = ["submitted,started,finished,runner"]
    for number in range(110):
        at = START + 6 * number
        begins = at - 5 * (number % 10 == 3)
        lines.append(f"{at},{begins},{begins + 58},w{number % 10}")

    examination = examined(tmp_path, lines)

    [platform] = examination.figures.platforms
    assert platform.attempts == 110
    assert platform.unknown_waits == 11
    assert platform.run_time.max == 58.0
    assert rules(examination) == ["one runner's clock"]


@pytest.mark.parametrize("are_by_server", [False, True])
def test_the_hour_that_comes_twice_is_read_by_its_order(are_by_server: bool, tmp_path: Path):
    """Of the night of 25 October, run times were an hour too long, and slots doubled.

    Of two files of that night, one after the other, most jobs of the second had no place.
    """
    zone = ZoneInfo("Europe/Berlin")

    def local(at: float) -> str:
        return datetime.fromtimestamp(at, zone).strftime("%Y-%m-%dT%H:%M:%S")

    night = datetime(2026, 10, 25, tzinfo=zone).timestamp() - START
    lines = ["submitted,started,finished,runner"]
    jobs = served(36, 600.0, lambda _: 1250.0, 2)
    if are_by_server:
        jobs.sort(key=lambda job: job[3])
    for at, begins, ends, server in jobs:
        lines.append(f"{local(at + night)},{local(begins + night)},{local(ends + night)},n{server}")

    examination = examined(tmp_path, lines, zone="Europe/Berlin")

    [platform] = examination.figures.platforms
    assert (platform.attempts, platform.slots_seen) == (36, 2)
    assert platform.run_time.std == 0.0
    assert examination.verdicts[0].kind == "short of servers"
    assert rules(examination) == ["a night of 25 hours"]


def test_a_part_is_not_judged_by_the_counts_of_the_whole():
    """Of a day that was cut out there was no verdict, for what other days had too much of."""
    jobs = played((START + 60.0 * number for number in range(110)), lambda: 50.0, 2)
    whole = bundle_of(jobs, noted={CLOCK_OFF: 30}, left_out={LEFT_OUT: 5})

    findings: dict[str, list[Finding]] = {}
    for bundle in (whole, sliced(whole, START, START + 40 * 60.0)):
        for finding in diagnose(bundle, UTC, 300.0).findings:
            findings.setdefault(finding.rule, []).append(finding)

    clocks, nights = findings["one runner's clock"], findings["a night of 25 hours"]
    assert [finding.effect for finding in clocks] == ["noted", "noted"]
    assert [finding.effect for finding in nights] == ["weakens", "weakens"]
    assert clocks[0].text.startswith("30 jobs ran on runners")
    assert clocks[1].text.startswith("30 jobs (of the 115 records that these are a part of) ran")


def test_a_pool_that_was_rarely_whole_can_serve_more():
    """Of a pool that grew it was told that 56 jobs an hour can be served, where 138 could."""
    jobs = played((START + 60.0 * number for number in range(100)), lambda: 150.0, 2)
    bundle = bundle_of(jobs)
    [figures] = diagnose(bundle, UTC, 300.0).figures.platforms

    grown = replace(figures, mean_slots=2.0, slots_seen=5.0, served_per_hour=56.0)
    verdict = next(verdicts(grown, bundle.manifest, 300.0))

    assert "56 can be served by the slots that were there on average (140 by all 5" in verdict.text


def test_jobs_that_still_wait_are_not_called_cancelled():
    """A snapshot of a queue was told as a fifth of its jobs cancelled."""
    jobs = played((START + 60.0 * number for number in range(100)), lambda: 150.0, 2)
    for job in jobs[80:]:
        job.started_at = job.finished_at = None

    [verdict] = diagnose(bundle_of(jobs), UTC, 300.0).verdicts

    assert "20% still waited when the records ended" in verdict.text
    assert any("20 still waiting at the end" in clause for clause in verdict.evidence)


def test_columns_of_slots_that_are_not_used_are_said(tmp_path: Path):
    """Each job was one slot, on machines of twelve processors."""
    lines = ["submitted,started,finished,runner,ncpus"]
    for number, (at, begins, ends, server) in enumerate(served(40, 150.0, run_time, 2)):
        lines.append(f"{at:.0f},{begins:.0f},{ends:.0f},m{server},{1 + number % 12}")

    examination = examined(tmp_path, lines)

    assert "capacity columns unused" in rules(examination)
    assert "(--column slots=ncpus)" in examination.verdicts[0].text


def test_told_slots_are_those_of_the_farm(tmp_path: Path):
    """Records without machines had no verdict, however many slots there were said to be."""
    lines = ["submitted,started,finished"]
    for at, begins, ends, _ in served(36, 100.0, lambda _: 500.0, 4):
        lines.append(f"{at:.0f},{begins:.0f},{ends:.0f}")

    [verdict] = examined(tmp_path, lines, slots=4).verdicts

    assert (verdict.kind, verdict.grade) == ("short of servers", "sure")
    assert "capacity 4 " in verdict.text
    assert [assumed.what for assumed in verdict.assumed] == ["slots"]


def test_runners_that_platforms_share_are_sized_once(tmp_path: Path):
    """Each platform was told a number of its own, which together were twice too many."""
    lines = ["submitted,started,finished,runner,platform"]
    for number, (at, begins, ends, server) in enumerate(served(80, 127.0, run_time, 3)):
        lines.append(f"{at:.0f},{begins:.0f},{ends:.0f},m{server},{'ab'[number % 2]}")

    verdicts = examined(tmp_path, lines).verdicts

    assert [verdict.kind for verdict in verdicts] == ["short of servers", "short of servers"]
    for verdict in verdicts:
        assert "; 4 slots for all that its runners run would keep p95" in verdict.text
        assert "shared runners" in [assumed.what for assumed in verdict.assumed]


def test_numbers_without_a_unit_are_doubted(tmp_path: Path):
    """Minutes that were taken for seconds made runners idle."""
    lines = ["submitted,started,duration,runner"]
    for at, begins, ends, server in served(60, 127.0, run_time, 3):
        lines.append(f"{at:.0f},{begins:.0f},{(ends - begins) / 60:.2f},m{server}")

    [verdict] = examined(tmp_path, lines).verdicts

    assert verdict.grade == "likely"
    assert verdict.text.startswith("unless duration is in another unit than seconds")


def test_jobs_that_follow_others_make_a_verdict_likely(tmp_path: Path):
    """More slots would bring them sooner: what would do is not known."""
    lines = ["submitted,started,finished,runner"]
    at = float(START)
    for number in range(60):
        begins = at + 100
        lines.append(f"{at:.0f},{begins:.0f},{begins + 311 + 17 * (number % 7):.0f},m0")
        at = begins + 312 + 17 * (number % 7)

    examination = examined(tmp_path, lines)

    [verdict] = examination.verdicts
    assert "arrivals that follow ends" in rules(examination)
    assert verdict.grade == "likely"
    assert verdict.text.endswith("(open-loop): on more slots jobs would come sooner")


def test_every_rule_is_documented():
    """A reader who meets its name finds what it means."""
    text = (Path(__file__).parents[3] / "docs/how-to/own-data.md").read_text()
    names = {
        "fewer_records_than_announced": "fewer records than announced",
        "overlaps_by_a_sliver": "same-runner overlaps by a sliver",
        "one_runners_clock": "one runner's clock",
        "columns_of_slots_unused": "capacity columns unused",
        "times_rounded_by_more_than_jobs_run": "rounded times",
        "night_of_25_hours": "a night of 25 hours",
    }
    for rule in RULES:
        name = names.get(rule.__name__, rule.__name__.replace("_", " "))
        assert f"| *{name}* |" in text, name


def test_strict_refuses_what_is_doubtful(tmp_path: Path, farm: Callable[..., Said]):
    """A script that acts on verdicts must not act on such."""
    lines = ["created_at,started_at,finished_at,runner"]
    for at, begins, ends, server in served(40, 240.0, lambda _: 450.0, 2):
        lines.append(f"{at:.0f},{begins + 28_800:.0f},{ends + 28_800:.0f},m{server}")
    (tmp_path / "jobs.csv").write_text("\n".join(lines) + "\n")

    said = farm("doctor", tmp_path / "jobs.csv", "--strict")

    assert said.code == 2
    assert "--strict: shortest wait of hours: no job waited less than 8h" in said.err
