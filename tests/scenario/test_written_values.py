"""Texts that are written into scenarios are read as they were, whatever is in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import farm
from farm.app.first_scenario import write_first_scenario
from farm.core.errors import ScenarioError
from farm.scenario import load_scenario
from farm.scenario.file.document import parse_document, value_text


@given(st.text())
def test_a_text_is_read_as_it_was_written(text: str):
    """Of each character that there is: emoji, line separators, controls."""
    assert parse_document(f"key: {value_text(text)}\n", "it") == {"key": text}


@pytest.mark.parametrize("escaped", ['"\\ud83d\\udc33docker"', '"\\U0001f433docker"', "🐳docker"])
def test_a_character_in_two_halves_is_one(escaped: str):
    """JSON escapes it so, and a scenario of it could not be read."""
    assert parse_document(f"{escaped}: {escaped}\n", "it") == {"🐳docker": "🐳docker"}


def test_half_a_character_is_an_error_with_its_line():
    """It was a traceback where it stood in a path."""
    with pytest.raises(ScenarioError, match=r"it:2: found '\\ud83d'; allowed: whole"):
        parse_document('a: 1\nb: "\\ud83d"\n', "it")


def test_a_scenario_for_jobs_with_emoji_runs(tmp_path: Path):
    """In the labels, and in the path of the table."""
    table = tmp_path / "📦jobs.csv"
    table.write_text(
        "job_id,submitted_at_s,service_time_s,platform\na,0,10,🐳docker\nb,1,10,🐳docker\n"
    )
    scenario = tmp_path / "mine.yaml"

    write_first_scenario(scenario, table)

    assert "🐳docker" in scenario.read_text(encoding="utf-8")
    assert farm.simulate(load_scenario(scenario)).summary["jobs"]["succeeded"] == 2
