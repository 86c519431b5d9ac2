"""``farm admin estimate``: what it prints, and how it refuses."""

import io
import json
from functools import partial
from typing import get_args

import pytest

from farm.cli.forecasts.estimate import RuleSet
from farm.forecasts.dispatch.launchpad_formula import RULES

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
def run(farm, tmp_path):
    """Run the command on the state file."""
    (tmp_path / "state.json").write_text(json.dumps(STATE))
    return partial(farm, "admin", "estimate", "state.json")


def rows(done) -> list:
    """Return what a command has printed as JSON."""
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_json_of_the_whole_queue(run):
    """One object per waiting job, in dispatch order, with the promised keys and no others."""
    found = rows(run("--json"))
    assert [row["job"] for row in found] == ["first", "any", "strange", "last"]
    assert all(list(row) == KEYS for row in found)
    assert found[3] == {
        "job": "last",
        "predecessor_count": 2,
        "pool_for_job": 1,
        "head_platform": ["i386", True],
        "free_for_head": 0,
        "tnb_s": 120,
        "plt_s": 180,
        "estimate_s": 300,
    }
    assert found[2]["estimate_s"] is None


def test_json_of_some_jobs_with_the_arithmetic(run):
    """In the order asked; --explain adds the groups, the head job and the builder that frees up."""
    last, first = rows(run("--json", "--job", "last", "--job", "first"))
    assert (last["job"], last["predecessors"], first["job"]) == ("last", ["first", "any"], "first")
    (row,) = rows(run("--json", "--explain", "--job", "last"))
    assert row["head_job"] == "first"
    assert (row["next_builder"]["builder"], row["next_builder"]["why"]) == ("b1", "overdue")
    assert [(g["platform"], g["sum_s"], g["divisor"]) for g in row["groups"]] == [
        (["i386", True], 90, 1),
        ([None, True], 90, 1),
    ]


def test_json_of_a_long_queue_is_short(run, tmp_path):
    """A row has a bounded size whatever the queue; names and arithmetic only where asked for."""
    first = STATE["jobs"][0]
    jobs = [{**first, "id": number, "name": f"job-{number}"} for number in range(600)]
    (tmp_path / "state.json").write_text(json.dumps({**STATE, "jobs": jobs}))
    whole = run("--json")
    assert (len(rows(whole)), len(whole.out) < 600 * 250) == (600, True)
    assert len(rows(run("--json", "--limit", "3"))) == 3
    explained = run("--json", "--explain")
    assert len(rows(explained)) == 50
    assert "550 more (--limit 0 shows all)" in explained.err


def test_table(run):
    """Users get a table of the queue, as long as they ask for."""
    done = run()
    assert done.code == 0
    for text in ("4 waiting jobs", "i386/virtual", "5m", "never"):
        assert text in done.out
    assert "… and 3 more" in run("--limit", "1").out


def test_explanation(run):
    """--explain spells out groups, head job, builder and sum."""
    text = run("--explain", "--job", "last").out
    for part in (
        "last: dispatch in 5m",
        "any/virtual",
        "head job: first (i386/virtual)",
        "b1 runs busy, 10s overdue: two minutes are assumed",
        "2m + 3m, at least 5s = 5m (rules launchpad)",
    ):
        assert part in text
    everyone = run("--explain", "--limit", "3").out
    assert "strange: no estimate, because no builder can run it" in everyone
    assert "… and 1 more" in everyone
    said = "no builder of the file has processor 'vax' (they have: i386), so it has no estimate"
    assert f"strange: {said}" in run("--json", "--job", "strange").err


def test_rules_are_those_of_the_library(run):
    """The option offers every rule set, and each is used."""
    assert list(get_args(RuleSet)) == list(RULES)
    (row,) = rows(run("--json", "--job", "first", "--rules", "page"))
    assert row["estimate_s"] == 120


def test_time_to_next_builder_in_whole_seconds(run, tmp_path):
    """A running job's spans without a fraction give a number too, also where nothing rounds."""
    builder = {"name": "b", "processors": ["i386"], "virtualized": True}
    first = {"processor": "i386", "virtualized": True, "score": 1, "duration_s": 100}
    running = {"id": 1, "name": "r", "status": "running", "builder": "b", "elapsed_s": 40}
    waiting = {"id": 2, "name": "w", "status": "waiting"}
    state = {"builders": [builder], "jobs": [first | running, first | waiting]}
    (tmp_path / "state.json").write_text(json.dumps(state))
    for rules in RULES:
        (row,) = rows(run("--json", "--job", "w", "--rules", rules))
        assert row["tnb_s"] == row["estimate_s"] == 60


def test_standard_input(farm, monkeypatch):
    """A dash reads the state from it; it may be closed, or no text."""

    def given(content: bytes):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        return farm("admin", "estimate", "-", "--json")

    assert len(rows(given(json.dumps(STATE).encode()))) == 4
    said = "error: stdin: cannot be read: not UTF-8 text\n"
    assert given(b'{"builders": "\xff"}') == (2, "", said)
    monkeypatch.setattr("sys.stdin", None)  # as with <&-
    done = farm("admin", "estimate", "-")
    assert (done.code, done.out) == (2, "")
    assert "error: standard input is closed" in done.err


@pytest.mark.parametrize("key", ["name", "processor"])
def test_half_of_a_character(run, tmp_path, key):
    """JSON may have one, but it cannot be printed: refused where it stands."""
    job = STATE["jobs"][0] | {key: "\ud800"}
    (tmp_path / "state.json").write_text(json.dumps(STATE | {"jobs": [job]}))
    done = run("--json")
    assert (done.code, done.out) == (2, "")
    assert f'state.json: jobs[0].{key}: found "\\ud800"; allowed: a ' in done.err


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("busy", "--job: found 'busy', which is running; allowed: a waiting job"),
        ("lasst", "--job: found 'lasst'; allowed: a job of the file; did you mean 'last'?"),
    ],
)
def test_job_that_has_no_estimate(run, job, message):
    """A job that is absent or does not wait is the user's mistake: exit code 2."""
    done = run("--job", job)
    assert (done.code, message in done.err) == (2, True)


def test_empty_farm(run, tmp_path):
    """Nothing waits: an empty list, an empty table."""
    (tmp_path / "state.json").write_text('{"builders": [], "jobs": []}')
    assert rows(run("--json")) == []
    assert "0 waiting jobs" in run().out
