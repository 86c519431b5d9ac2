"""The tables of commands on narrow terminals: a column goes whole, no word is cut."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Said

#: of a wide terminal, where nothing is left out
WIDE = "1000"
LEFT_OUT = re.compile(r"hidden at this width: .*? \(all columns: \| cat\)")
"""The remark below a table that has not all of its columns."""

SCORED = ("--set", "estimates.rules=[launchpad, rollout]", "--set", "estimates.rollouts=5")
FEW = (
    "--set", "workload.0.arrivals.count=60", "--set", "workload.1.arrivals.count=20",
    "--set", "pools.linux.builders=5", "--set", "pools.windows.builders=2",
)  # fmt: skip
QUICK = ("summary", "sweep")
"""What every test run looks at; the other commands are slow together."""


@pytest.fixture
def runs(farm: Callable[..., Said]) -> Path:
    """Three runs of an example in the working directory: one, another policy, and estimates."""
    for name, more in (("one", ()), ("other", ("--policy", "sjf")), ("third", SCORED)):
        assert farm("simulate", "quickstart", "--out", name, "-q", *FEW, *more).code == 0
    return Path.cwd()


COMMANDS = {
    "summary": ("simulate", "fair-share-two-teams", "--no-save", "-q"),
    "summary of pools": ("simulate", "quickstart", "--no-save", "-q"),
    "sweep": ("sweep", "sticky-images", "--vary", "scheduling.stickiness=[],[20s]", "-n", "2"),
    "sweep of two keys": (
        "sweep", "sticky-images", "--vary", "scheduling.stickiness=[],[20s]",
        "--vary", "pools.0.builders=2,3", "-n", "1", "--metric", "switches", "--metric", "makespan",
        "--metric", "waiting_time.p95", "--metric", "cost",
    ),
    "comparison": ("compare", "one", "other"),
    "comparison of three": ("compare", "one", "other", "third"),
    "doctor": ("doctor", "one/jobs.csv"),
    "score": ("admin", "score", "third"),
    "rungs": ("admin", "score", "one", "--run-times", "boinc"),
    "plan": (
        "plan", "mmc", "--slo", "p95(waiting_time) < 5m", "-n", "2", "--all",
        "--set", "workload.0.arrivals.count=50",
    ),
    "examples": ("examples",),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in COMMANDS],
)
def test_no_word_is_cut(
    name: str, farm: Callable[..., Said], monkeypatch: pytest.MonkeyPatch, request
) -> None:
    """Each word of 80 and of 60 columns is one that a wide terminal shows, too: none is a part."""
    words = COMMANDS[name]
    if "simulate" not in words and "sweep" not in words:
        request.getfixturevalue("runs")

    def shown(width: str) -> list[str]:
        monkeypatch.setenv("COLUMNS", width)
        said = farm(*words)
        assert said.code == 0, said.err
        assert said.out
        # how long it took differs from run to run
        return [line for line in said.out.splitlines() if not line.startswith("took ")]

    whole = set(" ".join(shown(WIDE)).split())
    for width in ("80", "60"):
        text = LEFT_OUT.sub("", " ".join(" ".join(shown(width)).split()))
        assert not set(text.split()) - whole, f"{width} columns"
