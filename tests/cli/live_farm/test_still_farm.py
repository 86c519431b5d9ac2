"""Operators' commands on a farm that only lies in Redis: what they show, accept and refuse.

No process plays this farm, so a test is quick, and whatever is submitted stays in the inbox.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from farm.cli.main import app
from farm.core.errors import FarmError, ServerError
from farm.core.events import PriorityChanged
from farm.core.model import Platform
from farm.core.pools.algorithm import PoolSnapshot
from farm.live.operating.client import FarmClient
from farm.live.redis.keys import Keys
from farm.live.redis.lease import Lease
from farm.live.store.batch import Batch
from farm.live.store.saved import Try
from farm.live.wire.pool_report import EMBEDDED
from provisioner.reconciler import Keeping
from tests.terminal.test_narrow_tables import LEFT_OUT
from tests.worlds.still import StillFarm

pytestmark = pytest.mark.live
AMD64, ARM64 = Platform("amd64", True), Platform("arm64", True)
#: what a terminal would obey, rich would interpret, and a table would break on
EVIL = "\x1b[31mred[/x] :smile: \x9b2J\r\n\u202eback[bold]"


def test_names_reach_a_terminal_as_text_only(still: StillFarm):
    """Escapes, markup, emoji names and marks that turn text round are shown, not obeyed."""
    name = "[bold]x[/y] :smile: \u202e"
    still.wait(name, kind=EVIL, attributes={"user": EVIL, "\x1b]0;t\x07": EVIL}, matrix=EVIL)
    still.run("running", builder="\x1b[2J[/b]")
    still.end("failed", "failed", kind=EVIL)
    still.join("\x1b[1m[/]")
    batch = Batch()
    batch.tries["running"].append(Try(1, EVIL, 1.0, EVIL))
    still.store.commit(batch, {}, 1.0)
    jobs = [["job", one] for one in (name, "running", "failed", EVIL)]
    why = [["job", one, "--why"] for one in (name, "running")]
    lists = ["jobs", "--state", "all"], ["jobs", "--state", "all", "--limit", "1"], ["builders"]
    for words in (*jobs, *why, *lists, ["drain", "*"]):
        done = still.farm(*words)
        assert done.exception is None or isinstance(done.exception, FarmError | SystemExit)
        for character in ("\x1b", "\x9b", "\u202e", "\r", "\x07"):
            assert character not in done.output, words
    listed = still.says("jobs", "--state", "all")
    assert "[bold]x[/y] :smile: \\u202e" in listed
    assert "\\x1b[31mred[/x] :smile: \\x9b2J\\r\\n\\u202eback[bold]" in listed
    # JSON is for those who want every byte
    assert still.rows("job", name)[0]["attributes"]["user"] == EVIL


def test_long_names_are_whole_in_a_pipe_and_huge_ones_are_cut(still: StillFarm):
    """One job a line, not folded, for grep and awk; but no listing prints a megabyte."""
    name = "n" * 150
    still.wait(name, kind="k" * 90, attributes={"user": "u" * 90})
    lines = still.says("jobs").splitlines()
    assert lines[1].split() == [name, "waiting", "amd64/virtual", "k" * 90, "u" * 90]
    still.wait("x", attributes={"user": "m" * 1_000_000})
    assert len(still.says("jobs")) < 2000
    assert len(still.says("job", "x")) < 3000
    assert still.rows("jobs")[1]["user"] == "m" * 1_000_000


def test_a_narrow_terminal_keeps_whole_names_and_drops_columns(still: StillFarm):
    """Forty columns: which job, what it does; a name is never cut to two letters."""
    still.end("a-job-with-a-name", "failed", attributes={"user": "ann"})
    still.join("linux-1", "building")
    lines = still.says("jobs", "--state", "ended", width=39).splitlines()
    assert lines[1].split() == ["a-job-with-a-name", "failed"]
    assert all(len(line) <= 40 for line in lines)
    lines = still.says("builders", width=39).splitlines()
    assert "linux-1" in lines[1]
    assert "building" in lines[1]
    long = "b" * 200
    still.wait(long)
    told = still.says("jobs", width=39)
    assert "".join(line.split()[0] for line in told.splitlines()[1:]).startswith(long[:150])


#: words of each table of a live farm, and what an operator looks for in it
LIVE_TABLES = (
    (("jobs", "--where", "state=all"), ("state", "waiting", "running", "failed")),
    (("jobs", "--by", "kind"), ("p95", "wait")),
    (("pools",), ("why", "builders", "idle")),
    (("builders",), ("state", "remark", "building", "silent")),
    (("status",), ("waiting", "builders", "idle")),
    (("admin", "dead-letters"), ("refused",)),
)


def test_the_tables_of_a_live_farm_fit_80_columns(still: StillFarm):
    """A column goes whole, no word is cut, and the states and reasons stay."""
    name = "firefox-desktop-20261128-linux64-shippable-{}"
    many = {"kind": "build-linux64-shippable/opt", "attributes": {"user": "ann@example.org"}}
    builder = "linux-shippable-large-0017"
    still.wait(name.format("w"), **many)
    still.run(name.format("r"), builder, **many)
    still.end(name.format("e"), "failed", builder, **many)
    still.join(builder, "building")
    states = {"idle": 3, "building": 12, "booting": 4, "draining": 2, "failed": 1}
    why = "the queue of forty jobs asks for sixteen builders, more than this period allows"
    still.publish(desired=12, why=why, plan_most=12, most=12, period="night", states=states)

    for words, wanted in LIVE_TABLES:
        whole = set(still.farm(*words, width=1000).stdout.split())
        narrow = still.farm(*words, width=80).stdout
        text = LEFT_OUT.sub("", " ".join(narrow.split()))
        assert all(len(line) <= 80 for line in narrow.splitlines()), words
        assert set(text.split()) <= whole, words
        assert set(wanted) <= set(re.findall(r"\w+", text)), words


# --- which jobs --------------------------------------------------------------------------------


def test_a_pool_s_jobs_are_found_whatever_its_builders_are_called(still: StillFarm):
    """A container names itself, and its jobs are still listed when it is gone."""
    still.run("runs", "static-7f", "linux")
    still.end("ended", builder="static-6e", pool="linux")
    still.end("elsewhere", builder="linux-3", pool="arm")
    for pool, found in (("linux", ["runs", "ended"]), ("arm", ["elsewhere"])):
        rows = still.rows("jobs", "--state", "all", "--pool", pool)
        assert [row["job_id"] for row in rows] == found


def test_jobs_are_filtered_by_everything_known_of_them(still: StillFarm):
    """State, pattern, user, kind, matrix, platform, pool, attribute; combinations, too."""
    # headings alone would leave open whether something is wrong
    assert still.says("jobs").startswith("no jobs are listed by --where state=live; ended ones")
    assert still.says("jobs", "--json") == ""
    still.wait("w1", "w2", attributes={"user": "ann", "team": "browser"})
    still.wait("w3", kind="test", matrix="m", platform=ARM64)
    still.run("r1", attributes={"user": "ann"})
    still.end("e1", attributes={"user": "bob"})
    still.end("e2", "failed", attributes={"user": "ann"})

    def ids(*words: str) -> str:
        return " ".join(row["job_id"] for row in still.rows("jobs", *words))

    assert ids() == "w1 w2 w3 r1"
    assert ids("--where", "state=all") == "w1 w2 w3 r1 e1 e2"
    assert ids("--where", "state=ended") == ids("--state", "ended") == "e2 e1"
    assert ids("--where", "state=ended", "--in-order") == "e1 e2"
    assert ids("--where", "state=failed") == "e2"
    assert ids("--where", "user=ann") == ids("--user", "ann") == "w1 w2 r1"
    assert ids("--where", "state=all,user=ann", "--where", "id=[re]*") == "r1 e2"
    assert ids("--state", "all", "--user", "ann", "--match", "[re]*") == "r1 e2"
    assert ids("--where", "attribute.team=browser,attribute.user=ann") == "w1 w2"
    assert ids("--attribute", "team=browser", "--attribute", "user=ann") == "w1 w2"
    kind, matrix, platform = (
        ids("--where", one) for one in ("kind=test", "matrix=m", "platform=arm64/virtual")
    )
    assert kind == matrix == platform == ids("--kind", "test", "--matrix", "m")
    assert ids("--where", "pool=linux") == "r1"
    assert ids("--where", "state=all", "--after", "w3", "--limit", "2") == "r1 e1"
    assert ids("--where", "state=all", "--offset", "4", "--limit", "0") == "e1 e2"
    for words, said in (
        (("--where", "pool=windows"), "pool: found 'windows'; allowed: arm, linux"),
        (("--where", "platform=arm64"), "found 'arm64'; allowed: processor/virtual"),
        (("--where", "attribute"), "found 'attribute'; allowed: KEY=VALUE,KEY=VALUE"),
        (("--where", "usre=ann"), "--where: found 'usre'; did you mean user? allowed: id, "),
        (("--where", "state=runing"), "--where state: found 'runing'; did you mean running?"),
        (("--after", "unknown"), "'unknown' is not known"),
    ):
        assert said in still.says("jobs", *words, code=2)
    more = still.farm("jobs", "--where", "state=all,user=ann", "--limit", "2").stderr
    assert "more: farm jobs --where state=all,user=ann --after w2" in more


def test_the_next_page_of_builders_has_the_same_filters(still: StillFarm):
    """What is printed can be pasted into a shell."""
    for number in range(1, 5):
        still.join(f"linux-{number}")
    words = ["linux-*", "--state", "idle", "--pool", "linux"]
    done = still.farm("builders", *words, "--limit", "2")
    more = "more: farm builders 'linux-*' --state idle --pool linux --offset 2 --limit 2\n"
    assert done.stderr == more
    assert still.farm("builders", *shlex.split(more)[3:]).stderr == ""
    assert still.inbox() == []


def test_uses_are_listed_where_builders_have_some(still: StillFarm):
    """Taken and allowed; a farm whose builders stay has no such column."""
    still.join("linux-1")
    assert "uses" not in still.says("builders")
    still.join("linux-2", uses=3, used=1)
    heading, first, second, _ = (line.split() for line in still.says("builders").splitlines())
    assert second[heading.index("uses")] == "1/3"
    assert len(first) == len(second) - 1
    rows = {row["builder"]: (row.get("used"), row.get("uses")) for row in still.rows("builders")}
    assert rows == {"linux-1": (0, None), "linux-2": (1, 3), "linux-9": (None, None)}


def test_the_priorities_of_several_jobs_are_changed_together(still: StillFarm):
    """Each job that has not ended is named once; with none left there is nothing to send."""
    still.wait("w1", "w2")
    still.end("e1")
    jobs = [word for one in ("w1", "w2", "e1") for word in ("--job", one)]
    told = still.says("set", "urgency=3", *jobs)
    assert told == "asked to change 2 jobs (1 had ended already)\n"
    assert still.inbox() == [PriorityChanged(0.0, name, level=3) for name in ("w1", "w2")]
    assert "0 jobs (1 had ended already)" in still.says("set", "urgency=3", "--job", "e1")
    assert still.inbox() == []
    assert "2 jobs" in still.says("set", "priority=-5", "score=2.5", "--where", "id=w*")
    changed = [PriorityChanged(0.0, name, score=2.5, priority=-5) for name in ("w1", "w2")]
    assert still.inbox() == changed
    for words, said in (
        (("urgency=high", "--job", "w1"), "urgency: found 'high'; allowed: a whole number"),
        (("urgnecy=1", "--job", "w1"), "of jobs: found 'urgnecy'; did you mean urgency?"),
        (("score=nan", "--job", "w1"), "score: found 'nan'; allowed: a finite number"),
        (("--job", "w1"), "found nothing to change of the jobs; allowed: urgency=N"),
        (("urgency=1", "--job", "w1", "--where", "user=a"), "found --job and --where"),
    ):
        assert said in still.says("set", *words, code=2)
    assert still.inbox() == []


def test_retrying_by_outcome_tries_each_once(still: StillFarm):
    """Repeated, nothing is left to do; an id names a further try each time."""
    still.end("a", "failed")
    still.end("b", "cancelled")
    still.end("c", "failed")
    still.end("c~2", "succeeded")
    still.run("r")
    assert still.says("retry", "--state", "failed") == "1 job submitted again\n"
    assert [job.id for job in still.submitted()] == ["a~2"]
    assert still.says("retry", "c", "b").split() == ["c~3", "b~2"]
    assert still.rows("retry", "-", stdin="c\nc~2\n") == [
        {"submitted": ["c~4", "c~3"], "confirmed": True}
    ]
    still.inbox()
    assert "is running; allowed: a job that has ended" in still.says("retry", "a", "r", code=2)
    assert "found no jobs" in still.says("retry", code=2)
    still.end("l" * 256, "failed")
    assert "258 characters" in still.says("retry", "l" * 256, code=2)
    assert still.inbox() == []


# --- builders and pools ------------------------------------------------------------------------


def test_draining_reports_what_it_does_not_do(still: StillFarm):
    """Booting builders of that name, and a provisioner that may ask for others."""
    still.join("linux-1")
    still.join("linux-2", "draining", draining=True)
    still.join("linux-3", "draining", draining=True, retiring=True)
    still.join("linux-4", "failed", failed=True, failures=5)
    still.publish(provisioned=True, most=9, requested={"linux-5": 99.0})
    (told,) = still.rows("drain", "linux-*")
    assert told["builders"] == ["linux-1", "linux-2", "linux-3", "linux-4"]
    assert told["notes"] == [
        "1 more that match will boot, and take jobs",
        "the provisioner of pool linux may request others instead, up to 9 in all",
    ]
    (told,) = still.rows("drain", "--undo", "linux-*")
    assert told["builders"] == ["linux-2", "linux-4"]
    assert told["notes"] == ["1 other will go when empty, and cannot be kept"]
    assert still.says("drain", "--undo", "linux-1") == "found none to undrain\n"
    assert still.says("drain", "--undo", "linux-2", "--quiet") == ""
    rows = {row["builder"]: row for row in still.rows("builders")}
    assert rows["linux-4"]["remark"].startswith("taken out after 5 failures in a row")
    assert rows["linux-3"]["remark"] == "retires when empty"
    assert rows["linux-5"]["state"] == "booting"
    assert (rows["linux-9"]["state"], rows["linux-9"]["pool"]) == ("lost", "linux")
    assert "allowed: arm, linux" in still.says("builders", "--pool", "windows", code=2)


def test_settings_that_cannot_be_are_refused(still: StillFarm):
    """All keys are checked before anything is asked."""
    still.publish(provisioned=True, most=9, least=1)
    for words, told in {
        ("pools.linus.builders=3",): "pools.linus: found 'linus'; did you mean linux?",
        ("pools.linux.builders=3",): "allowed: pools.linux.provisioner.min and pools.linux",
        ("pools.linux.provisioner.max=0",): "found a min of 1 and a max of 0",
        ("pools.linux.provisioner.max=-3",): "found '-3'; allowed: a whole number from 0 to",
        ("pools.linux.provisioner.max=12", "scheduling.policy=sfj"): "did you mean sjf?",
        ("pools.linux.slots=2",): "found the key 'pools.linux.slots'; allowed: pools.NAME.builders",
        ("pools.linux.builder=2",): "'pools.linux.builder'; did you mean pools.linux.builders? a",
        ("scheduling.aging_factor=-1",): "allowed: a number from 0, below 1e9",
        ("scheduling.weights.ann=x",): "allowed: a number above 0",
        ("sjf",): "found 'sjf'; allowed: KEY=VALUE",
    }.items():
        assert told in still.says("set", *words, code=2)
    assert still.inbox() == []
    shown = still.says("set")
    assert "pools.linux.provisioner.max=9\n" in shown
    assert "scheduling.policy=fifo\n" in shown


def test_several_patterns_are_drained_together(still: StillFarm):
    """All or none."""
    still.join("linux-1")
    still.join("linux-2")
    still.join("arm-1")
    assert "no builder matches 'x'" in still.says("drain", "linux-1", "x", code=2)
    assert still.inbox() == []
    (told,) = still.rows("drain", "linux-*", "arm-1")
    assert told["builders"] == ["arm-1", "linux-1", "linux-2"]
    assert len(still.inbox()) == 2


def test_pools_say_why_no_builder_comes(still: StillFarm):
    """The limit, drained and failed ones, no room on a host; lost ones are counted."""
    snapshot = PoolSnapshot(pool="linux", at=1.0, draining=3, idle=1, waiting_jobs=7)
    states = {"draining": 3, "failed": 1}
    still.publish(
        provisioned=True, most=4, unplaced=2, why="7 jobs; maximum 4 (sat)", watcher="w",
        states=states, plan_least=1, plan_most=4, period="sat",
    )  # fmt: skip
    report = still.client.hget(still.keys.pools, "linux")
    changed = {**json.loads(report), "snapshot": msgspec.to_builtins(snapshot)}
    still.client.hset(still.keys.pools, "linux", json.dumps(changed))
    told = next(row for row in still.rows("pools") if row["pool"] == "linux")
    assert told["trouble"] == "no provisioner is running"
    assert told["remarks"] == [
        "2 requested, but no builder host has room for them",
        "1 failed (farm drain --undo mends them)",
        "at its limit of 4, 3 of them draining",
    ]
    assert told["states"] == {"draining": 3, "failed": 1, "lost": 1}
    assert told["limits"] == {"min": 1, "max": 4, "period": "sat"}
    shown = still.says("pools")
    assert ("1-4" in shown, "maximum 4 (sat)" in " ".join(shown.split())) == (True, True)


def test_the_trouble_of_a_pool_is_that_of_its_provisioner(still: StillFarm):
    """One that cannot even start (no Engine) leaves no other trace than that none is running."""

    def trouble(**keeping: Any) -> str:
        if keeping:
            with FarmClient(still.url, still.keys.prefix) as operator:
                operator.remember("linux", msgspec.json.encode(Keeping(**keeping)))
        return next(row["trouble"] for row in still.rows("pools") if row["pool"] == "linux")

    still.publish(provisioned=True, watcher=EMBEDDED)
    assert trouble() == "", "farm run does it itself"
    still.publish(provisioned=True)
    assert trouble() == "no provisioner is running"
    lease = Lease(still.client, Keys(f"{still.keys.prefix}provisioner:"))
    assert lease.try_to_take(still.client)
    try:
        assert trouble() == ""
        assert trouble(failures=2, trouble="no image") == "2 boots failed in a row: no image"
        found = trouble(failures=2, trouble="no image", backend="Docker Engine: gone")
        assert found == "Docker Engine: gone; 2 boots failed in a row: no image"
    finally:
        lease.release()


# --- the farm itself ---------------------------------------------------------------------------


def test_explaining_without_a_scheduler_prints_what_is_known(still: StillFarm):
    """The story of every job, whatever its state; only an unknown one is a mistake."""
    still.wait("w")
    still.run("r")
    still.end("f", "failed")
    still.publish(states={"failed": 1})
    assert "pool linux: 1 failed (farm drain --undo mends them)" in still.says("job", "w", "--why")
    assert "w is waiting; only its scheduler could say why" in still.says("job", "w", "--why")
    assert "r is running on linux-1; only its scheduler could say why" in still.says(
        "job", "r", "--why"
    )
    failed = still.says("job", "f", "--why")
    assert "f failed at 9s (because); only its scheduler could say why" in failed
    assert still.rows("job", "r", "--why")[0][0]["job"] == "r"
    assert "'x' is not known" in still.says("job", "x", "--why", code=2)


def test_a_scheduler_that_does_not_answer(still: StillFarm, monkeypatch):
    """Its status is recent, but it is stopped or too busy: the rest is printed without it."""

    def silence(*_: object, **__: Any) -> None:
        raise ServerError("the farm's scheduler did not answer")

    monkeypatch.setattr(FarmClient, "ask", silence)
    monkeypatch.setattr(FarmClient, "is_attended", lambda *_: True)
    still.run("r")
    done = still.farm("job", "r", "--json")
    assert json.loads(done.stdout)["state"] == "running"
    assert "warning: the farm's scheduler did not answer" in done.stderr
    assert "not known to the farm" in still.says("cancel", "unknown", code=2)
    # a job that was submitted but not yet read is neither known nor unknown
    monkeypatch.setattr("farm.live.operating.client.ANSWER_TIMEOUT", 0.1)
    still.says("submit", "--service-time", "5s", "--id", "new", "--platform", "amd64/virtual")
    assert "has not read" in still.says("cancel", "new", code=2)


def test_another_prefix_and_keys_that_are_not_ours(still: StillFarm):
    """Also a server that others use: no farm there, or something else."""
    done = CliRunner().invoke(app, ["status", "--redis", still.url], env={"FARM_PREFIX": "x:"})
    assert "under the prefix 'x:'" in str(done.exception)
    still.client.set(still.keys.status, "hello")
    assert "cannot read" in still.says("status", code=2)
    still.client.delete(still.keys.status)
    still.client.lpush(still.keys.status, "hello")
    assert "another release of the farm, or another program" in still.says("status", code=2)


def test_a_state_file_of_a_farm_that_was_killed(still: StillFarm, tmp_path: Path):
    """A power cut leaves it behind; its port may be another's by now."""
    place = {"pid": 2**22 - 1, "began": "1", "redis_url": still.url, "prefix": "still:"}
    (tmp_path / "farm.json").write_text(json.dumps(place))
    done = CliRunner().invoke(app, ["status", "--dir", str(tmp_path)])
    assert "is not running (it ended without saying so" in str(done.exception)
    (tmp_path / "farm.json").write_text('{"pid": ')
    done = CliRunner().invoke(app, ["status", "--dir", str(tmp_path)])
    assert "farm.json: cannot be read" in str(done.exception)


def test_watching_without_a_terminal_prints_one_view_after_the_other(still: StillFarm, monkeypatch):
    """Into a file or a pipe; Ctrl-C ends it with 130."""
    looks = iter(range(3))

    def pause(_: float) -> None:
        if next(looks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("farm.cli.live_farm.status_view.time.sleep", pause)
    done = still.farm("status", "--watch")
    assert done.exit_code == 130
    assert done.stdout.count("farm time") == 3
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_a_reader_that_goes_away_and_a_disk_that_is_full(still: StillFarm):
    """A closed pipe (``| head``) is no error; a full disk is reported without a traceback."""
    still.wait(*(f"j{number}" for number in range(3000)))
    farm = f"{sys.executable} -m farm.cli.main"
    env = os.environ | {"FARM_PREFIX": still.keys.prefix, "FARM_REDIS_URL": still.url}
    for words, code, said in (
        ("jobs --limit 0 --json | head -1", 0, ""),
        ("jobs --limit 0 | head -1", 0, ""),
        ("pools --json > /dev/full", 2, "error: No space left on device\n"),
        ("pools > /dev/full", 2, "error: No space left on device\n"),
        ("pools >&-", 0, ""),
    ):
        command = f"{farm} {words}; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", command], env=env, capture_output=True, text=True, timeout=240
        )
        assert (done.returncode, done.stderr) == (code, said), words


def test_status_says_what_is_wrong_with_the_event_log_and_what_was_restored(
    still: StillFarm, monkeypatch
):
    """All looked well: exit code 0, and not a word."""
    monkeypatch.setattr(FarmClient, "is_attended", lambda *_: True)
    assert still.farm("status").exit_code == 0
    wrong = {"restored": "the server had lost 9 commits", "log_lacks": "it lacks something"}
    still.publish(wrong | {"complaints": ["scheduling.policy: own:key failed"]})
    done = still.farm("status")
    assert done.exit_code == 0
    assert "the server had lost 9 commits" in done.stdout
    assert "the event log is not whole: it lacks something" in done.stdout
    assert "scheduling.policy: own:key failed" in done.stdout
    still.publish({"log_trouble": "no space left"})
    done = still.farm("status")
    assert done.exit_code == 1
    assert "the event log cannot be written: no space left" in done.stdout
    assert still.farm("status", "--json").exit_code == 1
