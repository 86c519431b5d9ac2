"""The study of autoscalers: all algorithms take part, failures cost something, one page."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm_studies import autoscalers
from provisioner.algorithms.registry import ALGORITHMS


def test_every_algorithm_is_on_the_bench() -> None:
    """A new algorithm has to take part in the study."""
    assert list(autoscalers.OPTIONS) == sorted(ALGORITHMS, key=list(autoscalers.OPTIONS).index)
    for name in ALGORITHMS:
        assert autoscalers._scenario(name, True, None).pools[0].signals is not None


def test_nothing_to_draw_with(farm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says at once what to install."""
    monkeypatch.setattr("farm_studies.command.find_spec", lambda _: None)
    found = farm("admin", "study", "thesis")
    assert (found.code, found.out) == (2, "")
    assert "pip install matplotlib" in " ".join(found.err.split())


@pytest.mark.slow
def test_one_command_plays_them_all(farm: Callable[..., Any], tmp_path: Path) -> None:
    """One command runs each twice on the same jobs; table, picture and JSON agree."""
    records = [struct.pack(">II", 20_000 * number, 300_000 + number) for number in range(40)]
    (tmp_path / "jobs.dat").write_bytes(b"".join(records))
    said = ("admin", "study", "autoscalers", "--trace", tmp_path / "jobs.dat", "--quiet")
    found = farm(*said, "-o", tmp_path / "a.html", "--json")
    assert found.code == 0, found.err
    outcomes = json.loads(found.out)["outcomes"]
    assert len(outcomes) == 2 * len(ALGORITHMS)
    assert {one["submitted"] for one in outcomes} == {40}
    assert all(one["succeeded"] == 40 for one in outcomes if not one["troubles"])
    text = (tmp_path / "a.html").read_text("utf-8")
    assert text.count("<svg ") == 2
    assert all(name in text for name in ALGORITHMS)
    for words, told in (
        (("--trace", "none.csv"), "no such file: none.csv"),
        (("--runs", "5"), "--runs"),
        (("--trace", "none.csv", "-o", tmp_path / "no" / "a.html"), "cannot be written"),
    ):
        wrong = farm("admin", "study", "autoscalers", *words)
        assert (wrong.code, told in wrong.err) == (2, True)
