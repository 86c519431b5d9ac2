"""Conformance cases as data: every test here runs once per case found in JSON files.

How a test gets its cases::

    @pytest.mark.conformance("launchpad", "score_cases")
    def test_score(case): ...                   # once per entry of the list "score_cases"

    @pytest.mark.conformance("boinc", "cases", group="averages")
    def test_average(case, document): ...       # only entries whose "group" is "averages"

    @pytest.mark.conformance("thesis")
    def test_tables(document): ...              # once per file

The marker's first argument is the system, its second the key of a list in the file (dots go
deeper: ``"tables.event_none"``; a mapping gives one case per entry, as ``{"name": key, "value":
value}``); keyword arguments filter the entries by equality. ``case`` is one entry, ``document``
the whole parsed file that it stands in, ``path`` that file. Ids are the entry's ``name`` (or
``id``, ``run``, or its number), behind the file's name when there are several files. An entry
that says ``"slow": true`` is marked so.

The files are ``tests/conformance/cases/*.json``, or, when the environment variable FARM_CASES
names a folder, the ``*.json`` files of that folder *instead*. A file belongs to a system when
its name begins with the system's name, or its ``"format"`` does; to the system ``"*"`` belong
all. There a system without files, or files without the key, make tests skip; in the tree every
test has cases. A folder without files, or with one that is not JSON, is an error, and
``test_every_case_is_read.py`` fails for what no test reads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

Case = dict[str, Any]
IN_TREE = Path(__file__).parent / "cases"


@cache
def _documents(folder: Path) -> tuple[tuple[Path, Any], ...]:
    found = tuple((path, _parsed(path)) for path in sorted(folder.glob("*.json")))
    if not found:
        raise pytest.UsageError(f"{folder}: holds no *.json, so there are no cases")
    return found


def _parsed(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise pytest.UsageError(f"{path}: not JSON: {error}") from None


def cases_folder() -> Path:
    """Return the folder in use: $FARM_CASES, or the one in the tree."""
    named = os.environ.get("FARM_CASES")
    if not named:
        return IN_TREE
    folder = Path(named)
    if not folder.is_dir():
        raise pytest.UsageError(f"FARM_CASES={named}: not a folder")
    return folder


def case_files(system: str) -> Iterator[tuple[Path, Any]]:
    """Yield (path, parsed document) of every file that holds cases of this system."""
    for path, document in _documents(cases_folder()):
        says = document.get("format", "") if isinstance(document, dict) else ""
        if system == "*" or path.name.startswith(system) or str(says).startswith(system):
            yield path, document


def _entries(document: Any, key: str) -> list[Any]:
    found = document
    for step in key.split("."):
        if not isinstance(found, dict) or step not in found:
            return []
        found = found[step]
    if isinstance(found, dict):
        return [{"name": name, "value": value} for name, value in found.items()]
    return list(found)


def _label(entry: Any, number: int) -> str:
    if isinstance(entry, dict):
        for key in ("name", "id", "run"):
            if key in entry:
                return str(entry[key])
    return str(number)


def _marks(values: dict[str, Any]) -> tuple[pytest.MarkDecorator, ...]:
    entry = values.get("case")
    return (pytest.mark.slow,) if isinstance(entry, dict) and entry.get("slow") else ()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", "conformance(system, key=None, **only): run once per case in the JSON files"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Turn the marker into parameters: ``case`` and/or ``document``."""
    marker = metafunc.definition.get_closest_marker("conformance")
    if marker is None:
        return
    system, key = marker.args[0], marker.args[1] if len(marker.args) > 1 else None
    files = list(case_files(system))
    parameters = []
    for path, document in files:
        prefix = f"{path.stem}:" if len(files) > 1 else ""
        if key is None:
            parameters.append((path.stem, {"document": document, "path": path}))
            continue
        for number, entry in enumerate(_entries(document, key)):
            if all(entry.get(name) == value for name, value in marker.kwargs.items()):
                values = {"case": entry, "document": document, "path": path}
                parameters.append((prefix + _label(entry, number), values))
    if not parameters and cases_folder() == IN_TREE:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {IN_TREE} has no case for it")
    wanted = [name for name in ("case", "document", "path") if name in metafunc.fixturenames]
    metafunc.parametrize(
        wanted,
        [
            pytest.param(*(values[name] for name in wanted), id=label, marks=_marks(values))
            for label, values in parameters
        ],
    )


#: explain a case, or name its source
EXPLAINING = {
    "about", "asserted", "comment", "description", "explanation", "id", "name", "note", "origin",
    "remark", "source", "tags", "title", "upstream_test_state", "why",
}  # fmt: skip


def refuse_unknown(what: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise AssertionError if a key is neither known nor one of those that explain."""
    unknown = given.keys() - known - EXPLAINING
    assert not unknown, (
        f"{what}: unknown key {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}"
    )
