"""GLOSSARY.md's column *not to be called* holds for names in the code and for the pages.

No file contains phrases that the project used to be written in instead of plain English.

A word that the column explains, as *run* (a whole experiment), has a meaning of its own, and may
stand; one without an explanation may not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from .documents import DOCUMENTS, ROOT

#: the packages
ROOMS = (
    "farm", "workers", "provisioner", "farm_twin", "farm_studies", "farm_chaos", "grafana",
    "benchmarks", "tests",
)  # fmt: skip
#: foreign words, where they are used: by word, the files (or name in them)
OTHERS = {
    "capacity": {
        "farm/records/bundle.py": "a file of bundles",
        "provisioner/algorithms/manual.py": "the Taskcluster simulator's option, in scenarios",
        "tests/provisioner/algorithms/": "the same, and Buildbarn's",
        "tests/results/test_taskcluster.py": "the Taskcluster simulator's word",
    },
    "duration": {
        "farm/app/api.py": "an option of farm run, and its argument",
        "farm/app/runs/live_run.py": "the same",
        "farm/cli/runs/run.py": "the same",
        "farm_twin/sources/": "a field of GitLab's and Jenkins's records",
        "farm/results/exports/taskcluster_export.py": "the Taskcluster simulator's log",
        "farm/scenario/quantities.py": "the JSON Schema's name for such values",
        "farm/scenario/workload.py": "a key of scenarios",
        "farm/upstream/": "Launchpad's and BOINC's word",
        "farm/records/traces/": "a column of traces",
        "farm/forecasts/dispatch/": "Launchpad's word, and a key of state files",
        "tests/conformance/": "Launchpad's word",
        "tests/forecasts/dispatch/": "Launchpad's word",
        "tests/upstream/": "Launchpad's word",
    },
    "timestamp": {"farm_twin/sources/": "a field of several systems' records"},
    "turnaround": {
        "farm_twin/diagnosis/": "of a runner, between two jobs: what its operators call it",
        "farm_twin/twins/": "of a runner, between two jobs: what its operators call it",
        "farm/upstream/boinc/": "BOINC's word",
    },
    "config": {
        "farm/scenario/": "pydantic's model_config",
        "grafana/generate.py": "Grafana's fieldConfig",
        "tests/conformance/conftest.py": "pytest's",
        "tests/conftest.py": "pytest's",
    },
}

#: phrases that do not appear in any code, test, comment, message or page
PHRASES = (
    "nobody", "somebody", "anybody", "everybody", "whoever", "meanwhile", "seldom", "so many",
    "goes on", "is gone on", "for ever", "hands in", "handed in", "handing in",
    "taken in", "at one go", "of our own", "of one's own", "told apart", "again and again",
    "what becomes", "came to nothing", "foretold", "dearest", "second thoughts",
)  # fmt: skip
#: phrases in names of others: by file, the phrase
NAMES = {"tests/fixtures/docker_engine.py": "nobody"}


@cache
def forbidden() -> set[str]:
    """Return the words of the column that have no explanation."""
    table = (ROOT / "GLOSSARY.md").read_text(encoding="utf-8")
    column = [line.split("|")[3] for line in table.splitlines() if line.startswith("|")][2:]
    found = [pair for cell in column for pair in re.findall(r"\*([^*]+)\*( \()?", cell)]
    return {word for word, explained in found if not explained} - {
        word for word, explained in found if explained
    }


def names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module defines: of functions, classes, arguments, values."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


@cache
def words_of(name: str) -> set[str]:
    """Return the words of a name, in lower case and the singular."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return {re.sub(r"(?<!s)s$", "", part.lower()) for part in parts}


def foreign_names(path: Path) -> set[str]:
    """Return the names in a module that have a word which is not allowed there.

    The text is searched first: to parse all of the project would take seconds.
    """
    place = path.relative_to(ROOT).as_posix()
    words = {
        word
        for word in forbidden()
        if not any(place.startswith(other) for other in OTHERS.get(word, ()))
    }
    text = path.read_text(encoding="utf-8")
    lower = text.lower()
    words = {word for word in words if word in lower}
    forms = [f"(?<![A-Za-z]){word}|{word.capitalize()}|{word.upper()}" for word in words]
    if not words or not re.search(f"(?:{'|'.join(forms)})s?(?![a-z])", text):
        return set()
    return {name for name in names(ast.parse(text)) if words_of(name) & words}


@pytest.mark.parametrize("room", ROOMS)
def test_names_in_the_code(room: str):
    """A function, class, argument or value is named by the glossary's word."""
    wrong = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in (ROOT / room).rglob("*.py")
        for name in foreign_names(path)
    }
    assert wrong == set()


#: without the glossary itself, and the page that lists five systems' features in their words
PAGES = [page for page in DOCUMENTS if page.name not in ("GLOSSARY.md", "systems.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_words_of_the_pages(page: Path):
    """The text of a page uses them too; except in code, links and quotations (*in italics*)."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"(?ms)^```.*?^```|^ {4}.*?$|`[^`]*`|\]\([^)]*\)|\*[^*\n]+\*", "", text)
    pattern = rf"\b(?:{'|'.join(sorted(forbidden()))})s?\b"
    assert re.findall(pattern, text, re.IGNORECASE) == []


def phrases_in(text: str) -> list[str]:
    """Return what a text has of the phrases, in lower case."""
    lower = text.lower()
    there = (phrase for phrase in PHRASES if phrase.partition(" ")[0] in lower)
    phrases = "|".join(phrase.replace(" ", r"[\s_#]+") for phrase in there)
    return re.findall(rf"(?<![a-z])(?:{phrases})(?![a-z])", lower) if phrases else []


@pytest.mark.parametrize("place", [*ROOMS, "deploy", "examples", "."])
def test_plain_english(place: str):
    """Names, docstrings, comments, messages and pages contain none of the phrases."""
    files = (ROOT / place).glob("*") if place == "." else (ROOT / place).rglob("*")
    found = {
        (path.relative_to(ROOT).as_posix(), phrase)
        for path in [*files, *(DOCUMENTS if place == "." else ())]
        if path.suffix in {".py", ".md", ".yaml", ".yml", ".toml", ".cfg"}
        and path != Path(__file__)
        for phrase in phrases_in(path.read_text(encoding="utf-8"))
    }
    assert found - set(NAMES.items()) == set()
