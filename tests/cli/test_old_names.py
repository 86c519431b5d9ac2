"""Commands by the names that they had in the last release."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.cli.old_names import ANSWERS, RENAMED, as_now_called
from farm.testing import small_scenario
from tests.conftest import Said
from tests.worlds.still import StillFarm


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("explain", "w1"), ("job", "w1", "--why")),
        (("undrain", "linux-1"), ("drain", "--undo", "linux-1")),
        (("dead-letters",), ("admin", "dead-letters")),
        (("jobs", "--user", "ann", "--state", "all"), ("jobs", "--where", "user=ann,state=all")),
        (("policy",), ("set",)),
    ],
)
def test_an_old_name_runs_as_the_new_one(still: StillFarm, old: Any, new: Any) -> None:
    """Output and exit code are the same; a name is answered with the new one on standard error."""
    still.wait("w1", attributes={"user": "ann"})
    still.join("linux-1")
    before, now = still.farm(*old), still.farm(*new)
    assert (before.stdout, before.exit_code) == (now.stdout, now.exit_code)
    note, _, rest = before.stderr.partition("\n")
    if old[0] == "jobs":
        assert before.stderr == now.stderr
    else:
        assert note == f"note: farm {old[0]} is now farm {RENAMED[old[0]].now}"
        assert rest == now.stderr


def test_old_names_of_commands_without_a_farm(farm: Callable[..., Said], tmp_path: Path) -> None:
    """The same for schemas and runs; with options that have another name."""
    assert "pools" in json.loads(farm("init", "--schema").out)["properties"]
    assert farm("schema").out == farm("init", "--schema").out
    (tmp_path / "small.json").write_text(json.dumps(small_scenario(load={"count": 5})))
    assert farm("simulate", "small.json", "--quiet", "--out", "run").code == 0
    assert farm("audit", "run") == farm("admin", "audit", "run")._replace(
        err="note: farm audit is now farm admin audit\n"
    )
    job = (tmp_path / "run/jobs.csv").read_text("utf-8").splitlines()[1].partition(",")[0]
    old = farm("explain", "run", "--job", job)
    assert (old.code, old.out) == (0, farm("job", job, "--why", "--run", "run").out)
    assert "its key: urgency 0, policy 0, submission " in old.out
    wrong = farm("calibrate", "--output", "here.txt")
    assert (wrong.code, "--out: found 'here.txt'" in wrong.err) == (2, True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("snapshot --out now.json", "status --save - --save now.json"),
        ("estimate s.json --json", "admin estimate s.json --json"),
        ("runtime-estimate --job=a", "admin estimate --run-time --job=a"),
        ("load quickstart --name=n", "submit --format scenario quickstart --prefix=n"),
        ("invocations web --queued", "jobs --by team web --state=waiting"),
        ("chaos farm.yaml --seed 3", "admin chaos farm.yaml --seed 3"),
        ("policy sjf --dir x --json", "set scheduling.policy=sjf --dir x --json"),
        ("policy --aging-factor 3", "set scheduling.aging_factor=3"),
        (
            "policy --weight web=2 --weight=a/b=3",
            "set scheduling.weights.web=2 scheduling.weights.a/b=3",
        ),
        ("simulate quickstart", "simulate quickstart"),
        ("help trace show", "admin trace show --help"),
        ("help explain", "job --why --help"),
    ],
)
def test_words_of_today(old: str, new: str) -> None:
    """Options follow their command, with a value in either form."""
    assert as_now_called(old.split()) == new.split()


@pytest.mark.parametrize("name", ANSWERS)
def test_a_name_without_a_counterpart_is_one_line(farm: Callable[..., Said], name: str) -> None:
    """With what to type now, and exit code 2."""
    said = farm(name, "x", "--level", "1")
    assert said == (2, "", f"error: found farm {name}; it is now: {ANSWERS[name]}\n")
