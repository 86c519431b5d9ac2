"""Loading a scenario: ``extends``, ``--set``, checks, messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from farm.core.errors import ScenarioError, nearest
from farm.scenario.checks import check_workload
from farm.scenario.file.document import parse_document, read_document
from farm.scenario.file.line_marks import MarkedDict, mark_of, marked, merge
from farm.scenario.file.overrides import apply_change, apply_override
from farm.scenario.file.problems import describe
from farm.scenario.model import Scenario, StandingFarm
from farm.scenario.packaged_examples import find_scenario
from farm.scenario.quantities import RUN_NAME


def load_scenario(
    source: str | Path | Mapping[str, object] | Scenario,
    sets: Iterable[str] = (),
    *,
    changes: Mapping[str, object] | None = None,
    kind: type[Scenario] = Scenario,
    on_step: Callable[[str], None] = lambda _: None,
) -> Scenario:
    """Return the scenario in a YAML file, with overrides applied, named after the file by default.

    Files named in it are relative to the file that names them, those in overrides to the working
    directory. Raises ScenarioError with one
    message: file and line, dotted key, what was found, what is allowed.

    Args:
        source: the file, or the name of a packaged example; or the content of a file as a mapping;
            or a scenario, to be changed.
        sets: overrides as for ``--set``: ``key.path=value``.
        changes: further overrides, as values by ``key.path``.
        kind: what it is to be without a workload.
        on_step: told of each override that is a step from the present value: ``key: old → new``.
    """
    name = "scenario"
    if isinstance(source, Scenario):
        document, name = parse_document(source.to_yaml(), source.name), source.name
    elif isinstance(source, Mapping):
        document = marked(source, name)
    else:
        path = find_scenario(source)
        document, name = _extended(path, ()), str(path)
        if re.match(RUN_NAME, path.stem):
            document.setdefault("name", path.stem)
    for text in sets:
        change = apply_override(document, text)
        if change is not None:
            on_step(change)
    for key, value in (changes or {}).items():
        apply_change(document, key, value)
    return parse_scenario(document, source=name, kind=kind)


def parse_scenario(
    data: Mapping[str, object],
    base_dir: str | Path = ".",
    source: str = "scenario",
    kind: type[Scenario] = Scenario,
) -> Scenario:
    """Return the scenario described by plain data; trace paths are relative to ``base_dir``.

    Raises ScenarioError as ``load_scenario`` does, with ``source`` instead of the file.
    """
    if not isinstance(data, Mapping):
        raise ScenarioError(f"{source}: found {data!r:.60}; allowed: a mapping of keys to values")
    try:
        data = data if isinstance(data, MarkedDict) else marked(data, source)
        _resolve_paths(data, Path(base_dir))
        scenario = (Scenario if data.get("workload") else kind).model_validate(data)
    except ValidationError as error:
        raise ScenarioError(describe(error, data, source)) from None
    except RecursionError:
        raise ScenarioError(f"{source}: values are nested too deeply") from None
    try:
        if any(pool.contention and pool.contention.calibration for pool in scenario.pools):
            from farm.scenario.calibration_keys import (  # noqa: PLC0415 - few pools have measurements
                with_calibrations_read,
            )

            scenario = with_calibrations_read(scenario)
        check_workload(scenario)
    except ScenarioError as error:
        path = [int(step) if step.isdigit() else step for step in error.key.split(".")]
        raise ScenarioError(f"{mark_of(data, path) or source}: {error}") from None
    return scenario


def _extended(path: Path, below: tuple[Path, ...]) -> MarkedDict:
    """Return the document merged over the ones that it extends."""
    document = read_document(path)
    _refuse_other_files(document, path)
    _resolve_paths(document, path.parent)
    base_name = document.pop("extends", None)
    if base_name is None:
        return document
    mark = document.marks["extends"]
    if not isinstance(base_name, str) or not base_name or "\0" in base_name:
        raise ScenarioError(f"{mark}: extends: found {base_name!r:.60}; allowed: a file name")
    base = path.parent / base_name
    chain = (*below, path.resolve())
    if base.resolve() in chain:
        names = " -> ".join(one.name for one in (*chain, base))
        raise ScenarioError(f"{mark}: extends: found a cycle: {names}")
    if not base.is_file():
        raise ScenarioError(f"{mark}: extends: no such file: {base}")
    return merge(_extended(base, chain), document)


def _refuse_other_files(document: MarkedDict, path: Path) -> None:
    """Raise ScenarioError for a file that has no key of a scenario, nor anything like one.

    Naming every key as unknown would print what is in a file that was named by mistake.
    """
    keys = [*StandingFarm.model_fields, "extends"]
    if document and not any(nearest(str(key), keys) for key in document):
        allowed = ", ".join(StandingFarm.model_fields)
        raise ScenarioError(f"{path}: is no scenario: it has none of the keys {allowed}")


def _resolve_paths(document: MarkedDict, base_dir: Path) -> None:
    """Make paths absolute: they are relative to the file that contains them."""
    for section, key in _sections_with_paths(document):
        path = section.get(key) if isinstance(section, dict) else None
        if isinstance(path, str) and path and "\0" not in path:  # else its check refuses it
            section[key] = str((base_dir / path).resolve())


def _sections_with_paths(document: MarkedDict) -> Iterator[tuple[Any, str]]:
    yield document.get("estimates"), "learn_from"
    for name, part, key in (("workload", "trace", "path"), ("pools", "contention", "calibration")):
        items = document.get(name)
        for item in items if isinstance(items, list) else ():
            yield item.get(part) if isinstance(item, dict) else None, key
