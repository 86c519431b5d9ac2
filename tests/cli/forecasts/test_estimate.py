"""``farm admin estimate``: what it prints, and how it refuses."""

import io
import json
from typing import get_args

import pytest
import typer
from typer.testing import CliRunner

from farm.cli.forecasts.estimate import RuleSet, estimate
from farm.core.errors import StateError
from farm.forecasts.dispatch.rules import RULES

app = typer.Typer()
app.command()(estimate)

STATE = {
    "builders": [{"name": "b1", "processors": ["i386"], "virtualized": True}],
    "jobs": [
        {"id": i, "name": name, "processor": processor, "virtualized": True, "score": -i,
         "duration_s": 90, "status": status, **more}
        for i, (name, processor, status, more) in enumerate(
            [
                ("first", "i386", "waiting", {}),
                ("any", None, "waiting", {}),
                ("strange", "vax", "waiting", {}),
                ("last", "i386", "waiting", {}),
                ("busy", "i386", "running", {"builder": "b1", "elapsed_s": 100}),
            ]
        )
    ],
}  # fmt: skip

KEYS = [
    *("job", "predecessor_count", "pool_for_job", "head_platform", "free_for_head"),
    *("tnb_s", "plt_s", "estimate_s"),
]


@pytest.fixture
def state(tmp_path):
    """Write the state file."""
    path = tmp_path / "state.json"
    path.write_text(json.dumps(STATE))
    return str(path)


def run(*arguments, **more):
    """Run the command; a wide terminal, so that tables are not folded."""
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"}, **more)


def test_json_of_the_whole_queue(state):
    """One object per waiting job, in dispatch order, with the promised keys and no others."""
    rows = json.loads(run(state, "--json").stdout)
    assert [row["job"] for row in rows] == ["first", "any", "strange", "last"]
    assert all(list(row) == KEYS for row in rows)
    assert rows[3] == {
        "job": "last",
        "predecessor_count": 2,
        "pool_for_job": 1,
        "head_platform": ["i386", True],
        "free_for_head": 0,
        "tnb_s": 120,
        "plt_s": 180,
        "estimate_s": 300,
    }
    assert rows[2]["estimate_s"] is None


def test_json_of_some_jobs(state):
    """--job may be repeated; the answers come in the order asked."""
    rows = json.loads(run(state, "--json", "--job", "last", "--job", "first").stdout)
    assert [row["job"] for row in rows] == ["last", "first"]
    assert rows[0]["predecessors"] == ["first", "any"]


def test_json_of_a_long_queue_is_short(tmp_path):
    """A row has a bounded size whatever the queue; names and arithmetic only where asked for."""
    first = STATE["jobs"][0]
    jobs = [{**first, "id": number, "name": f"job-{number}"} for number in range(600)]
    path = tmp_path / "long.json"
    path.write_text(json.dumps({**STATE, "jobs": jobs}))
    whole = run(str(path), "--json").stdout
    assert len(json.loads(whole)) == 600
    assert len(whole) < 600 * 250
    assert len(json.loads(run(str(path), "--json", "--limit", "3").stdout)) == 3
    explained = run(str(path), "--json", "--explain")
    assert len(json.loads(explained.stdout)) == 50
    assert "550 more (--limit 0 shows all)" in explained.stderr


def test_json_with_the_arithmetic(state):
    """--explain --json adds the groups, the head job and the builder that frees up."""
    (row,) = json.loads(run(state, "--json", "--explain", "--job", "last").stdout)
    assert row["head_job"] == "first"
    assert row["next_builder"]["builder"] == "b1"
    assert row["next_builder"]["why"] == "overdue"
    assert [(g["platform"], g["sum_s"], g["divisor"]) for g in row["groups"]] == [
        (["i386", True], 90, 1),
        ([None, True], 90, 1),
    ]


def test_table(state):
    """Users get a table of the queue, as long as they ask for."""
    result = run(state)
    assert result.exit_code == 0
    for text in ("4 waiting jobs", "i386/virtual", "5m", "never"):
        assert text in result.stdout
    assert "… and 3 more" in run(state, "--limit", "1").stdout


def test_explanation(state):
    """--explain spells out groups, head job, builder and sum."""
    text = run(state, "--explain", "--job", "last").stdout
    for part in (
        "last: dispatch in 5m",
        "any/virtual",
        "head job: first (i386/virtual)",
        "b1 runs busy, 10s overdue: two minutes are assumed",
        "2m + 3m, at least 5s = 5m (rules launchpad)",
    ):
        assert part in text
    everyone = run(state, "--explain", "--limit", "3").stdout
    assert "strange: no estimate, because no builder can run it" in everyone
    assert "… and 1 more" in everyone


def test_unknown_processor_is_mentioned(state):
    """A job that needs what no builder has: no estimate, and the processors that exist."""
    result = run(state, "--json", "--job", "strange")
    assert json.loads(result.stdout)[0]["estimate_s"] is None
    assert "no builder of the file has processor 'vax' (they have: i386)" in result.stderr


def test_rules_are_those_of_the_library(state):
    """The option offers every rule set, and each is used."""
    assert list(get_args(RuleSet)) == list(RULES)
    (row,) = json.loads(run(state, "--json", "--job", "first", "--rules", "page").stdout)
    assert row["estimate_s"] == 120


def test_time_to_next_builder_in_whole_seconds(tmp_path):
    """A running job's spans without a fraction give a number too, also where nothing rounds."""
    path = tmp_path / "busy.json"
    builder = {"name": "b", "processors": ["i386"], "virtualized": True}
    first = {"processor": "i386", "virtualized": True, "score": 1, "duration_s": 100}
    running = {"id": 1, "name": "r", "status": "running", "builder": "b", "elapsed_s": 40}
    waiting = {"id": 2, "name": "w", "status": "waiting"}
    path.write_text(json.dumps({"builders": [builder], "jobs": [first | running, first | waiting]}))
    for rules in RULES:
        (row,) = json.loads(run(str(path), "--json", "--job", "w", "--rules", rules).stdout)
        assert row["tnb_s"] == row["estimate_s"] == 60


def test_stdin(state):
    """A dash reads the state from standard input."""
    result = run("-", "--json", input=json.dumps(STATE))
    assert len(json.loads(result.stdout)) == 4


def test_closed_standard_input(farm, monkeypatch):
    """``farm admin estimate - <&-``: Python has no stdin at all then."""
    monkeypatch.setattr("sys.stdin", None)
    done = farm("admin", "estimate", "-")
    assert (done.code, done.out) == (2, "")
    assert "error: standard input is closed; allowed: a state or snapshot" in done.err


def test_standard_input_that_is_not_text(farm, monkeypatch):
    """As for a file."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"builders": "\xff"}')))
    done = farm("admin", "estimate", "-")
    assert (done.code, done.out, done.err) == (
        2, "", "error: stdin: cannot be read: not UTF-8 text\n",
    )  # fmt: skip


@pytest.mark.parametrize("key", ["name", "processor"])
def test_half_of_a_character(farm, tmp_path, key):
    """JSON may have one, but it cannot be printed: refused where it stands."""
    job = STATE["jobs"][0] | {key: "\ud800"}
    (tmp_path / "state.json").write_text(json.dumps(STATE | {"jobs": [job]}))
    done = farm("admin", "estimate", "state.json", "--json")
    assert (done.code, done.out) == (2, "")
    assert f'state.json: jobs[0].{key}: found "\\ud800"; allowed: a ' in done.err


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("busy", "--job: found 'busy', which is running; allowed: a waiting job"),
        ("lasst", "--job: found 'lasst'; allowed: a job of the file; did you mean 'last'?"),
    ],
)
def test_job_that_has_no_estimate(state, job, message):
    """A job that is absent or does not wait is the user's mistake: exit code 2."""
    error = run(state, "--job", job).exception
    assert isinstance(error, StateError)
    assert error.exit_code == 2
    assert message in str(error)


def test_empty_farm(tmp_path):
    """Nothing waits: an empty list, an empty table."""
    path = tmp_path / "state.json"
    path.write_text('{"builders": [], "jobs": []}')
    assert json.loads(run(str(path), "--json").stdout) == []
    assert "0 waiting jobs" in run(str(path)).stdout


def test_a_queue_and_one_job_name_the_same_head():
    """In 2010 a job that is its own head is virtual, in both ways of asking."""
    jobs = [
        {"id": number, "name": f"j{number}", "processor": None, "virtualized": None,
         "score": -number, "duration_s": 60, "status": "waiting"}
        for number in (1, 2)
    ]  # fmt: skip
    state = json.dumps({"builders": STATE["builders"], "jobs": jobs})
    words = ("-", "--json", "--rules", "launchpad-2010")
    everyone = json.loads(run(*words, input=state).stdout)
    assert [row["head_platform"] for row in everyone] == [[None, True], [None, None]]
    for row in everyone:
        (alone,) = json.loads(run(*words, "--job", row["job"], input=state).stdout)
        assert alone["head_platform"] == row["head_platform"]
