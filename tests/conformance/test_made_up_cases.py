"""The tests of this folder on made-up cases: wrong and unreadable ones fail, right ones do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from . import test_boinc as boinc
from . import test_launchpad as launchpad
from . import test_taskcluster as taskcluster
from . import test_thesis as thesis

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"tasks": -1}, "-1"), ({"tsaks": 2885}, "unknown key tsaks"), ({"workers": 6}, "6")],
)
def test_taskclusters_counts_are_compared(wrong: dict[str, Any], message: str) -> None:
    """Protects against a count that no test reads."""
    case = {"name": "w5-l4", "workers": 5, "load": 4, "tasks": 2885} | wrong
    with pytest.raises(AssertionError, match=message):
        taskcluster.test_a_manual_pool_under_an_even_load(case, "reference")


@pytest.fixture
def golden() -> dict[str, Any]:
    """Run 0 of the thesis's model."""
    run: dict[str, Any] = json.loads((CASES / "thesis.json").read_text())["golden_runs"][0]
    return run


def results(engine: str, *numbers: float, policy: str = "LJF") -> dict[str, Any]:
    """Return results of one policy at two slots."""
    return {"results": {engine: {policy: {"2": list(numbers)}}}}


def test_the_rule_in_an_engines_name_says_what_is_heavy(golden: dict[str, Any]) -> None:
    """Protects blocks such as event_thesis_fixedthreshold, which are not of the run's own flags."""
    law, _ = thesis.parts_of("event_thesis", {})
    fixed = golden | {"heavy": [time > 5 ** (1 / 1.161) for time in golden["jobs"]]}
    right = thesis.play(thesis.made(fixed), "LJF", 2, law)
    assert right[0] == pytest.approx(116.345, abs=0.001)
    thesis.test_golden_run(golden | results("event_thesis_fixedthreshold", *right), {})
    for engine, message in (
        ("event_thesis", "event_thesis, LJF"),
        ("event_thesis_matrixtop5", "event_thesis_matrixtop5, LJF"),
        ("event_thesis_banana", "known rules are"),
    ):
        with pytest.raises(AssertionError, match=message):
            thesis.test_golden_run(golden | results(engine, *right), {})


def test_a_golden_run_needs_no_permutation_but_for_random(golden: dict[str, Any]) -> None:
    """Protects runs of sorted policies that have none."""
    numbers = golden["results"]["event_none"]["LJF"]["2"]
    del golden["random_permutation"]
    thesis.test_golden_run(golden | results("event_none", *numbers), {})
    with pytest.raises(AssertionError, match="RANDOM without permutation"):
        thesis.test_golden_run(golden | results("event_none", *numbers, policy="RANDOM"), {})


def test_a_file_may_have_tables_only() -> None:
    """Protects a file without golden runs."""
    document = {"meta": {"seed": 1161, "runs": 2}, "tables": {}}
    thesis.test_the_recipe_gives_the_golden_job_sets(document)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "no policy"),
        ({"LJF": {}}, "no slots"),
        ({"LJF": {"2": {}}}, "no metric"),
        ({"LJF": {"2": {"makespan": {}}}}, "no statistic"),
        ({"LJF": {"2": {"makespan": {"share_of_runs_best_or_tied": 7}}}}, "2 slots, makespan"),
        ({"LJF": {"2": {"makespan": {"p50": -1}}}}, "unknown key p50"),
        ({"LJF": {"2": {"makspan": {"mean": 1}}}}, "unknown key makspan"),
        ({"LJF": {"two": {"makespan": {"mean": 1}}}}, "unknown key two"),
        ({"MAGIC": {"2": {"makespan": {"mean": 1}}}}, "unknown key MAGIC"),
        ({"LJF": 2}, "no table"),
        ({"LJF": {"2": {"makespan": {"mean": 1}}}}, "event_none, LJF, 2 slots, makespan"),
    ],
)
def test_all_of_a_table_is_compared(table: dict[str, Any], message: str) -> None:
    """Protects against a misspelt or empty part of a table, which no test would read."""
    document = {"meta": {"seed": 1161, "runs": 2}}
    with pytest.raises(AssertionError, match=message):
        thesis.test_table({"name": "event_none", "value": table}, document)


def boinc_case(group: str, inputs: dict[str, Any], **expect: Any) -> None:
    """Test a case of BOINC's."""
    boinc.test_case({"group": group, "inputs": inputs, "expect": expect})


def test_peak_counts_beside_the_ladder_may_mean_either_rule() -> None:
    """Protects both readings of a case that does not say which one the project has configured."""
    inputs = {"peak": 1e10, "proj": 1e10, "p_fpops": 5e9, "rsc_fpops_est": 1e13}
    inputs |= {"available_frac_raw": 1.0, "et": {"n": 11, "avg": 4e-10}}
    inputs |= {"hav_pfc": {"n": 50, "avg": 2.0}}
    for flops in (2.5e9, 5e9):
        boinc_case("estimate_flops", inputs, projected_flops=flops, source="host_app_version")
    boinc_case("estimate_flops", inputs | {"from_hav_pfc": True}, projected_flops=5e9)
    for more, flops in (({}, 4e9), ({"from_hav_pfc": False}, 5e9), ({"from_hav_pfc": True}, 2.5e9)):
        with pytest.raises(AssertionError, match="projected_flops"):
            boinc_case("estimate_flops", inputs | more, projected_flops=flops)


@pytest.mark.parametrize(
    ("resource", "number"),
    [("cpu", 2), ("NVIDIA", 3), ("ati(-4)", 4), ("amd", 4), ("ATI/AMD", 4), ("(-6)", 6)],
)
def test_resources_by_any_of_their_names(resource: str, number: int) -> None:
    """Protects AMD, which is BOINC's ATI."""
    inputs = {"app_id": 7, "resource": resource}
    boinc_case("anonymous_platform", inputs, app_version_id=7_000_000 + number)


@pytest.mark.parametrize("resource", ["voodoo", "gpu(-9)", "gpu(-1)"])
def test_no_unknown_resource_is_taken_for_another(resource: str) -> None:
    """Protects the message about a resource that does not exist."""
    with pytest.raises(AssertionError, match="known: cpu, nvidia"):
        boinc_case("anonymous_platform", {"app_id": 7, "resource": resource}, app_version_id=0)


def test_a_host_without_any_speed_never_ends_a_job() -> None:
    """Protects a case of the hardware's arithmetic, which the library has too."""
    inputs = {"app_info_flops": 0, "p_fpops": 0, "rsc_fpops_est": 1e13, "rsc_fpops_bound": 1e15}
    forever = float("inf")
    boinc_case("anonymous_platform", inputs, client_estimate_s=forever, server_estimate_s=forever)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("AV_UPDATE_PERIOD_s", 1, "600"),
        ("CONS_VALID_UNREPLICATED", 99, "10"),
        ("MIN_HOST_SAMPLES", 9, "10"),
        ("MIN_HOST_SAMPLESS", 10, "unknown key MIN_HOST_SAMPLESS"),
    ],
)
def test_all_constants_are_compared(name: str, value: float, message: str) -> None:
    """Protects against a constant that no test reads."""
    with pytest.raises(AssertionError, match=message):
        boinc.test_constants({"constants": {name: value}})


def test_launchpads_cases_may_leave_out_what_did_not_happen() -> None:
    """Protects failures without an exception, and builds without a history."""
    counts = {"builder_failures": 3, "job_failures": 3, "retry": True}
    said = {"builder_action": None, "job_action": "reset"}
    for exc in ({}, {"exc": None}, {"exc": "any"}):
        launchpad.test_failure_judgement(counts | said | exc)
    guess = {"kind": "snap", "history_s_newest_first": None, "estimate_s": 1800}
    launchpad.test_duration_estimate(guess)
    with pytest.raises(AssertionError):
        launchpad.test_duration_estimate(guess | {"estimate_s": 1801})
