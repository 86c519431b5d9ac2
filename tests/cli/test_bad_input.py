"""Bad input through the real command: one clear message, exit code 2, nothing half-done."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from farm.live.store.log_drain import POSITION
from tests.cli.conftest import SMALL


@pytest.fixture
def refused(farm, tmp_path):
    """Run ``farm`` and expect one message on stderr that contains all of these texts."""

    def run(*words: object, says: tuple[str, ...]) -> str:
        before = sorted(tmp_path.rglob("*"))
        code, out, err = farm(*words)
        assert (code, out) == (2, ""), err
        assert "Traceback" not in err
        flat = " ".join(err.split())
        for part in says:
            assert part in flat, flat
        assert sorted(tmp_path.rglob("*")) == before, "something was left behind"
        return flat

    return run


@pytest.fixture
def write(tmp_path):
    """Write the small scenario, with some of its text replaced."""

    def write_file(*changes: tuple[str, str], name: str = "farm.yaml", text: str = SMALL) -> Path:
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


WORLDS = ("simulate", "run")


ARRIVALS = "arrivals: {every: 10s, count: 5, service_time: 5s}"
SERVICE, BUILDERS = "service_time: 5s", "builders: 2"


def rules(text: str) -> tuple[str, str]:
    """Return the change that adds these scheduling rules."""
    return "workload:", f"scheduling: {{{text}}}\nworkload:"


#: one for each step of reading; tests/scenario has the others
CHANGES: dict[str, tuple[tuple[str, str], tuple[str, ...]]] = {
    "yaml": ((BUILDERS, "builders: [2"), ("farm.yaml:6", "YAML")),
    "unrunnable": (
        (SERVICE, f"{SERVICE}, platform: {{processor: s390x}}"),
        ("s390x", "no pool could ever run", "allow_unrunnable"),
    ),
    "policy": (rules("policy: fito"), ("fito", "fifo")),
    "estimator": (
        rules("runtime_estimates: oracl"), ("runtime_estimates", "oracl", "oracle"),
    ),
    "no function": (rules("policy: 'math:nix'"), ("math:nix",)),
    "no trace": ((ARRIVALS, "trace: {path: no.csv}"), ("no.csv",)),
    "null character": (
        (ARRIVALS, 'trace: {path: "a\\0b"}'),
        ("farm.yaml:7: workload.0.trace.path", "null characters"),
    ),
    "null character in the base": (
        ("name: small", 'extends: "a\\0b"'), ("farm.yaml:1: extends", "a file name"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("mistake", CHANGES)
def test_bad_scenarios(refused, write, world, mistake):
    """Each mistake is reported before anything starts, in both worlds, with its place."""
    change, says = CHANGES[mistake]
    refused(world, write(change), "--out", "kept", says=says)


def test_a_bad_override(refused, write):
    """``--set`` is checked as the file is; tests/scenario has the others."""
    refused("simulate", write(), "--set", "pools.linux.buidlers=3", says=("buidlers",))


def test_another_speed_is_refused_before_anything_starts(refused, write, tmp_path):
    """A stopped farm has its speed: the message names what continues it."""
    path, folder = write(), tmp_path / "night"
    (folder / "redis").mkdir(parents=True)
    (folder / "scenario.yaml").write_text(path.read_text() + "live: {speed: 600}\n")
    says = ("live.speed: found 1", "runs at 600; allowed: --speed 600, or --fresh")
    refused("--dir", folder, "up", path, says=says)


def test_a_run_directory_that_exists(refused, write, tmp_path):
    """It is not touched, whether what it holds is a run or not."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "notes").touch()
    for world in WORLDS:
        refused(world, write(), "--out", kept, says=("kept", "exists"))


def test_an_empty_workload(refused, write):
    """No source at all, or sources that make no job."""
    none = write((f"\n  - {ARRIVALS}", " []"))
    refused("simulate", none, says=("empty",))
    late = write(("count: 5", "start: 2h"), ("pools:", "phases: {run: 1h}\npools:"))
    for world in WORLDS:
        refused(world, late, "--out", "kept", says=("no job",))


def test_unrunnable_jobs_can_be_allowed(farm, write):
    """They end cancelled, with the reason, and the run is fine."""
    path = write(CHANGES["unrunnable"][0])
    code, out, err = farm("simulate", path, "--set", "allow_unrunnable=true", "--json")
    assert code == 0, err
    assert json.loads(out)["jobs"]["cancelled"] == 5


# --- files that do not end ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(
    "words",
    [
        "simulate FILE", "sweep FILE --vary seed=1,2", "plan FILE --slo p90(waiting_time)<5m",
        "import csv FILE -o out.csv", "import github FILE -o out", "doctor FILE", "estimate FILE",
        "whatif FILE", "simulate quickstart --learn-from FILE",
    ],
)  # fmt: skip
def test_a_file_that_does_not_end(refused, tmp_path, words, kind):
    """One message, at once: a named pipe has no writer, and a device no end."""
    file = tmp_path / "FILE"
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    refused(*words.split(), says=("cannot be read: a pipe or a device; allowed: a file",))


def test_a_scenario_of_200_mb(refused, tmp_path):
    """Its size is enough: it would take minutes and gigabytes to read."""
    with (tmp_path / "large.yaml").open("wb") as file:
        file.truncate(200_000_000)
    refused("simulate", "large.yaml", says=("large.yaml: cannot be read: too large", "2,000,000"))


# --- broken run directories -----------------------------------------------------------------------

EVERY = (
    "report RUN -o out.html",
    "score RUN",
    "audit RUN",
    "export RUN --format openmetrics -o out",
)


def late(text: bytes) -> bytes:
    """Move the last event to second 1e10: an export would have no end."""
    *lines, last = text.splitlines(keepends=True)
    return b"".join([*lines, re.sub(rb'"at_s":[0-9.]+', b'"at_s":1e10', last)])


def early(text: bytes) -> bytes:
    """Move one in the middle."""
    lines = text.splitlines(keepends=True)
    lines[9] = re.sub(rb'"at_s":[0-9.]+', b'"at_s":1e10', lines[9])
    return b"".join(lines)


BROKEN_RUNS = {
    "garbled": (
        "events.jsonl",
        lambda text: re.sub(rb"(builder-.*)}", rb"\1", text, count=1),
        EVERY,
    ),
    "empty table": ("jobs.csv", lambda _: b"", EVERY[:2]),
    "late end": ("events.jsonl", late, EVERY[3:]),
    "out of order": ("events.jsonl", early, EVERY[3:]),
    "deep": ("summary.json", lambda _: b"[" * 100_000, EVERY),
    "a farm's position": (POSITION, lambda _: b"\xff", EVERY[2:3]),
    "no text": ("meta.json", lambda _: b"\xff", EVERY),
}


@pytest.mark.parametrize("name", BROKEN_RUNS)
def test_a_broken_run_is_one_message(farm, write, tmp_path, name):
    """Of each command that reads what is broken: no traceback, and an end."""
    assert farm("simulate", write(), "--out", "run", "--quiet").code == 0
    file, change, commands = BROKEN_RUNS[name]
    path = tmp_path / "run" / file
    path.write_bytes(change(path.read_bytes() if path.exists() else b""))
    for command in commands:
        code, _, err = farm(*command.replace("RUN", "run").split(), "--quiet")
        assert (code, err.count("error: "), "Traceback" in err) == (2, 1, False), (command, err)


@pytest.mark.parametrize(
    "file", ["events.jsonl", "jobs.csv", "summary.json", "meta.json", "scenario.yaml"]
)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(farm, write, tmp_path, file):
    """Nor is a folder read."""
    assert farm("simulate", write(), "--out", "run", "--quiet").code == 0
    (tmp_path / "run" / file).unlink()
    for make in (os.mkfifo, os.mkdir):
        make(tmp_path / "run" / file)
        code, _, err = farm("audit", "run")
        assert (code, err.count("error: run: not a ")) == (2, 1), err
        path = tmp_path / "run" / file
        path.unlink() if path.is_fifo() else path.rmdir()


# --- the user's functions ----------------------------------------------------------------------

OWN = """\
def odd(job, estimate, at, serial):
    return "b" if serial % 2 else 1

def nothing(job, estimate, at, serial):
    return None

def few():
    return 0

def nan(job, estimate, at, serial):
    return float("nan")

def rank_fails(builder):
    return {}["x"]

def rank_text(builder):
    return "x"
"""


@pytest.mark.parametrize(
    ("key", "name", "says"),
    [
        ("policy", "odd", "returned 'b'; a key is a number or a tuple of numbers"),
        ("policy", "nothing", "returned None; a key is a number or a tuple of numbers"),
        ("policy", "nan", "returned nan; NaN cannot be ordered"),
        ("balancer", "rank_fails", "KeyError"),
        ("balancer", "rank_text", "returned 'x'"),
    ],
)
def test_functions_of_the_user_that_fail(farm, write, tmp_path, key, name, says):
    """The run continues, every job ends; one message names key and function, the exit code is 1."""
    module = f"own_{name}"
    (tmp_path / f"{module}.py").write_text(OWN)
    path = write(rules(f"{key}: '{module}:{name}'"))
    code, out, err = farm("simulate", path, "--json")
    flat = " ".join(err.split())
    assert code == 1, err
    assert json.loads(out)["jobs"]["succeeded"] == 5
    assert f"scheduling.{key}: {module}:{name} failed" in flat
    assert says in flat
    assert flat.count("warning: ") == 1
    assert "Traceback" not in err


BROKEN = """
def key(job, estimate, at, serial):
    if job.id.endswith("3"):
        raise KeyError("weight")
    return -serial
"""
EIGHT = """
name: broken
pools: [{name: p, builders: 1}]
workload: [{matrices: {name: m, every: 0s, count: 1, size: 8, service_time: {constant: 5s}}}]
live: {speed: 50}
"""


@pytest.mark.parametrize(
    "world", ["simulate", pytest.param("run", marks=[pytest.mark.live, pytest.mark.slow])]
)
def test_an_error_in_a_users_policy_is_one_warning(farm, tmp_path: Path, world: str) -> None:
    """The job goes first, the others as the policy says; the run ends with exit code 1."""
    policy = f"broken_{world}:key"
    (tmp_path / f"broken_{world}.py").write_text(BROKEN)
    (tmp_path / "farm.yaml").write_text(EIGHT)
    sets = ("--set", f"scheduling.policy={policy}")
    code, _, err = farm(world, "farm.yaml", *sets, "--quiet", "--out", "out")
    assert (code, err.count("warning: ")) == (1, 1), err
    assert f"scheduling.policy: {policy} failed for 1 of 8 jobs" in err
    assert "job m-0001-003: KeyError: 'weight'" in err
    assert "Traceback" not in err
    rows = (tmp_path / "out/jobs.csv").read_text().splitlines()
    order = [row.split(",")[0] for row in rows][1:]
    assert order == ["m-0001-003", *(f"m-0001-00{n}" for n in (8, 7, 6, 5, 4, 2, 1))]


def test_a_policy_of_the_user_with_another_signature(refused, write, tmp_path):
    """Reported before the run starts."""
    (tmp_path / "own_few.py").write_text(OWN)
    path = write(rules("policy: 'own_few:few'"))
    sys.dont_write_bytecode = True
    refused("simulate", path, says=("scheduling.policy", "own_few:few", "cannot be called so"))


# --- traces -------------------------------------------------------------------------------------


def test_mistakes_in_what_is_imported_or_compared(refused, farm, write, tmp_path):
    """Unknown formats, missing files, no archive, impossible targets; one run, or none."""
    (tmp_path / "a.swf.gz").write_bytes(b"not zipped")
    (tmp_path / "ok.csv").write_text("job_id,submitted_at_s,service_time_s\na,0,5\n")
    assert farm("simulate", write(), "--out", "one", "--quiet")[0] == 0
    (tmp_path / "empty").mkdir()
    for words, says in {
        "import swf a.swf.gz -o out.csv": ("a.swf.gz",),
        "import swfx ok.csv -o out.csv": ("swfx", "swf"),
        "import gone.csv -o out.csv": ("found 'gone.csv'", "no file either"),
        "import github -o mine": ("found no files", "farm import github FILES"),
        "import csv gone.csv -o out.csv": ("gone.csv",),
        "import csv ok.csv -o ok.csv": ("ok.csv", "exists"),
        "import csv ok.csv -o no/such/out.csv": ("out.csv",),
        "import csv ok.csv --anonymize -o out.csv": ("--anonymize with a table", "a bundle, -o"),
        "import batsim ok.csv --zone UTC --show": ("found --zone with a table of jobs",),
        "compare one": ("found 1", "two or more"),
        "compare one nowhere": ("nowhere",),
        "compare one empty": ("empty",),
        "compare": ("RUN",),
    }.items():
        refused(*words.split(), says=says)


# --- the command itself -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("fly", "No such command 'fly' ("),
        ("simualte x", "found no command 'simualte'; did you mean simulate?"),
        ("simulate", "farm simulate --help)"),
        ("run x --speeed 3", "--speeed"),
        ("plan x --slo y --replications 0", "Invalid value for '--replications' / '-n': found '0'"),
        ("simulate mm1 --engine x", ": found 'x'; allowed: 'auto', 'reference', 'fast' (farm"),
        ("up -", "-: allowed with --foreground"),
        ("submit --service-time 5x", "--service-time: found '5x'"),
        ("submit nowhere.csv", "nowhere.csv: no such file"),
        ("submit", "found no jobs; allowed: a FILE"),
        ("cancel", "found no jobs"),
        ("job x --why --run .", "not a run: it has no meta.json"),
        # the option that was typed, not an argument, a key, or another one that it is short for
        ("simulate farm.yaml --seed x", "error: --seed: found 'x'"),
        ("simulate farm.yaml --policy nope", "error: --policy: unknown 'nope'"),
        ("simulate farm.yaml --set seed=x --seed 1", "error: --set seed=x: seed: found 'x'"),
        (
            "sweep farm.yaml --vary policy=fifo,sjf -n 0",
            "--replications: found 0; allowed: 1 to 500,000",
        ),
        ("sweep farm.yaml --vary seed=1,2", "error: --vary: found seed; allowed: other keys"),
        ("sweep mm1 --vary scheduling.polcy=fifo,sjf", "did you mean policy?"),
        ("sweep mm1 --vary pools.gpu*.builders=1", "matches nothing in the scenario; its pools: s"),
        ("sweep mm1 --vary scheduling.policy", "allowed: KEY=V1,V2"),
        ("sweep mm1 --vary scheduling.policy=fifo --vary scheduling.policy=sjf", "twice"),
        ("sweep mm1 --vary scheduling=@missing.yaml", "missing.yaml: no such file"),
        ("sweep mm1 --baseline seed=1", "--baseline: found 'seed'"),
        ("sweep mm1 --metric waiting_time.maen", "did you mean waiting_time.mean?"),
        ("sweep mm1 --relevant lots", "--relevant: found 'lots'"),
        ("run farm.yaml --duration x", "error: --duration: found 'x'"),
        ("run farm.yaml --speed nan", "error: --speed: found nan; allowed: a number above 0"),
        ("up farm.yaml --speed 0", "error: --speed: found 0; allowed: a number above 0"),
        ("up farm.yaml --speed inf", "error: --speed: found inf; allowed: a number above 0"),
        (
            "status",
            "no farm is running here (.farm/farm.json does not exist): start one with farm up",
        ),
        ("pools --redis redis://127.0.0.1:1/0", "cannot be reached, or it is still starting"),
        ("status --interval -1", "--interval: found -1; allowed: 0.1 to 86400"),
        ("status --interval 1e9", "--interval: found 1e+09; allowed: 0.1 to 86400"),
        ("status --interval nan", "--interval: found nan; allowed: 0.1 to 86400"),
        ("set urgency=x --job a", "urgency: found 'x'"),
    ],
)
def test_misspelt_commands_and_options(refused, write, words, says):
    """Usage mistakes are told like all others: in one line, with a word on where to look."""
    write()
    said = refused(*words.split(), says=(says,))
    assert said.startswith("error: ")
    assert said.isascii(), "no box is drawn around it"


def test_help_is_whole_in_a_narrow_terminal(farm, monkeypatch):
    """Nothing of it is cut off, and every command is listed with what it does."""
    monkeypatch.setenv("COLUMNS", "60")
    told = "".join(farm("plan", "--help").out.split())
    assert "pools.linux.idle_timeout=5m,15m" in told
    assert "List the jobs of a live farm." in farm().out


def test_the_real_process_says_it_in_one_message(tmp_path):
    """As installed: exit 2, nothing on stdout, no traceback, no warning."""
    done = subprocess.run(
        [sys.executable, "-m", "farm.cli.main", "simulate", "nowhere.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "nowhere.yaml" in done.stderr


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (("sweep", "quickstart", "--objective", "p95(waiting_time) < 5m"), "farm plan --slo"),
        (("doctor", "x", "--slo", "p95(waiting_time) < 5m"), "--objective TIME here"),
        (("plan", "x", "--objective", "5m"), "--slo OBJECTIVE here"),
    ],
)
def test_an_option_of_another_command_is_pointed_to(refused, words, instead):
    """Objectives are of farm plan and farm doctor, each under a name of its own."""
    refused(*words, says=("No such option: ", instead))
