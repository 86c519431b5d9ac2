"""Commands and links in the documents exist, also those that are not run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from farm.cli.main import app, commands_in
from farm.cli.old_names import ANSWERS, RENAMED

from .documents import DOCUMENTS, ROOT

#: the commands in view, by their words
COMMANDS: dict[str, Any] = dict(commands_in(typer.main.get_command(app)))


def command_lines(text: str) -> Iterator[str]:
    """Yield the lines of code blocks, fenced or indented, that call ``farm``."""
    for line in text.replace("\\\n", " ").splitlines():
        if found := re.match(r"(?: {2,}|\$ |)((?:\.venv/bin/)?farm [a-z].*)", line):
            yield found[1]


def problem(line: str) -> str | None:
    """Return what is wrong with a command line, if anything."""
    _, *words = shlex.split(line.partition(" | ")[0], comments=True)
    if words and words[0].startswith("-"):
        return None
    names = [words.pop(0)] if words else []
    names += [words.pop(0)] if names == ["admin"] and words else []
    if (command := COMMANDS.get(" ".join(["farm", *names]))) is None:
        return f"no command {' '.join(names)!r}" if names else None
    while words and words[0] in (within := getattr(command, "commands", {})):
        command = within[words.pop(0)]
    options = {name for option in command.params for name in option.opts} | {"--help", "-h"}
    unknown = [w for w in words if re.match(r"--?[a-z]", w) and w.split("=")[0] not in options]
    return f"no option {', '.join(unknown)}" if unknown else None


def named_in(text: str) -> set[str]:
    """Return the words of the commands that a text names in passing."""
    found = re.findall(r"`(farm (?:admin )?[a-z][a-z-]*)\b", text)
    return {*found} - {"farm admin", "farm help"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_options_and_links_exist(document: Path):
    """No page shows or names a command that is not known, or links to a file that is not there."""
    text = document.read_text(encoding="utf-8")
    assert {line: flaw for line in command_lines(text) if (flaw := problem(line))} == {}
    once = (*RENAMED, *ANSWERS, "policy") if document.name == "CHANGELOG.md" else ()
    assert sorted(named_in(text) - {*COMMANDS} - {f"farm {name}" for name in once}) == []
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (document.parent / target).exists()] == []


def test_the_page_on_commands_lists_all_of_them():
    """Its tables list all existing commands, and only those."""
    page = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    assert sorted(named_in(page) ^ {*COMMANDS}) == []


def test_the_index_names_every_page():
    """docs/README.md leads to every page, and each page is in one of the four sections."""
    home = ROOT / "docs"
    index = (home / "README.md").read_text(encoding="utf-8")
    pages = {page.relative_to(home).as_posix() for page in home.rglob("*.md")} - {"README.md"}
    rooms = {page.rpartition("/")[0] for page in pages}
    assert rooms == {"tutorials", "how-to", "explanation", "reference"}
    beside = [*ROOT.glob("farm_*/docs/*.md"), ROOT / "farm_chaos/README.md"]
    pages |= {f"../{page.relative_to(ROOT).as_posix()}" for page in beside}
    assert sorted(page for page in pages if f"({page})" not in index) == []


def test_files_named_in_the_architecture_exist():
    """ARCHITECTURE.md names no file or function that does not exist."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(
        re.findall(
            r"`((?:farm|workers|provisioner|farm_[a-z]+|tests)/[\w/]+\.py)(?::([\w.]+))?`", text
        )
    )
    assert named
    assert [path for path, _ in named if not (ROOT / path).exists()] == []
    for path, name in named:
        last = name.rpartition(".")[2]  # a function, class or name; if none is said, all is well
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"(?m)^\s*(?:def|class) {last}\b|^{last}\b.*=", source) or not last, path
