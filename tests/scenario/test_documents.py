"""The examples and the documentation of scenarios are correct."""

import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from farm.core.errors import ScenarioError
from farm.scenario import load_scenario, parse_scenario
from farm.scenario.file.document import MAX_DEPTH, parse_document
from farm.scenario.section import Section
from farm.workload import build_jobs

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/reference/scenario.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize("name", ["quickstart", "mm1", "mmc", "md1"])
def test_examples_load(name: str) -> None:
    """These examples can be run and make jobs."""
    scenario = load_scenario(ROOT / "examples" / f"{name}.yaml")
    assert scenario.name == name
    assert len(list(islice(build_jobs(scenario), 10))) == 10


def test_the_quickstart_ends_within_a_minute() -> None:
    """At its speed the arrivals and the longest job together take less than 40 real seconds."""
    scenario = load_scenario(ROOT / "examples" / "quickstart.yaml")
    jobs = list(build_jobs(scenario))
    assert 400 <= len(jobs) <= 800
    longest = max(job.service_time for job in jobs)
    assert ((jobs[-1].arrived_at or 0) + 2 * longest) / scenario.live.speed < 40


@pytest.mark.parametrize("text", EXAMPLES)
def test_documented_scenarios_run(text: str) -> None:
    """An example copied from the page makes jobs."""
    assert len(EXAMPLES) >= 3
    assert next(iter(build_jobs(parse_scenario(parse_document(text, "example"))))).service_time > 0


def _keys(section: type[Section]) -> set[str]:
    return set(section.model_fields).union(*map(_keys, section.__subclasses__()))


def test_every_key_is_documented() -> None:
    """The page names every key that a scenario knows."""
    words = set(re.findall(r"[a-z_0-9]+", DOCUMENT))
    known: Any = _keys(Section)
    assert known - words == set()


def test_values_are_nested_as_deeply_as_is_allowed():
    """One more is refused at once, not when the interpreter's own limit is met."""
    lists = MAX_DEPTH - 1
    assert parse_document("a: " + "[" * lists + "]" * lists, "x")["a"]
    with pytest.raises(ScenarioError, match="x: values are nested too deeply"):
        parse_document("a: " + "[" * (lists + 1) + "]" * (lists + 1), "x")
