"""Runs with open and with closed workloads are labelled, and not compared as if they were alike."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rich.console import Console

import farm
from farm.results.comparison.comparison_answer import MEAN_WAIT, best_setting
from farm.results.comparison.comparison_tables import matrix_of, remarks, render_comparison
from farm.results.comparison.sweep_judgement import Played, judge
from farm.results.report.words import of_run
from farm.results.summary.summary_table import render_summary

OPEN = {"poisson": {"rate": "1/m"}}
CLOSED = {"users": {"count": 3, "think_time": "2m"}}


def run(*releases: dict[str, Any], **keys: Any) -> farm.Result:
    """Return a short run of sources that release jobs so."""
    sources = [{"arrivals": {**one, "service_time": "1m"}} for one in releases]
    return farm.simulate(
        {
            "phases": {"run": "1h"},
            "pools": [{"name": "linux", "builders": 1}],
            "workload": sources,
            **keys,
        }
    )


def test_a_run_says_whether_its_workload_is_closed():
    """Who reads a wait has to know whether its jobs would have come in any case."""
    told = {
        kind: (found.summary["workload"], found.summary["runs_per_hour"])
        for kind, found in {
            "open": run(OPEN),
            "closed": run(CLOSED),
            "mixed": run(OPEN, CLOSED),
        }.items()
    }
    assert {kind: of[0] for kind, of in told.items()} == {kind: kind for kind in told}
    assert told["open"][1] is None
    # three users need a builder's minute each, and think for two: 20 pushes an hour each, the first
    # ones after two minutes
    assert told["closed"][1] == pytest.approx(58, abs=1)


def test_what_a_run_prints_and_its_report_say_it():
    """Before any number, and with the number that depends on the farm."""
    found = run(CLOSED).kept
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render_summary(found.summary))
    assert "closed workload" in capture.get()
    sentences = " ".join(of_run("", found.summary))
    assert "runs ended in an hour" in sentences


def test_open_and_closed_runs_are_not_compared():
    """With users a small farm is asked for less, and looks as good as a large one."""
    compared = farm.compare(run(OPEN), run(CLOSED))
    assert "closed" in compared.answer
    assert compared.answer.endswith("waits, costs and numbers of jobs cannot be compared")
    [pair] = compared.pairs
    waits = {metric.metric: metric for metric in pair.metrics}["waiting_time mean"]
    assert waits.difference is not None, "the figures are shown"
    assert {found.verdict for found in (*pair.metrics, *pair.parts)} == {None}
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render_comparison(compared))
    assert not re.search(r"\bverdict$", capture.get(), re.MULTILINE), "a column without a cell"


def test_of_two_closed_runs_it_is_told_what_users_get_done():
    """The number of jobs is a result there."""
    slow = run({"users": {"count": 6, "think_time": "2m"}})
    answer = farm.compare(slow, run({"users": {"count": 6, "think_time": "1m"}})).answer
    assert "; users get 63 runs an hour with constant 1m instead of 61" in answer


def test_a_sweep_says_it_of_its_settings():
    """Also where an axis of it changes the kind of the workload."""
    figures = {kind: run(one).kept.figures for kind, one in (("open", OPEN), ("closed", CLOSED))}
    for kinds, expected in (
        (["open", "closed"], "the workloads are open and closed"),
        (["closed"], "the workload is closed"),
    ):
        summaries = {(kind,): [figures[kind]] for kind in kinds}
        sweep = judge(Played("x", {"who": kinds}, [1], summaries), {"who": kinds[0]}, 0.01)
        told = " ".join([sweep.answer, *remarks(sweep)])
        assert expected in told
        assert {row.verdict for row in sweep.rows} == {None}, "no setting is better than another"
        assert best_setting(sweep, MEAN_WAIT) == (kinds[0],)
        assert not any(row.best for row in matrix_of(sweep, [MEAN_WAIT])) or len(kinds) == 1


@pytest.mark.slow
def test_a_plan_for_users_warns_that_waits_do_not_tell_what_is_not_pushed():
    """Its objective is met by a farm on which users get little done."""
    scenario = {
        "phases": {"run": "1h"},
        "pools": [{"name": "linux", "builders": 1}],
        "workload": [{"arrivals": {**CLOSED, "service_time": "1m"}}],
    }
    plan = farm.plan(scenario, "mean(waiting_time) < 1m", replications=1)
    assert any("the workload is closed" in warning for warning in plan.warnings)
