"""``contention: {calibration: FILE}``: the slowdown table that ``farm calibrate`` measured.

Reading a scenario puts the file's table in the place of its name, so what a run keeps of its
scenario needs the file no more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from farm.core.errors import InputError, ScenarioError
from farm.core.slowdown import slowdown_table
from farm.scenario.model import Scenario
from farm.scenario.pools import Pool

FORMAT = "farm-calibration"
VERSION = 1
MOST_BYTES = 1_000_000


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The reference job beside ``heavy`` heavy jobs: real seconds, one for each repeat."""

    heavy: int
    median_s: float
    spread_s: tuple[float, float]
    slowdown: float
    times_s: tuple[float, ...]


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What ``farm calibrate`` saves; a scenario needs ``slowdown`` only."""

    format: str = FORMAT
    version: int = VERSION
    #: by number of heavy jobs, never falling, from 1 on: what a scenario takes
    slowdown: tuple[float, ...]
    measured_at: str = ""
    machine: dict[str, Any] = {}
    reference: str = ""
    threads: int = 0
    cores: int = 0
    repeats: int = 0
    rates: dict[str, float] = {}
    measurements: tuple[Measurement, ...] = ()


def read_calibration(path: Path) -> Calibration:
    """Read a calibration file, YAML or JSON; raises ScenarioError that names it."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ScenarioError(f"{path}: found a file of more than {MOST_BYTES} bytes")
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        found = msgspec.convert(data, Calibration)
        if (found.format, found.version) != (FORMAT, VERSION):
            raise ScenarioError(
                f"{path}: found {found.format!r} version {found.version}; "
                f"allowed: {FORMAT!r} version {VERSION}"
            )
        slowdown_table(found.slowdown, f"{path}: slowdown")
    except FileNotFoundError:
        raise ScenarioError(f"{path}: no such file; farm calibrate -o writes one") from None
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: byte {error.start} is not UTF-8 text") from None
    except (yaml.YAMLError, RecursionError):
        raise ScenarioError(
            f"{path}: found no YAML or JSON; allowed: what farm calibrate -o writes"
        ) from None
    except msgspec.ValidationError as error:
        raise ScenarioError(f"{path}: not a calibration: {error}") from None
    except InputError as error:
        raise ScenarioError(str(error)) from None
    return found


def resolve_calibration_paths(document: Any, base_dir: Path) -> None:
    """Make the files' names independent of which scenario file a later merge puts them in."""
    pools = document.get("pools")
    for pool in pools if isinstance(pools, list) else ():
        law = pool.get("contention") if isinstance(pool, dict) else None
        name = law.get("calibration") if isinstance(law, dict) else None
        if isinstance(law, dict) and isinstance(name, str) and name:
            law["calibration"] = str((base_dir / name).resolve())


def with_calibrations_read(scenario: Scenario, base_dir: Path) -> Scenario:
    """Return the scenario with tables for files; raises ScenarioError that names the key."""
    pools = tuple(_with_table(pool, k, base_dir) for k, pool in enumerate(scenario.pools))
    return scenario if pools == scenario.pools else scenario.model_copy(update={"pools": pools})


def _with_table(pool: Pool, index: int, base_dir: Path) -> Pool:
    law = pool.contention
    if law is None or law.calibration is None:
        return pool
    try:
        table = read_calibration(base_dir / law.calibration).slowdown
    except ScenarioError as error:
        raise ScenarioError(f"pools.{index}.contention.calibration: {error}") from None
    measured = law.model_copy(update={"slowdown": table, "calibration": None})
    return pool.model_copy(update={"contention": measured})
