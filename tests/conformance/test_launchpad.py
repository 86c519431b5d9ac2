"""Launchpad's numbers, case by case: estimates through the command, other tables as functions."""

import json
import re

import pytest
import typer
from typer.testing import CliRunner

from farm.cli.forecasts.estimate import estimate
from farm.core.errors import StateError
from farm.core.jobs.failure_judgement import judge_failure
from farm.core.model import Platform
from farm.forecasts.dispatch.builder_pools import BuilderPools
from farm.forecasts.dispatch.launchpad_formula import RULES
from farm.forecasts.dispatch.state_file import parse_state
from farm.upstream.launchpad import estimate_duration, score_other_build, score_package_build
from tests.fixtures.estimates import estimate_dispatch

from .conftest import refuse_unknown

RULES_OF_ERA = {"2010": "launchpad-2010", "now": "launchpad", "page": "page"}
FREE = re.compile(r"free_(?!for_head)(.+)_(native|virtual)")
#: what the lists of the file may have, besides what explains a case
CASE = {
    "era", "rules", "builders", "jobs", "job_of_interest", "expect", "asserted_upstream",
}  # fmt: skip
JUDGED = {
    "builder_failures", "job_failures", "retry", "exc", "cancelling", "builder_action",
    "job_action", "builder_failures_after",
}  # fmt: skip
GUESSED = {"kind", "history_s_newest_first", "package_kb", "estimate_s"}
KEYS = ("pool_for_job", "head_platform", "free_for_head", "tnb_s", "plt_s", "estimate_s")

app = typer.Typer()
app.command()(estimate)


def rules_of(case):
    """Return the name of the rule set that the case is about."""
    rules = case.get("rules") or RULES_OF_ERA.get(case["era"])
    assert rules in RULES, f"era {case.get('era')!r}; known: {', '.join(RULES_OF_ERA)}"
    return rules


def view_of(case):
    """Return the case's farm as the estimator sees it."""
    return parse_state(state_of(case), case.get("name", "case"))


def state_of(case):
    """Return the case's farm as a state file."""
    return json.dumps({"builders": case["builders"], "jobs": case["jobs"]})


def run(case, tmp_path, *options):
    """Run the command on the case's farm."""
    path = tmp_path / "state.json"
    path.write_text(state_of(case))
    arguments = [str(path), "--json", "--rules", rules_of(case), *options]
    return CliRunner().invoke(app, arguments)


def row_of(result):
    """Return the only row that the command printed."""
    assert result.exception is None, result.exception
    (row,) = json.loads(result.stdout)
    return row


@pytest.mark.conformance("launchpad", "cases")
def test_estimate_of_one_job(case, tmp_path):
    """`admin estimate --job` prints exactly the expected numbers, or refuses as Launchpad does."""
    refuse_unknown("case", case, CASE)
    result = run(case, tmp_path, "--job", case["job_of_interest"])
    if "error" in case["expect"]:
        assert isinstance(result.exception, StateError)
        assert result.exception.exit_code == 2
        assert "waiting" in str(result.exception) or "waiting" not in case["expect"]["error"]
        return
    row, expect = row_of(result), case["expect"]
    assert expect, "nothing is expected"
    for key in (*KEYS, "predecessors"):
        if key in expect:
            value = expect[key]  # a fraction may have been added up in another order
            exact = not isinstance(value, float)
            assert row[key] == (value if exact else pytest.approx(value, rel=1e-12)), key
    others = {key for key in expect if not FREE.fullmatch(key)}
    assert others <= {*KEYS, "predecessors", "plt_exact_s"}


@pytest.mark.slow
@pytest.mark.conformance("launchpad", "cases")
def test_estimate_of_the_whole_queue(case, tmp_path):
    """The one-pass table says of every waiting job what asking for it alone says."""
    if "error" in case["expect"]:
        return  # its job of interest does not wait
    whole = json.loads(run(case, tmp_path, "--explain", "--limit", "0").stdout)
    names = [row["job"] for row in whole]
    assert set(names) == {job["name"] for job in case["jobs"] if job["status"] == "waiting"}
    asked = [option for name in names for option in ("--job", name)]
    assert whole == json.loads(run(case, tmp_path, "--explain", *asked).stdout)
    for row, plain in zip(whole, json.loads(run(case, tmp_path).stdout), strict=True):
        assert plain == {key: row[key] for key in plain}
        assert plain["predecessor_count"] == len(row["predecessors"])


@pytest.mark.slow
@pytest.mark.conformance("launchpad", "cases")
def test_secondary_numbers(case, tmp_path):
    """Untruncated lead times, named free counts and upstream's own assertions hold."""
    view, rules = view_of(case), RULES[rules_of(case)]
    expect = case["expect"]
    builder_pools = BuilderPools(view.builders, view.jobs, rules)
    found = {}
    asserted = case.get("asserted_upstream", {})
    for key in {*expect, *asserted}:
        if match := FREE.fullmatch(key):
            processor = None if match[1] == "any" else match[1]
            platform = Platform(processor, match[2] == "virtual")
            found[key] = builder_pools.next_builder(platform).free
    assert found == found | {key: expect[key] for key in found if key in expect}
    if "error" in expect:
        return
    (job,) = (job for job in view.jobs if job.name == case["job_of_interest"])
    result = estimate_dispatch(view, job.id, rules)
    if "plt_exact_s" in expect:
        exact = sum(group.sum_s / group.divisor for group in result.groups if group.divisor)
        assert exact == pytest.approx(expect["plt_exact_s"], abs=1e-6)
    row = row_of(run(case, tmp_path, "--job", job.name))
    for key, said in asserted.items():
        value = found[key] if key in found else row[key]
        assert value == said["value"] or (said["op"] == "<=" and value <= said["value"]), key


@pytest.mark.conformance("launchpad", "score_cases")
def test_score(case):
    """A package build's score is the sum that Launchpad makes."""
    refuse_unknown("case", case, {"inputs", "score"})
    names = {"urg": "urgency", "copy_": "copy_archive", "rel": "archive_relative"}
    names |= {"comp": "component", "ps": "packagesets"}
    inputs = {names.get(key, key): value for key, value in case["inputs"].items()}
    if "kind" in inputs:
        assert score_other_build(**inputs) == case["score"]
    else:
        assert score_package_build(**({"urgency": "HIGH"} | inputs)) == case["score"]


@pytest.mark.conformance("launchpad")
def test_score_tables(document):
    """The points per pocket, component and urgency are Launchpad's."""
    base = {"pocket": "BACKPORTS", "component": "multiverse", "urgency": "LOW"}
    rules = document.get("score_rules")
    if rules is None:
        pytest.skip("this file has no tables of scores")
    for part in base:
        for value, points in rules[part].items():
            score = score_package_build(**(base | {part: value}))
            assert score == points + (0 if part == "urgency" else rules["urgency"]["LOW"])
    assert score_package_build(**base, private=True) == 5 + rules["private_bonus"]
    assert score_package_build(**base, copy_archive=True) == 5 - rules["copy_archive_penalty"]


@pytest.mark.conformance("launchpad", "judge_failure_cases")
def test_failure_judgement(case):
    """The blame falls where Launchpad lets it fall."""
    refuse_unknown("case", case, JUDGED)
    assert isinstance(case["retry"], bool) or "cancelling" in case["retry"]
    judgement = judge_failure(
        case["builder_failures"],
        case["job_failures"],
        retry=case["retry"] is not False,
        isolation_error="Isolation" in str(case.get("exc")),
        cancelling="cancelling" in str(case["retry"]) or bool(case.get("cancelling")),
    )
    assert judgement.builder_action == case["builder_action"]
    assert judgement.job_action == case["job_action"]
    if "builder_failures_after" in case:
        assert judgement.builder_failures_after == case["builder_failures_after"]


@pytest.mark.conformance("launchpad", "estimate_duration_cases")
def test_duration_estimate(case):
    """Durations are estimated from history, size or defaults as Launchpad does."""
    refuse_unknown("case", case, GUESSED)
    history = case.get("history_s_newest_first") or ()
    assert estimate_duration(case["kind"], history, case.get("package_kb")) == case["estimate_s"]
