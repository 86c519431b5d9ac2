"""Scenario files that are wrong: one clear message each."""

# ruff: noqa: ISC004 - long messages in a table

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from farm.core.errors import FarmError, ScenarioError
from farm.scenario import load_scenario, parse_scenario
from farm.scenario.file.document import parse_document
from farm.scenario.file.overrides import apply_override
from tests.fixtures.examples import examples

from .conftest import SMALL

Write = Callable[..., Path]

CHANGES = [
    # what is replaced, by what, and the message after the file's name
    ("slots: 2", "slots: 0", ":5: pools.linux.slots: found 0: a pool with no slots can run "
     "nothing; allowed: 1 or more"),
    ("builders: 4", "builders: 0", ":6: pools.linux.builders: found 0: a pool with no slots"),
    ("slots: 2", "slots: 1.5", ":5: pools.linux.slots: found 1.5; allowed: a whole number"),
    ("slots: 2", "slots: true", ":5: pools.linux.slots: found true; allowed: a whole number"),
    ("slots: 2", "slot: 2", ":5: pools.linux.slot: unknown key; did you mean slots? allowed: name"),
    ("policy: sjf", "polcy: sjf", ":19: scheduling.polcy: unknown key; did you mean policy?"),
    ("policy: sjf", "xyzzy: sjf", ":19: scheduling.xyzzy: unknown key; allowed: policy"),
    ("policy: sjf", "policy: 3", ":19: scheduling.policy: found 3; allowed: text"),
    ("policy: sjf", "aging: square", ":19: scheduling.aging: found 'square'; allowed: linear, "
     "matrix"),
    ("policy: sjf", "compatibility: slurm", ":19: scheduling.compatibility: found 'slurm'; "
     "allowed: buildbarn, taskcluster"),
    ("name: small", "live: {heartbeat: 3s, lost_after: 5s}", ":1: live: found lost_after 5 with "
     "heartbeat 3; allowed: two heartbeats or more"),
    ("policy: sjf", "stickiness: [1, 2, 3]", ":18: scheduling: found 3 stickiness limits for 2"),
    ("fair_share: [team, user]", "weights: {web: 2}", ":18: scheduling: found weights without "
     "fair_share"),
    ("policy: sjf", "retries: -1", ":19: scheduling.retries: found -1; allowed: 0 or more"),
    ("boot_time: 30s", "boot_time: 5 parsecs", ":7: pools.linux.boot_time: found '5 parsecs'; "
     "allowed: seconds, or numbers with units"),
    ("boot_time: 30s", "boot_time: 0.5/s", ":7: pools.linux.boot_time: found '0.5/s'"),
    ("boot_time: 30s", "boot_time: -3", ":7: pools.linux.boot_time: found -3; allowed: seconds"),
    ("boot_time: 30s", "uses: 0", ":7: pools.linux.uses: found 0; allowed: 1 or more"),
    ("boot_time: 30s", "uses: 1.5", ":7: pools.linux.uses: found 1.5; allowed: a whole number"),
    ("boot_time: 30s", "speed: .nan", ":7: pools.linux.speed: found nan; allowed: a finite number"),
    ("boot_time: 30s", "speed: .inf", ":7: pools.linux.speed: found inf; allowed: a finite number"),
    ("boot_time: 30s", "speed: 0", ":7: pools.linux.speed: found 0; allowed: more than 0"),
    ("boot_time: 30s", "failure_rate: 2", ":7: pools.linux.failure_rate: found 2; allowed: 1 or"),
    ("boot_time: 30s", "provisioner: {algorithm: a, max: 1}", ":3: pools.linux: found builders and "
     "provisioner together"),
    ("builders: 4", "builders: 4\n    losses: {rate: 1e9/s}", ":7: pools.linux.losses.rate: "
     "found 1000000000/s; allowed: up to 1/s"),
    ("builders: 4", "labels: {}", ":3: pools.linux: found none of them; allowed: exactly one of "
     "builders, provisioner"),
    ("max: 3", "max: 3, min: 5", ":10: pools.old.provisioner: found max 3 below min 5"),
    ("name: old", "name: linux", ":2: pools: found two pools named linux; allowed: distinct names"),
    ("name: old", "name: a b", ":8: pools.a b.name: found 'a b'; allowed: letters, digits"),
    ("name: old\n    ", "", ":8: pools.1.name: this key is required"),
    ("{processors: [i386], ", "{processors: [i386], processor: x, ", ":9: pools.old.platform: "
     "found processor and processors together"),
    ("0.5/s", "5m", ":14: workload.0.arrivals.poisson.rate: found '5m'; allowed: a number per"),
    ("0.5/s", "0", ":14: workload.0.arrivals.poisson.rate: found 0; allowed: more than 0"),
    ("count: 10", "every: 3s", ":12: workload.0.arrivals: found poisson and every together"),
    ("count: 10", "start: 1", ":12: workload.0.arrivals: found a generator without an end; "
     "allowed: its count or duration"),
    ("count: 10", "count: 0", ":15: workload.0.arrivals.count: found 0; allowed: 1 or more"),
    ("count: 10", "count: 9\n      daily_cycle: [1, 2]", ":16: workload.0.arrivals.daily_cycle: "
     "found 2 factors"),
    ("count: 10", "count: 9\n      weekly_cycle: [1, 2]", ":16: workload.0.arrivals.weekly_cycle: "
     "found 2 factors with sum 3; allowed: 168"),
    ("count: 10", "count: 9\n      attribute_sets: [{weight: 0, attributes: {}}]", ":16: "
     "workload.0.arrivals.attribute_sets: found no set with a weight above 0"),
    ("count: 10", "count: 9\n      heavy: {longest: 0.2}", ":12: workload.0.arrivals: found "
     "heavy.longest for jobs that arrive one by one"),
    ("count: 10", "count: 9\n      level: {a: 1}", ":16: workload.0.arrivals.level: found 'a'; "
     "allowed: a whole number"),
    ("count: 10", "count: 9\n      attributes: {user: {a: -1}}",
     ":16: workload.0.arrivals.attributes.user.a: found -1; allowed: 0 or more"),
    ("count: 10", "count: 9\n      mode: stres", ":16: workload.0.arrivals.mode: found 'stres'; "
     "allowed: timed, stress, memory, mixed"),
    ("count: 10", "count: 9\n      threads: 0", ":16: workload.0.arrivals.threads: found 0; "
     "allowed: a whole number, from 1 to 256"),
    ("exponential: {mean: 1m}", "exponental: {mean: 1m}", ":17: workload.0.arrivals.service_time."
     "exponental: unknown key; did you mean exponential?"),
    ("exponential: {mean: 1m}", "exponential: {mean: 0}", ":17: workload.0.arrivals.service_time."
     "exponential.mean: found 0; allowed: more than 0"),
    ("exponential: {mean: 1m}", "pareto: {alpha: 1}", ":17: workload.0.arrivals.service_time."
     "pareto.scale: this key is required"),
    ("exponential: {mean: 1m}", "uniform: {min: 2, max: 1}", ":17: workload.0.arrivals."
     "service_time.uniform: found max 1 below min 2"),
    ("exponential: {mean: 1m}", "empirical: {quantiles: [3, 2]}", ":17: workload.0.arrivals."
     "service_time.empirical: found quantile 1 (2) below the one before it (3)"),
    ("exponential: {mean: 1m}", "lognormal: {mean: 2}", ":17: workload.0.arrivals.service_time."
     "lognormal: found mean; allowed: median and sigma, or mean and std"),
    ("exponential: {mean: 1m}", "by_kind: {test: 1}", ":12: workload.0.arrivals: found no "
     "service_time.by_kind for job"),
    ("exponential: {mean: 1m}", "", ":17: workload.0.arrivals.service_time: found none of them; "
     "allowed: exactly one of constant"),
    ("{processor: amd64}\n      service", "{processor: sparc}\n      service", ":12: workload.0."
     "arrivals: found jobs for sparc/virtual that no pool could ever run; pools: linux "
     "(amd64/virtual), old (i386/native); allowed: a platform of theirs, or allow_unrunnable"),
    ("      platform: {processor: amd64}\n", "", ":12: workload.0.arrivals.platform: this key is "
     "required where pools differ; pools: linux (amd64/virtual), old (i386/native)"),
    ("name: small", "name: [", ":3: not valid YAML: "),
    ("name: small", "name: small\nname: big", ":2: key 'name' was given at "),
    ("name: small", "name: !!python/none x", ":1: found the tag tag:yaml.org,2002:python/none"),
    ("name: small", "name: &a [*a]", ":1: a value that contains itself"),
    ("name: small", "? [a]\n: b", ":1: found a list or mapping as a key"),
    ("name: small", "name: small\nversion: 2", ":2: version: found 2; allowed: 1"),
    ("name: small", "extends: no.yaml", ":1: extends: no such file: "),
    ("name: small", "extends: farm.yaml", ":1: extends: found a cycle: farm.yaml -> farm.yaml"),
    ("fair_share: [team, user]", "fair_share: [colour, '']", ":20: scheduling."
     "fair_share.1: found ''; allowed: some text"),
    ("count: 10", "count: 9\n      level: -2147483649", ":16: workload.0.arrivals.level: "
     "found -2147483649; allowed: a whole number, from -2147483648 to 2147483647"),
    ("count: 10", "count: 9\n      priority: [2147483648, 1]", ":16: workload.0.arrivals."
     "priority: found 2147483648; allowed: a whole number, from -2147483648 to 2147483647"),
    ("exponential: {mean: 1m}", "pareto: {alpha: 0.0005, scale: 1}", ":17: workload.0.arrivals."
     "service_time: found pareto with draws larger than any number; allowed: a shorter"),
    ("exponential: {mean: 1m}", "lognormal: {median: 1, sigma: 10000}", ":17: workload.0.arrivals."
     "service_time: found lognormal with draws larger than any number; allowed: a shorter"),
    ("exponential: {mean: 1m}", "lognormal: {mean: 1, std: 1.0e+200}", ":17: workload.0.arrivals."
     "service_time.lognormal: found std 1e+200 for mean 1; allowed: up to 1e150 times"),
    ("boot_time: 30s", "boot_time: .inf", ":7: pools.linux.boot_time: found inf; allowed: seconds"),
    ("name: small", "extends: 3", ":1: extends: found 3; allowed: a file name"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), CHANGES, ids=[change[1] for change in CHANGES])
def test_one_message_says_where_what_and_what_is_allowed(
    write: Write, old: str, new: str, message: str
) -> None:
    """Each mistake names file, line and key, what was found and what is allowed."""
    assert old in SMALL
    path = write(SMALL.replace(old, new, 1))
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": found nothing; allowed: a mapping of keys to values"),
        ("- a", ": found a list; allowed: a mapping"),
        ("3", ": found a number; allowed: a mapping"),
        ("{}", ": pools: this key is required\n"),
        ("pools: []\nworkload: []", ":1: pools: found no pools; allowed: at least one"),
        ("pools: [{name: a, builders: 1}]\nworkload: []", ":2: workload: found an empty workload"),
        ("pools: [{name: a, builders: 1}]\nworkload: [{}]", ":2: workload.0: found none of them"),
        ("a: \x07", ": not valid YAML"),
        ("[" * 5000, ": values are nested too deeply"),
        ("a: 1\n---\nb: 1", ":2: not valid YAML: but found another document"),
    ],
)
def test_whole_files(write: Write, text: str, message: str) -> None:
    """Files that are no scenarios at all."""
    path = write(text)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """No such file, a folder, a file that is not text."""
    with pytest.raises(ScenarioError, match=r"no\.yaml: no such file"):
        load_scenario(tmp_path / "no.yaml")
    with pytest.raises(
        ScenarioError, match=r"cannot be read: is a folder; .*of a bundle farm twin"
    ):
        load_scenario(tmp_path)
    (tmp_path / "scenario.yaml").write_text("")
    with pytest.raises(ScenarioError, match=r"that of this run is .*scenario\.yaml"):
        load_scenario(tmp_path)
    with pytest.raises(ScenarioError, match=r"did you mean .*scenario\.yaml\?"):
        load_scenario(tmp_path / "scenario.yml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match=r"b\.yaml: byte 0 is not UTF-8 text"):
        load_scenario(tmp_path / "b.yaml")
    (tmp_path / "jobs.csv").write_text("id,submitted_at_s\na,0\n")
    with pytest.raises(ScenarioError, match=r"found a text; .*: farm init .*jobs\.csv"):
        load_scenario(tmp_path / "jobs.csv")


def test_a_file_that_is_no_scenario_is_not_shown(write: Write) -> None:
    """A file that was named by mistake may hold secrets; a misspelt scenario is still explained."""
    secrets = write("root:*:20228:\ndaemon:secret:20228:\n")
    with pytest.raises(ScenarioError) as refused:
        load_scenario(secrets)
    assert "is no scenario: it has none of the keys version, name" in str(refused.value)
    assert "secret" not in str(refused.value)

    with pytest.raises(ScenarioError, match="pool: unknown key; did you mean pools"):
        load_scenario(write("pool: []\nroot: 1\n"))


def test_aliases_cannot_grow_without_bound(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file of aliases of aliases is refused instead of filling the memory."""
    monkeypatch.setattr("farm.scenario.file.document.MAX_VALUES", 10_000)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(ScenarioError, match="more than 10000 values"):
        load_scenario(write("\n".join(lines)))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("policy", "--set policy: allowed: key.path=value, as scheduling.policy=sjf"),
        ("a..b=1", "--set a..b=1: allowed: key.path=value"),
        ("pools.linx.slots=3", "--set pools.linx.slots=3: found linx; did you mean linux? "),
        ("pools.2.slots=3", "--set pools.2.slots=3: found 2; allowed: linux, old, or an index (0 "),
        ("name.first=x", "--set name.first=x: name is 'small': it has no key first"),
        ("pools.linux.speed=+1", "--set pools.linux.speed=+1: there is no number to add to"),
        ("pools.linux.name=+1", "--set pools.linux.name=+1: cannot add +1 to 'linux'"),
        ("pools.linux.slots=[", "--set pools.linux.slots=[: not valid YAML: "),
        ("pools.linux.slots=0", "--set pools.linux.slots=0: pools.linux.slots: found 0: a pool wi"),
        ("pools.linux.slots=-9", "--set pools.linux.slots=-9: pools.linux.slots: found -7; allo"),
        ("schedulin.policy=x", "--set schedulin.policy=x: schedulin: unknown key; did you mean sc"),
        ("polcy=x", "--set polcy=x: found polcy; did you mean policy?"),
        ("balancr=x", "--set balancr=x: balancr: unknown key; did you mean scheduling.balancer?"),
        ("scheduling.polcy=x", "--set scheduling.polcy=x: scheduling.polcy: unknown key; did you"),
    ],
)
def test_overrides_that_cannot_be(write: Write, override: str, message: str) -> None:
    """A wrong --set is blamed on the --set, not on the file."""
    with pytest.raises(ScenarioError, match=f"^{re.escape(message)}"):
        load_scenario(write(), [override])


def test_unrunnable_jobs_can_be_allowed(write: Write) -> None:
    """Users may want to see jobs wait forever."""
    sets = ["workload.0.platform={processor: sparc}", "allow_unrunnable=true"]
    assert load_scenario(write(), sets).allow_unrunnable


@given(st.text() | st.text(alphabet="{}[]:,&*!|>'\"%@-?# \n\tab01.~<=+"))
@examples(300)
def test_any_text_is_a_scenario_or_a_clear_error(text: str) -> None:
    """No text makes the reader raise anything but the project's own errors."""
    with suppress(FarmError):
        parse_scenario(parse_document(text, "text"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
PATHS = [
    "pools", "pools.linux", "pools.0.slots", "pools.0.platform", "pools.0.contention.memory",
    "pools.1.provisioner", "workload", "workload.0", "workload.0.arrivals", "workload.0.count",
    "workload.0.service_time", "workload.0.platform", "workload.0.level", "workload.0.attributes",
    "workload.0.poisson.rate", "workload.0.fails", "workload.0.heavy", "workload.0.declared",
    "scheduling", "scheduling.stickiness", "phases", "live", "seed", "name", "version",
]  # fmt: skip


@given(st.sampled_from(PATHS), VALUES)
@examples(500, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_anywhere_is_accepted_or_refused_clearly(path: str, value: object) -> None:
    """Whatever stands at a key, the answer is a scenario or one message."""
    document = parse_document(SMALL, "text")
    place: object = document
    *above, last = path.replace("workload.0.", "workload.0.arrivals.").split(".")
    for step in above:
        if isinstance(place, list):
            place = place[int(step) if step.isdigit() else 0]
        else:
            place = place.setdefault(step, {})  # type: ignore[attr-defined]
    key = (int(last) if last.isdigit() else 0) if isinstance(place, list) else last
    place[key] = value  # type: ignore[index]
    with suppress(FarmError):
        parse_scenario(document)


@given(st.text(alphabet="pools.linuxworad0123=+-[]{}: sm", max_size=40))
@examples(300)
def test_any_override_is_applied_or_refused_clearly(text: str) -> None:
    """No --set makes the reader raise anything but the project's own errors."""
    document = parse_document(SMALL, "text")
    with suppress(FarmError):
        apply_override(document, text)
        parse_scenario(document)


def test_all_problems_are_listed(write: Write) -> None:
    """One line each, so that a file can be corrected in one pass; unknown keys hide nothing."""
    text = SMALL.replace("slots: 2", "slots: 1.5\n    slot: 2").replace("policy: sjf", "policy: 3")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(write(f"nam: x\n{text}"))
    listed = str(caught.value).splitlines()
    assert len(listed) == 4
    for line, part in zip(
        listed,
        (
            "nam: unknown key; did you mean name?",
            "pools.linux.slot: unknown key; did you mean slots?",
            "pools.linux.slots: found 1.5",
            "scheduling.policy: found 3",
        ),
        strict=True,
    ):
        assert part in line
