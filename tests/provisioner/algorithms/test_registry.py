"""From a scenario's options to an algorithm, and mistakes in between."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import provisioner.algorithms.registry as registry_module
from farm.core.errors import InputError
from farm.core.pools.algorithm import PoolSnapshot, restore_memory, save_memory
from farm.units import parse_time
from provisioner.algorithms.keda import Keda
from provisioner.algorithms.manual import Manual
from provisioner.algorithms.registry import ALGORITHMS, make_algorithm
from provisioner.algorithms.sizing import Memoryless, Seconds
from provisioner.algorithms.taskcluster import Taskcluster


def test_options_become_the_algorithms_fields() -> None:
    """Protects the conversion: defaults stay, times may be written with units."""
    given = {"min": 1, "max": 9, "scaling_ratio": 1, "interval": "1m30s"}
    made = make_algorithm("taskcluster", given, parse_time=parse_time)
    assert made == Taskcluster(min=1, max=9, scaling_ratio=1.0, interval=90.0)
    assert make_algorithm("keda", {"cooldown": "5m"}, parse_time=parse_time) == Keda()


@pytest.mark.parametrize("hours", [{0: 5, 8: 40}, {"0": 5, "8": 40}])
def test_hours_may_come_from_json(hours: dict[Any, int]) -> None:
    """Protects mappings whose keys JSON turned into text."""
    assert make_algorithm("manual", {"capacity": hours}) == Manual(capacity={0: 5, 8: 40})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("taskcluter", {}, r"algorithm: found 'taskcluter'; did you mean taskcluster\?"),
        ("x", {}, "algorithm: .*allowed: fixed, manual, taskcluster, keda, target-wait, "),
        ("keda", {"listlength": 5}, r"listlength: keda has no .* did you mean list_length"),
        ("taskcluster", {}, "max: missing; taskcluster needs it"),
        ("fixed", {}, "builders: missing"),
        ("target-wait", {"max": 4}, "objective: missing"),
        ("keda", {"min": 5, "max": 1}, "max: found 1, below min 5"),
        ("keda", {"min": -1}, "min: found -1; expected int >= 0"),
        ("keda", {"min": 1.5}, r"min: found 1\.5; expected int"),
        ("keda", {"min": True}, "min: found True; expected int"),
        ("keda", {"max": "many"}, "max: found 'many'; expected int, got str"),
        ("keda", {"cooldown": -1}, "cooldown: found -1"),
        ("keda", {"cooldown": float("nan")}, "cooldown: found nan"),
        ("keda", {"cooldown": "soon"}, "cooldown: found 'soon'; allowed: seconds"),
        ("keda", {"interval": 0}, "interval: found 0; expected a time above 0"),
        ("keda", {"list_length": 0}, "list_length: found 0; expected float > 0"),
        ("keda", {"length": "running"}, "length: found 'running'; invalid enum value"),
        ("taskcluster", {"max": 1, "scaling_ratio": 2}, "scaling_ratio: found 2"),
        ("manual", {"capacity": {8: -1}}, r"capacity: found \{8: -1\}"),
        ("manual", {"capacity": {"eight": 1}}, r"capacity: found \{'eight': 1\}"),
        ("manual", {"capacity": {25: 1}}, "capacity: found hour 25; expected 0 to 23"),
        ("target-wait", {"max": 1, "objective": 0}, "objective: found 0"),
    ],
)
def test_a_mistake_is_one_message(name: str, options: dict[str, Any], message: str) -> None:
    """Protects users: the option, what was found, what is allowed."""
    with pytest.raises(InputError, match=rf"provisioner\.{message}"):
        make_algorithm(name, options, parse_time=parse_time)


def test_an_algorithm_of_the_user() -> None:
    """Protects extension: a user's class gets the same checks of its options."""

    class Odd(Memoryless, frozen=True, kw_only=True):
        max: int = 9
        interval: Seconds = 1.0

    assert make_algorithm(Odd, {"min": 3}) == Odd(min=3)
    with pytest.raises(InputError, match=r"Odd has no such option"):
        make_algorithm(Odd, {"mim": 3})


def test_every_algorithm_has_a_description_and_documented_options() -> None:
    """Protects documentation: a formula or rule in each docstring, in docs/, and no two alike."""
    page = (Path(__file__).parents[3] / "docs/reference/provisioning-algorithms.md").read_text()
    for name, kind in ALGORITHMS.items():
        assert re.search(r"\S", kind.__doc__ or ""), name
        assert {"min", "max", "interval"} <= set(kind.__struct_fields__)
        assert f"| [{name}](" in page
        for option in kind.__struct_fields__:
            assert re.search(rf"`{option}[`:]", page), f"{name}.{option} is not documented"


def test_memory_of_another_algorithm_is_not_restored() -> None:
    """Protects a restart with another algorithm: it begins afresh."""
    keda = Keda()
    _, memory = keda.plan(PoolSnapshot(pool="p", at=5.0, idle=3), keda.start())
    assert restore_memory(keda, save_memory(memory)) == memory
    assert restore_memory(keda, None) == keda.start()
    assert restore_memory(keda, b'{"replicas": "three"}') == keda.start()
    assert restore_memory(keda, b"not JSON") == keda.start()


def test_the_registry_has_one_file_an_algorithm() -> None:
    """Protects the convention: one algorithm a file beside the registry."""
    folder = Path(registry_module.__file__).parent
    files = {path.stem.replace("_", "-") for path in folder.glob("*.py")}
    assert files - {"--init--", "registry", "sizing"} == set(ALGORITHMS)
