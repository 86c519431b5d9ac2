"""What records show of runners that come and go, and of the order of jobs."""

from __future__ import annotations

import msgspec
import pytest

from farm import simulate
from farm.records.bundle import Bundle
from farm_twin.importing import load_records
from farm_twin.sources import export_attempts
from farm_twin.tests.twins.test_twin import (
    COLUMNS,
    INSTANTS,
    is_as_checked,
    only,
    pool_of,
    recorded,
    waits_as_recorded,
)
from farm_twin.twins.candidates import candidates_of
from farm_twin.twins.orders import order_seen, weights_alike
from farm_twin.twins.pool_shapes import pools_of
from farm_twin.twins.twin import twin_of, write_twin

SIZED = {"boot_time": "80s", "idle_timeout": "10m"}


def dated(path):
    """Return the same, from records with instants of a calendar."""
    log = path.with_suffix(".json")
    export_attempts("gitlab", load_records([path], "csv", COLUMNS).attempts, log)
    [found] = pools_of(load_records([log]))
    return found


@pytest.mark.parametrize(
    ("algorithm", "options", "period"),
    [
        ("gitlab", {}, 60.0),
        ("keda", {"length": "waiting+running", "list_length": 1}, 15.0),
        pytest.param("jenkins", {}, 10.0, marks=pytest.mark.slow),
        pytest.param("jenkins", {"interval": "45s"}, 45.0, marks=pytest.mark.slow),
        ("taskcluster", {}, 0.0),
    ],
)
def test_runners_come_a_boot_time_after_a_plan(tmp_path, algorithm, options, period):
    """So the period of the plans is known, and the first plan for each boot time."""
    sizing = {"algorithm": algorithm, "max": 11, **options}
    shape, _ = dated(recorded(tmp_path, {**SIZED, "provisioner": sizing}))
    assert shape.rhythm is not None
    assert shape.rhythm.period == period
    ours = [c for c in candidates_of(shape) if c.algorithm == algorithm]
    one = ours[0]
    assert [c.free["boot_time"] for c in ours] == pytest.approx([80.0] * len(ours), rel=0.05)
    assert one.usual == ("interval" not in options)
    if period:
        late = one.moved({"boot_time": 1.1})
        planned = one.planned_at, late.planned_at
        boots = one.free["boot_time"], late.free["boot_time"]
        came = [(at + boot) % period for at, boot in zip(planned, boots, strict=True)]
        assert came == pytest.approx([shape.rhythm.at % period] * 2)


def test_an_idle_time_out_lies_between_what_was_outlived_and_what_was_not(tmp_path):
    """Runners that never leave outlive any."""
    sizing = {"algorithm": "taskcluster", "max": 11, "min": 2}
    shape, _ = pool_of(recorded(tmp_path, {**SIZED, "provisioner": sizing}))
    least, most = shape.idle_times.bounds(2)
    assert 540.0 < least <= 600.0 <= most < 900.0
    assert shape.idle_times.bounds(0)[0] > least


SOME = {"algorithm": "gitlab", "max": 9}
RARELY_FULL = {"algorithm": "target-wait", "max": 30, "objective": "6m"}
OVERLOADED = {"algorithm": "taskcluster", "max": 5}


@pytest.mark.parametrize(
    ("sizing", "order"),
    [
        (SOME, {"policy": "ljf"}),
        (SOME, {"fair_share": ["team"], "weights": {"infra": 3}}),
        (SOME, {}),
        (RARELY_FULL, {"policy": "sjf"}),
        # web submits twice as much: with twice the share its jobs start much as by arrival
        (OVERLOADED, {"fair_share": ["team"], "weights": {"web": 2}}),
    ],
)
def test_an_order_shows_by_what_was_chosen(tmp_path, sizing, order):
    """Whatever sizes the pool: also if no candidate waits as it does."""
    shape, load = pool_of(recorded(tmp_path, {**SIZED, "provisioner": sizing}, **order))
    assert order_seen(load, shape.pickup_time) == order


def test_an_order_by_any_column_is_one_that_a_scenario_has(tmp_path):
    """A column of another name ended the command, and so did one of levels."""
    weights = {"infra": 3}
    shape, load = pool_of(
        recorded(tmp_path, {**SIZED, "provisioner": SOME}, fair_share=["team"], weights=weights)
    )
    attempts = [
        msgspec.structs.replace(one, attributes={"squad": one.attributes["team"], "level": "1"})
        for one in load.attempts
    ]
    seen = order_seen(msgspec.structs.replace(load, attempts=attempts), shape.pickup_time)
    assert seen == {"fair_share": ["attribute:squad"], "weights": weights}


def test_weights_between_which_few_slots_cannot_tell(tmp_path):
    """With three slots, of which two are one team's and then one, 2 and 3 to 1 are the same."""
    order = {"fair_share": ["team"], "weights": {"infra": 3}}
    shape, load = pool_of(recorded(tmp_path, {"builders": 3}, **order))
    seen = order_seen(load, shape.pickup_time)
    assert seen is not None
    [line] = weights_alike(load, seen, shape.pickup_time)
    assert line.startswith("infra may have any weight from 1.25 to 3: ")


@pytest.mark.slow
def test_levels_that_a_column_has(tmp_path):
    """Jobs of a higher level go first if a column says so; without it the order is hidden."""
    levels = {"unit": "0", "release": "5"}
    times = {
        "poisson": {"rate": "32/h"},
        "count": 600,
        "service_time": {"exponential": {"mean": "5m"}},
    }
    jobs = [{"arrivals": {**times, "kind": kind, "level": int(n)}} for kind, n in levels.items()]
    truth = {"pools": [{"name": "hidden", "builders": 6}], "workload": jobs}
    simulate(truth, out=tmp_path / "truth")
    columns = {**{name: f"{name}_at_s" for name in INSTANTS}, "runner": "builder", "kind": "kind"}
    hidden = load_records([tmp_path / "truth" / "jobs.csv"], "csv", columns)
    assert [one.kind for one in only(twin_of(hidden, "records")).flags] == ["hidden order"]
    attempts = [
        msgspec.structs.replace(one, attributes={"level": levels[one.kind]})
        for one in hidden.attempts
    ]
    told = msgspec.structs.replace(hidden, attempts=attempts)
    one = only(made := write_twin(told, None, tmp_path / "mine.yaml"))
    assert one.flags == []
    waits_as_recorded(one, 0.001, 0.001)
    is_as_checked(tmp_path / "mine.yaml", made)


@pytest.mark.parametrize("hosted", [False, True])
def test_ends_told_a_second_late_make_no_more_runners(tmp_path, hosted):
    """Of runners of one job each there were up to twice as many, minutes apart."""
    path = recorded(tmp_path, {"builders": 5})
    bundle = load_records([path], "csv", COLUMNS)
    attempts = [
        msgspec.structs.replace(
            one, started_at=one.started_at // 1, finished_at=one.finished_at // 1 + n % 2,
            runner=f"pod-{n}", hosted=hosted,
        )
        for n, one in enumerate(bundle.attempts)
    ]  # fmt: skip
    manifest = msgspec.structs.replace(bundle.manifest, resolution_time=1.0)
    [(shape, _)] = pools_of(Bundle(manifest, attempts))
    assert (shape.ephemeral, shape.runners, shape.turnaround) == (True, 5, 0.0)
