"""``farm study thesis``: every figure and table of the thesis, on common job sets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from farm.app.studies.thesis import Study, study
from farm.app.studies.thesis_model import POLICY_OF, Plan, job_sets, play
from farm.cli.main import app
from farm.core.errors import InputError


@pytest.fixture(scope="module")
def small() -> Study:
    """The study on three job sets."""
    return study(3)


def test_every_figure_and_table_is_there(small: Study):
    """4.1, 5.1 to 5.12 in their order, and tables 5.1, 5.2 and 5.4."""
    titles = [figure.title for figure in small.figures]
    numbers = [re.match(r"Figure ([0-9.]+)", title) for title in titles]
    assert [found[1] for found in numbers if found] == [
        "4.1", "5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "5.8", "5.9", "5.10", "5.11",
        "5.12",
    ]  # fmt: skip
    heads = [table.title for table in small.tables]
    for wanted in ("Table 5.1", "Table 5.2", "Section 5.4"):
        assert sum(head.startswith(wanted) for head in heads) == 1


def test_the_lines_are_the_policies(small: Study):
    """Each figure of plays has six; the first of section 5.3 is what a play says."""
    makespans = next(f for f in small.figures if f.title.startswith("Figure 5.7"))
    assert list(makespans.lines) == list(POLICY_OF)
    values = sorted(play(jobs, "LJF", Plan(2, 6)).makespan for jobs in job_sets(3))
    assert dict(makespans.lines["LJF"])[6] == values[1]


def test_claims_hold_on_the_same_jobs(small: Study):
    """LJF has the best makespan and SJF the best response time, of six, on our jobs too."""
    (result,) = [table for table in small.tables if table.title.startswith("Section 5.4")]
    rows = {row[0]: row[1:] for row in result.rows}
    assert rows["LJF"][1].startswith("Best; 1. of 6")
    assert rows["SJF"][0].startswith("Best; 1. of 6")


def test_job_sets_do_not_depend_on_their_number():
    """The same jobs for everybody: what is compared is compared on common jobs."""
    assert job_sets(2) == job_sets(5)[:2]
    (one,) = job_sets(1, 5, 100, 30.0)
    assert len(one) == 500
    assert sum(job.heavy for job in one) == 100
    assert {job.arrived_at for job in one} == {0.0, 30.0, 60.0, 90.0, 120.0}


def test_the_command_writes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: Study):
    """Self-contained, with a drawing for each figure; another suffix is refused."""
    monkeypatch.setattr("farm.cli.study.thesis", lambda *_: small)
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["study", "thesis", "-o", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text("utf-8")
    assert text.count("<svg ") == len(small.figures)
    assert "variance is infinite" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    done = CliRunner().invoke(app, ["study", "thesis", "-o", str(tmp_path / "page.pdf")])
    assert isinstance(done.exception, InputError)
