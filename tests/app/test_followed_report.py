"""The page of a run in progress: it shows the run so far, and reloads until the run has ended."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import farm
from farm.app.recorded.open_releases import OpenReleases
from farm.app.report import _growing, follow_run
from farm.cli.main import app
from farm.core.commands import EndJob, StartJob
from farm.core.errors import InputError
from farm.core.events import JobsSubmitted
from farm.results.report import words
from farm.results.run_directory import EVENTS, JOBS, META, SCENARIO, SUMMARY
from farm.results.table.job_table import table_of
from farm.results.table.recorder import Recorder
from farm.testing import small_scenario

RELOADS = '<meta http-equiv="refresh" content="7">'


class Growing:
    """A run directory whose files appear little by little, as those of a live run do."""

    def __init__(self, folder: Path) -> None:
        self.whole, self.path = folder / "whole", folder / "growing"
        self.out = folder / "page.html"
        load = {"every": "10s", "count": 12, "service_time": "30s"}
        farm.simulate(small_scenario({"builders": 2}, load), out=self.whole)
        self.log = (self.whole / EVENTS).read_bytes()
        self.path.mkdir()
        shutil.copy(self.whole / SCENARIO, self.path)
        meta = json.loads((self.whole / META).read_text())
        (self.path / META).write_text(json.dumps(meta | {"state": "running"}))
        self.write(0.5)

    def write(self, share: float) -> None:
        """The log has grown to a share of its length, which may be in the middle of a line."""
        (self.path / EVENTS).write_bytes(self.log[: int(len(self.log) * share)])

    def end(self) -> None:
        """The run ends: its last files are written, meta.json the last."""
        for name in (EVENTS, JOBS, SUMMARY, META):
            shutil.copy(self.whole / name, self.path)

    def follow(self, *steps: Callable[[], object]) -> list[str]:
        """Follow it, with these steps in place of the waits; return the pages there were."""
        todo, pages = list(steps), []

        def wait(seconds: float) -> None:
            assert seconds == 7.0
            pages.append(self.out.read_text())
            todo.pop(0)()

        follow_run(self.path, self.out, every=7.0, wait=wait)
        assert not todo
        return [*pages, self.out.read_text()]


@pytest.fixture
def growing(tmp_path: Path) -> Growing:
    """A run that is half done."""
    return Growing(tmp_path)


def numbers(page: str) -> Any:
    """Return the summary that a page holds."""
    found = re.search(r'id="summary">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.slow
def test_the_page_follows_the_run(growing: Growing) -> None:
    """Each page has what was written until then; the last is that of the finished run."""
    pages = growing.follow(lambda: growing.write(0.8), growing.end)
    ended = [numbers(page)["jobs"]["succeeded"] for page in pages]
    assert 0 < ended[0] < ended[1] < ended[2] == 12
    assert [RELOADS in page for page in pages] == [True, True, False]
    assert ["In progress: this is the run up to" in page for page in pages] == [True, True, False]
    farm.report(growing.whole, out=growing.out)
    assert numbers(pages[-1]) == numbers(growing.out.read_text())
    assert all("<svg" in page for page in pages)


def test_running_jobs_are_no_waiting_ones(growing: Growing, monkeypatch: Any) -> None:
    """Of the jobs that have not ended, those on a builder are drawn as such."""
    drawn = []
    monkeypatch.setattr("farm.app.report.report", lambda run, **_: drawn.append(run))
    growing.out.write_text("")
    growing.follow(growing.end)
    jobs = drawn[0].jobs
    is_open = jobs["outcome"] == "lost"
    assert is_open.sum() == drawn[0].summary["jobs"]["lost"]
    assert (jobs["started_at_s"] >= 0)[is_open].sum() == 2  # both builders are busy
    assert set(jobs["builder"][is_open].tolist()) == {"p-1", "p-2", ""}


def test_a_run_in_progress_says_what_runs(growing: Growing, monkeypatch: Any) -> None:
    """Its open jobs run or wait, they are not lost; the builders of those that run are busy."""
    drawn = []
    monkeypatch.setattr("farm.app.report.report", lambda run, **_: drawn.append(run))
    growing.out.write_text("")
    growing.follow(growing.end)
    run = drawn[0]
    first, *others = words.of_run_in_progress(run.kept.summary, run.jobs, run.records.last_at)
    jobs = run.summary["jobs"]
    waiting = jobs["lost"] - 2
    assert first.startswith("In progress, ")
    assert f"{jobs['succeeded']} ended, 2 running, {waiting} waiting" in first
    assert not any("lost" in text or "never ended" in text for text in (first, *others))
    assert run.summary["idle_share"] < 0.2  # both builders are busy from the second job on


def test_open_jobs_wait_from_their_release() -> None:
    """From their arrival they would have waited for jobs that no builder could spare them."""
    jobs = []
    for number in range(6):
        more = {"arrived_at": 3.0 * number, "matrix": f"push-{number}"}
        build, test, clean = (f"{name}-{number}" for name in ("build", "test", "clean"))
        jobs += [
            farm.Job(id=build, service_time=4.0, **more, fails=number == 2),
            farm.Job(id=test, service_time=5.0, needs=(build,), group="deploy", **more),
            farm.Job(id=clean, service_time=1.0, needs=(f"{test}:ended",), needs_delay=2.0, **more),
        ]
    run = farm.simulate(small_scenario({"builders": 2}), jobs=jobs, keep_events=True)
    released_at = dict(zip(run.jobs["job_id"], run.jobs["released_at_s"], strict=True))
    releases, running, seen = OpenReleases(), set(), set()

    for entry in run.kept.entries():
        releases.take(entry.event, entry.commands)
        for command in entry.commands:
            if isinstance(command, StartJob):
                running.add(command.job.id)
                if command.job.needs:
                    now = releases.dispatched(command.job, entry.event.at)
                    assert now == released_at[command.job.id]
            elif isinstance(command, EndJob):
                running.discard(command.job.id)
        waiting = releases.waiting(running, entry.event.at)
        assert all(released_at[name] == at for name, at in waiting.items())
        seen |= waiting.keys()
    assert {name.partition("-")[0] for name in seen} == {"test", "clean"}


def test_a_run_in_progress_tells_blocked_jobs_from_waiting_ones(growing: Growing) -> None:
    """More builders would not help those that others block."""
    recorder = Recorder()
    build = farm.Job(id="build", service_time=4.0)
    test = farm.Job(id="test", service_time=4.0, needs=("build",))
    recorder(JobsSubmitted(0.0, (build, test)), [StartJob(build, "p-1", 0, 1)])
    running = {"build": EndJob(build, "cancelled", 1, 0.0, math.nan, 0.0, 0.0, "p-1", 0)}
    records = recorder.records(running)
    summary = farm.open_run(growing.whole).kept.summary

    first, *_ = words.of_run_in_progress(summary, table_of(records, ()), 1.0)

    assert "of 2 jobs 0 ended, 1 running, 0 waiting, 1 blocked" in first


def test_the_first_page_is_there_before_its_charts(growing: Growing, monkeypatch: Any) -> None:
    """To draw them takes most of the time: on a busy machine there was no page for 13 s."""
    first_pages = []
    monkeypatch.setattr(
        "farm.app.report.report", lambda *_, **__: first_pages.append(growing.out.read_text())
    )
    growing.follow(growing.end)
    assert "In progress, " in first_pages[0]
    assert "The charts are being drawn." in first_pages[0]
    assert RELOADS in first_pages[0]
    assert "<svg" not in first_pages[0]


def test_a_page_is_written_before_a_busy_log_has_an_end(tmp_path: Path) -> None:
    """A farm that writes faster than its log is read would have no page until its run has ended."""
    log, pauses = tmp_path / "log", []
    log.write_bytes(b"1\n")

    def pause() -> bool:
        pauses.append(log.read_bytes().count(b"\n"))
        return len(pauses) < 3

    for piece in _growing(log, pause):
        if b"9" not in piece:
            with log.open("ab") as file:
                file.write(b"%d\n" % (int(piece.split()[-1]) + 1))
    assert pauses[0] < 9


def test_nothing_new_is_not_drawn_again(growing: Growing, monkeypatch: Any) -> None:
    """A farm where nothing happens costs nothing to follow."""
    drawn = []
    monkeypatch.setattr("farm.app.report.report", lambda *run, **_: drawn.append(run))
    growing.out.write_text("")
    growing.follow(lambda: None, lambda: None, growing.end)
    assert len(drawn) == 2


@pytest.mark.slow
def test_an_interrupt_leaves_a_page_that_does_not_reload(growing: Growing) -> None:
    """Ctrl-C: nothing would write another page."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    before, after = growing.follow(interrupt)
    assert RELOADS in before
    assert RELOADS not in after
    assert "In progress" in after


def test_the_command(growing: Growing) -> None:
    """Of a finished run it is the usual page; what it cannot follow, it says."""
    out = ["--follow", "-o", str(growing.out)]
    assert CliRunner().invoke(app, ["report", str(growing.whole), *out]).exit_code == 0
    assert numbers(growing.out.read_text())["jobs"]["succeeded"] == 12
    for wrong in ([str(growing.whole)] * 2, [str(growing.whole), "--figure", "queue"]):
        done = CliRunner().invoke(app, ["report", *wrong, *out])
        assert isinstance(done.exception, InputError)
        assert "--follow: found" in str(done.exception)
    with pytest.raises(InputError, match="no such directory"):
        follow_run(growing.path / "none", growing.out)
