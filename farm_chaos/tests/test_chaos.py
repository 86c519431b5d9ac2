"""Fault injection: the plan, the records that are compared, a farm that keeps its promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.commands import EndJob
from farm.core.errors import InputError
from farm.core.model import Cause, Job
from farm.live.redis.connection import connect
from farm.live.redis.server import EmbeddedServer
from farm_chaos.append_only_reader import commands_of
from farm_chaos.campaign import CampaignPlan, FaultDone, faults_done
from farm_chaos.crowds import metrics_addresses
from farm_chaos.machine import Machine, can_be_faked, kinds_here
from farm_chaos.plan import FAKED, FaultKind, plan
from farm_chaos.rivals import Claim, Rivals, RivalsNews
from farm_chaos.verdict import begun_twice, ended_twice, without_builder
from workers.journal import AttemptJournal, Note, read_journals


@given(faults=st.integers(0, 200), seed=st.integers())
def test_a_plan_is_its_seed_and_leaves_no_kind_out(faults: int, seed: int):
    """The same seed gives the same faults; every kind comes before any comes again."""
    planned = plan(faults, seed)
    assert planned == plan(faults, seed)
    assert [fault.number for fault in planned] == [*range(1, faults + 1)]
    counts = Counter(fault.kind for fault in planned)
    assert max(counts.values(), default=0) <= 1 + min(counts[kind] for kind in FaultKind)


def test_another_seed_is_another_plan():
    """Another seed gives another plan, and a longer plan begins like a shorter one of its seed."""
    assert plan(60, 1) != plan(60, 2)
    assert plan(60, 1)[:20] == plan(20, 1)


SEES = """
import errno, os, sys, time
disk, elsewhere = sys.argv[1:]
def written(path):
    try:
        with open(path, "wb", buffering=0) as file:
            return file.write(b"x")
    except OSError as error:
        return errno.errorcode[error.errno]
began = time.monotonic()
with open(elsewhere) as file:
    os.fsync(file.fileno())
synced = time.monotonic() - began
print(written(disk + "/a"), written(elsewhere), round(time.time()), round(synced, 1))
"""


@pytest.mark.skipif(not can_be_faked(), reason="needs Linux and a C compiler")
def test_a_process_sees_the_machine_that_it_is_shown(tmp_path: Path):
    """A slow sync, a full disk (only that one), another time of day; and their end."""
    disk, elsewhere = tmp_path / "disk", tmp_path / "elsewhere"
    disk.mkdir()
    elsewhere.touch()
    machine = Machine(tmp_path, disk)
    environment = os.environ | machine.environment()

    def sees() -> tuple[str, str, float, float]:
        words = [sys.executable, "-c", SEES, str(disk), str(elsewhere)]
        said = subprocess.check_output(words, env=environment, text=True, timeout=30).split()
        return said[0], said[1], float(said[2]) - time.time(), float(said[3])

    assert sees() == ("1", "1", pytest.approx(0, abs=60), pytest.approx(0, abs=0.2))
    machine.set(sync_time=0.3, disk_is_full=1, clock_ahead=-86_400)
    where, other, ahead, synced = sees()
    assert (where, other) == ("ENOSPC", "1")
    assert ahead == pytest.approx(-86_400, abs=60)
    assert synced >= 0.3
    machine.set(sync_time=0, disk_is_full=0, clock_ahead=3_600)
    assert sees()[:3] == ("1", "1", pytest.approx(3_600, abs=60))


TEARS = """
import os, sys
folder = sys.argv[1]
def written(name, data):
    try:
        with open(folder + name, "wb") as file:
            file.write(data)
    except OSError:
        pass
    return os.stat(folder + name).st_size
line = b"x" * 200 + b"\\n"
print(written("/log/events.jsonl", line), written("/log/position.part", b"{}"), written("/a", line))
"""


@pytest.mark.slow
@pytest.mark.skipif(not can_be_faked(), reason="needs Linux and a C compiler")
def test_a_torn_log_lacks_the_end_of_its_last_line(tmp_path: Path):
    """Or only its position cannot be written; other files of the disk are whole."""
    (tmp_path / "log").mkdir()
    machine = Machine(tmp_path, tmp_path)
    environment = os.environ | machine.environment()

    def written() -> list[int]:
        words = [sys.executable, "-c", TEARS, str(tmp_path)]
        found = subprocess.check_output(words, env=environment, text=True, timeout=30)
        return [int(size) for size in found.split()]

    machine.set(log_is_torn=1)
    log, position, other = written()
    assert 0 < log < 201
    assert (position, other) == (0, 201)
    machine.set(log_is_torn=2)
    assert written() == [201, 0, 201]
    machine.set(log_is_torn=0)
    assert written() == [201, 2, 201]


def test_faults_that_this_machine_cannot_show_are_left_out(monkeypatch):
    """Unless they were asked for explicitly, and nothing else was."""
    monkeypatch.setattr("farm_chaos.machine.can_be_faked", lambda: False)
    assert set(kinds_here(())) == set(FaultKind) - set(FAKED)
    with pytest.raises(InputError, match="--only clock-step: needs"):
        kinds_here([FaultKind.CLOCK_STEP])


@pytest.mark.live
def test_what_a_server_wrote_is_read_back(server: EmbeddedServer, tmp_path: Path):
    """Bytes of any kind, over a kill and a restart; a truncated command is left out."""
    data = tmp_path / "data"
    odd = b"line\r\n*3\r\n$5\r\n\x00\xff"
    with EmbeddedServer(server.binary, data=data) as ours:
        with connect(ours.url, "test") as client:
            client.hset("chaos:results", mapping={"a": odd, "b": "1"})
            client.hset("chaos:results", "a", odd)
            client.hset("other", "a", "2")
        for value in ("1", "2"):
            with connect(ours.url, "test") as client:
                client.hset("chaos:results", "b", value)
    (part,) = (data / "appendonlydir").glob("*.incr.aof")
    assert ended_twice([data]) == {"b"}
    whole = list(commands_of(data))
    assert (b"HSET", b"chaos:results", b"a", odd, b"b", b"1") in whole
    part.write_bytes(part.read_bytes()[:-3])
    assert list(commands_of(data)) == whole[:-1]


def test_a_host_keeps_a_record_of_its_attempts(tmp_path: Path):
    """A line truncated by a kill is left out."""
    journal = AttemptJournal(str(tmp_path), "host")
    journal.began("a", 1, "x")
    journal.ended("a", 1, "x", "succeeded")
    (path,) = tmp_path.glob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"at":1,"wha')
    AttemptJournal("", "host").began("b", 1, "x")
    notes = [(note.what, note.job, note.outcome) for note in read_journals(tmp_path)]
    assert notes == [("began", "a", ""), ("ended", "a", "succeeded")]


def began(job: str, attempt: int, builder: str) -> Note:
    """Return a record of a start."""
    return Note(0.0, "began", job, attempt, builder)


def test_an_attempt_that_began_twice_is_found():
    """On two builders, or on one twice; two attempts of one job are no duplicate."""
    notes = [began("a", 1, "x"), began("a", 2, "y"), began("b", 1, "x"), began("c", 1, "x")]
    assert begun_twice(notes) == set()
    assert begun_twice([*notes, began("b", 1, "y"), began("c", 1, "x")]) == {"b", "c"}


def test_an_end_that_no_builder_made_is_found():
    """Neither another outcome nor another attempt will do; ends decided by the farm need none."""

    def end(name: str, outcome: str = "succeeded", attempts: int = 1, **more) -> EndJob:
        job = Job(id=name, service_time=1.0)
        return EndJob(job, outcome, attempts, 0.0, 1.0, builder="x", **more)

    notes = [Note(0.0, "ended", name, 1, "x", "succeeded") for name in ("a", "b", "c")]
    ends = {
        "a": end("a"),
        "b": end("b", outcome="failed", cause=Cause.FAILED),
        "c": end("c", attempts=2),
        "d": end("d"),
        "e": end("e", outcome="failed", cause=Cause.LOST),
        "f": end("f", served_by="a"),
    }
    assert without_builder(ends, notes) == {"b", "c", "d"}


def test_a_client_that_was_told_wrongly_is_found():
    """Both were told that their job was accepted; each loser must have been refused."""

    def ends(**service_times: float) -> dict[str, EndJob]:
        return {
            name: EndJob(Job(id=name, service_time=time), "succeeded", 1, 0.0, 1.0)
            for name, time in service_times.items()
        }

    rivals = Rivals()
    first, second = Claim(("a", "b"), 1.0, refused=1), Claim(("a", "b"), 2.0, refused=1)
    rivals.take_up(RivalsNews(("a", "b"), (first, second)))
    assert rivals.mistakes(ends(a=1.0, b=2.0)) == set()
    assert rivals.mistakes(ends(a=1.0, b=1.0)) == {"a", "b"}
    assert rivals.news() == RivalsNews()
    rivals.take_up(RivalsNews(given_twice=("a~2",)))
    assert rivals.mistakes(ends(a=1.0, b=2.0)) == {"a~2"}


def test_only_the_same_campaign_is_continued(tmp_path: Path):
    """Another plan would count what it has not done; a line that was cut off is done again."""
    kinds = (FaultKind.KILL_HOST,)
    todo = CampaignPlan("pools: []", 1, 20, 100, kinds)
    with pytest.raises(InputError, match="--resume: no campaign can be continued in "):
        faults_done(tmp_path, todo)
    (tmp_path / "campaign.json").write_bytes(msgspec.json.encode(todo))
    assert faults_done(tmp_path, todo) == []
    (fault,) = plan(1, 1, kinds)
    done = FaultDone(at=1.0, fault=fault, recovery=None, orphans=0, gave_up=2)
    line = msgspec.json.encode(done) + b"\n"
    (tmp_path / "faults.jsonl").write_bytes(line + line[:-5])
    assert faults_done(tmp_path, todo) == [done]
    other = msgspec.structs.replace(todo, seed=2)
    with pytest.raises(InputError, match="--resume: seed: found 2; the campaign has 1; allowed"):
        faults_done(tmp_path, other)


def test_metrics_are_found_by_the_files_that_say_where(tmp_path: Path):
    """Of either family of addresses; a file that is half there says nothing."""
    (tmp_path / "a.json").write_text('[{"targets": ["127.0.0.1:9100", "[::1]:9101"]}]')
    (tmp_path / "b.json").write_text("[{")
    assert metrics_addresses(tmp_path) == [("127.0.0.1", 9100), ("::1", 9101)]


PIPELINES = Path(__file__).parents[2] / "benchmarks" / "chaos-pipelines.yaml"
SCENARIO = """
name: chaos
pools: [{name: linux, platform: {processor: amd64}, builders: 10, slots: 4}]
workload: [{arrivals: {every: 1s, count: 1000, service_time: {uniform: {min: 0.5s, max: 3s}}}}]
scheduling: {retries: 9, max_builders_lost: 9}
"""


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_kind_of_fault_breaks_a_promise(tmp_path: Path):
    """Each kind once, a thousand jobs of pipelines: none lost, stuck, run twice or misreported.

    They need each other, have places in groups, and are superseded.
    """
    faults = len(FaultKind)
    words = ["chaos", str(PIPELINES), "--faults", str(faults), "--jobs", "1000", "--seed", "7"]
    done = subprocess.run(
        [sys.executable, "-m", "farm", "admin", *words, "--json", "--keep", "kept"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=840,
    )
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["flaws"] == dict.fromkeys(verdict["flaws"], 0), verdict["log"]
    assert verdict["submitted"] == verdict["ended"] > 1000  # and those of rivals
    assert sum(times["faults"] for times in verdict["recoveries"].values()) == faults
    assert done.returncode == 0


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_campaign_that_was_killed_is_continued(tmp_path: Path):
    """With the faults that were left, and judged by the jobs of all."""
    (tmp_path / "chaos.yaml").write_text(SCENARIO)
    words = [sys.executable, "-m", "farm", "admin", "chaos", "chaos.yaml", "--only", "remove-state",
             "--only", "same-id", "--faults", "6", "--jobs", "60", "--json"]  # fmt: skip
    folder = tmp_path / "kept"
    with subprocess.Popen([*words, "--keep", str(folder)], cwd=tmp_path) as first:
        deadline = time.monotonic() + 120
        while not (folder / "faults.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        first.kill()
    before = (folder / "faults.jsonl").read_bytes()
    assert 0 < before.count(b"\n") < 6
    again = [*words, "--resume", str(folder)]
    done = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert sum(times["faults"] for times in verdict["recoveries"].values()) == 6
    assert verdict["ended"] == verdict["submitted"] >= 60
    assert (folder / "faults.jsonl").read_bytes().startswith(before)
