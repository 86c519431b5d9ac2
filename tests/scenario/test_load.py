"""Valid scenario files: their meaning, extends, --set, and back to YAML."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from farm.core.errors import InputError, ScenarioError
from farm.core.model import Platform
from farm.scenario import load_scenario, parse_scenario, scenario_schema
from farm.scenario.file.document import MAX_DEPTH, parse_document
from farm.scenario.section import Section
from farm.workload import build_jobs

Write = Callable[..., Path]


def test_the_meaning_of_a_file(write: Write) -> None:
    """Keys arrive with their values in seconds, and defaults for missing ones."""
    scenario = load_scenario(write())
    linux, old = scenario.pools
    assert (linux.slots, linux.builders, linux.boot_time) == (2, 4, 30.0)
    assert old.provisioner is not None
    assert old.provisioner.options == {"list_length": 5}
    assert old.provisioner.interval is None
    assert scenario.scheduling.policy == "sjf"
    assert scenario.scheduling.retries == 2
    assert scenario.workload[0].arrivals is not None
    assert scenario.pools_for(Platform("i386", False)) == (old,)
    assert scenario.pools_for(Platform(None)) == (linux,)
    assert scenario.default_platform is None


def test_a_scenario_from_standard_input(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """``-`` is the file that is piped in; closed, it is one message."""
    with write().open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert len(load_scenario("-").pools) == 2
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        load_scenario("-")


def test_it_is_written_as_resolved_and_reads_back_the_same(write: Write) -> None:
    """A run's scenario.yaml is the scenario that ran."""
    text = "workload:\n  - trace: {path: a.dat, window: [1d, 2d], platform: {processor: amd64}}\n"
    write(text + "extends: farm.yaml\n", "over.yaml")
    for path in (write(), write().with_name("over.yaml")):
        scenario = load_scenario(path)
        assert parse_scenario(yaml.safe_load(scenario.to_yaml())) == scenario


@pytest.mark.parametrize(
    "text", ["1e3", "1.5e3", "4e-3", ".5e3", "+1e3", "08", "1:30", "yes", "~", "1.", "-"]
)
def test_a_text_like_a_number_stays_a_text(text: str) -> None:
    """Written as resolved, and read by this project or another YAML 1.1 reader."""
    pool = {"name": "p", "builders": 1, "platform": {"processor": "amd64"}, "labels": {text: text}}
    work = {"arrivals": {"every": "1s", "count": 1, "service_time": 1e-7}}
    scenario = parse_scenario({"name": "12e4567", "pools": [pool], "workload": [work]})
    written = scenario.to_yaml()
    assert parse_scenario(parse_document(written, "scenario.yaml")) == scenario
    assert yaml.safe_load(written)["pools"][0]["labels"] == {text: text}


def test_extends_merges_mappings_and_pools_and_replaces_lists(write: Write) -> None:
    """This file's keys win, the base's others stay; pools are merged by name."""
    write(name="base/farm.yaml")
    over = write(
        "extends: base/farm.yaml\n"
        "pools:\n  - {name: linux, slots: 8}\n  - {name: more, builders: 1}\n"
        "scheduling: {policy: ljf, fair_share: [user]}\n"
    )
    scenario = load_scenario(over)
    assert [pool.name for pool in scenario.pools] == ["linux", "old", "more"]
    assert (scenario.pools[0].slots, scenario.pools[0].builders) == (8, 4)
    assert scenario.scheduling.policy == "ljf"
    assert scenario.scheduling.fair_share == ("user",)
    assert scenario.name == "small"


def test_paths_are_relative_to_the_file_that_names_them(write: Write, tmp_path: Path) -> None:
    """A base scenario in another folder still finds its trace, and the run that it learns from."""
    write(
        "pools: [{name: a, builders: 1}]\nworkload: [{trace: {path: t.dat}}]\n"
        "estimates: {learn_from: run}\n",
        "base/farm.yaml",
    )
    scenario = load_scenario(write("extends: base/farm.yaml\n"))
    assert scenario.estimates.learn_from == str((tmp_path / "base" / "run").resolve())
    assert scenario.workload[0].trace is not None
    assert scenario.workload[0].trace.path == str((tmp_path / "base" / "t.dat").resolve())


@pytest.mark.parametrize(
    ("override", "look", "value"),
    [
        ("scheduling.policy=ljf", "scheduling.policy", "ljf"),
        ("pools.linux.builders=7", "pools.0.builders", 7),
        ("pools.0.builders=7", "pools.0.builders", 7),
        ("pool.linux.builders=+3", "pools.0.builders", 7),
        ("pool.linux.builders=-1", "pools.0.builders", 3),
        ("pools.linux.boot_time=+1m", "pools.0.boot_time", 90.0),
        ("pools.linux.speed=2", "pools.0.speed", 2.0),
        ("pools.old.provisioner.max=+2", "pools.1.provisioner.max", 5),
        ("workload.0.arrivals.count=5", "workload.0.arrivals.count", 5),
        ("workload.people.count=5", "workload.0.arrivals.count", 5),
        ("workload.0.service_time.exponential.mean=2m",
         "workload.0.arrivals.service_time.exponential.mean", 120.0),
        ("workload.0.service_time=5s", "workload.0.arrivals.service_time.constant", 5.0),
        ("scheduling.fair_share=[image]", "scheduling.fair_share", ("image",)),
        ("phases.run=5d", "phases.run", 432000.0),
        ("seed=1e1", "seed", None),
        ("seed=-5", "seed", -5),
        ("live.speed=600", "live.speed", 600.0),
    ],
)  # fmt: skip
def test_overrides(write: Write, override: str, look: str, value: object) -> None:
    """--set reaches every key, pools and sources by name or index, and adds where asked."""
    if value is None:
        with pytest.raises(Exception, match=r"seed: found 10\.0; allowed: a whole number"):
            load_scenario(write(), [override])
        return
    found: object = load_scenario(write(), [override])
    for step in look.split("."):
        found = found[int(step)] if isinstance(found, tuple) else getattr(found, step)
    assert found == value


def test_yaml_is_read_by_the_rules_of_1_2(write: Write) -> None:
    """Names like `no` and times like 1:30 stay text, 1e3 is a number."""
    text = write().read_text().replace("count: 10", "count: 10\n      attributes: {user: [no, on]}")
    scenario = load_scenario(write(text.replace("boot_time: 30s", "boot_time: 1e3")))
    assert scenario.workload[0].options.attributes == {"user": {"no": 1.0, "on": 1.0}}
    assert scenario.pools[0].boot_time == 1000.0


def test_schema_knows_every_key() -> None:
    """`farm init --schema` describes what the reader accepts."""
    schema = scenario_schema()
    assert {"extends", "pools", "workload", "scheduling", "live"} <= set(schema["properties"])
    assert schema["required"] == ["pools", "workload"]
    known = {name for section in Section.__subclasses__() for name in section.model_fields}
    text = str(schema)
    assert not [name for name in known if f"'{name}'" not in text]


# --- The examples and the documentation of scenarios are correct ----------------------------------

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/reference/scenario.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)


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
    assert len(EXAMPLES) >= 2
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


def test_a_step_is_told_with_the_values_before_and_after() -> None:
    """``builders=-1`` means one fewer: without a word it reads like a number of builders."""
    steps: list[str] = []
    load_scenario(
        "quickstart",
        ["pools.linux.builders=-1", "pools.windows.builders=+2", "seed=7"],
        on_step=steps.append,
    )
    assert steps == ["pools.linux.builders: 12 → 11", "pools.windows.builders: 4 → 6"]


def test_a_section_is_built_when_a_file_has_its_key():
    """To build all kinds of sections takes longer than to play most files."""
    code = (
        "from farm.scenario import load_scenario\n"
        "from farm.scenario.section import Mapped, derived\n"
        "load_scenario('mm1')\n"
        "print(*(one.__name__ for one in derived(Mapped) if one.__pydantic_complete__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    built = set(done.stdout.split())
    assert {"Scenario", "Pool", "Arrivals"} <= built
    assert not built & {"Contention", "ProvisionerSettings", "Matrices", "Losses", "TwinErrors"}
