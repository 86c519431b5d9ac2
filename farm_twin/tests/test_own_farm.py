"""``farm.doctor``, ``farm.twin`` and ``farm.plan``: the commands' answers as values."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import farm
from farm.core.errors import InputError

TINY = {"replications": 2, "workload__0__count": 300}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jobs of a farm that is short of builders."""
    return farm.simulate("quickstart").save(tmp_path_factory.mktemp("run") / "run") / "jobs.csv"


def test_the_doctor_answers_in_values(records: Path) -> None:
    """Its verdicts were for a terminal, or to be parsed from JSON."""
    found = farm.doctor(records, objective="5m")
    assert isinstance(found, farm.Diagnosis)
    assert {one.kind for one in found.verdicts} == {"short of servers"}
    assert len(found.figures.platforms) == len(found.verdicts) == 2
    assert "short of servers" in found._repr_html_()
    assert {one.kind for one in farm.doctor([records], objective=36_000).verdicts} == {"fine"}


def test_a_twin_is_written_and_simulated(records: Path, tmp_path: Path) -> None:
    """The scenario is there, to be changed, if a pool of it is believable."""
    made = farm.twin(records, tmp_path / "mine.yaml")
    assert isinstance(made, farm.Twin)
    assert made.believable
    assert made.sentence.startswith("this farm waits as yours did")
    assert len(farm.simulate(tmp_path / "mine.yaml").jobs) == 655


def test_a_plan_has_its_answer_and_all_that_was_tried() -> None:
    """Also where settings are chosen from, and where none meets the objective."""
    found = farm.plan("mmc", "mean(waiting_time) < 2s", **TINY)
    assert isinstance(found, farm.SizePlan)
    assert found.best in found.points
    chosen = farm.plan("mmc", "mean(waiting_time) < 2s", {"pools.single.builders": [9, 8]}, **TINY)
    assert chosen.best is not None
    assert chosen.best.sizes == ("8",)
    assert farm.plan("mmc", "max(response_time) < 1ms", most=6, **TINY).best is None


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: farm.doctor([]), "records: found none"),
        (lambda: farm.doctor("nowhere.json"), "nowhere.json: "),
        (lambda: farm.doctor("x", objective="soon"), "objective: found 'soon'"),
        (lambda: farm.doctor("x", objective=0), "objective: found 0; allowed: 0.001s or more"),
        (lambda: farm.doctor("x", zone="Nowhere"), "zone: found 'Nowhere'; allowed: UTC"),
        (lambda: farm.plan("mmc", "p95(waiting_time) < 1m", confidence=1), "confidence: found 1"),
        (lambda: farm.plan("mmc", "p95(waiting_time) < 1m", replications=0), "replications: "),
    ],
)
def test_mistakes_are_one_message(call, said: str) -> None:
    """As at the command line."""
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value).startswith(said)


def test_no_package_stands_in_the_place_of_a_function() -> None:
    """A module of the name of a function takes its place when something imports it."""
    code = (
        "import farm, sys; assert len([m for m in sys.modules if m.startswith('farm')]) < 3\n"
        "import pkgutil; print(*{m.name for m in pkgutil.iter_modules(farm.__path__)}"
        " & set(farm.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("\n", "")
