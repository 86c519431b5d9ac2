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


#: a place in the code, as pages name it: a file, perhaps with a name in it
PLACE = re.compile(r"`((?:farm|workers|provisioner|farm_[a-z]+|tests)/[\w/]+\.py)(?::([\w.]+))?`")
#: capitals in RULES.md that are not the name of a number
NOT_NUMBERS = {"BOINC", "KEDA"}


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "RULES.md"])
def test_files_and_names_in_the_code_exist(page: str):
    """These pages name no file or function that does not exist."""
    named = set(PLACE.findall((ROOT / page).read_text(encoding="utf-8")))
    assert named
    assert [path for path, _ in named if not (ROOT / path).exists()] == []
    for path, name in named:
        source = (ROOT / path).read_text(encoding="utf-8")
        for part in filter(None, name.split(".")):  # a function, class or name; or none is said
            defined = rf"(?m)^\s*(?:def|class) {part}\b|^\s*(?:\w+, )*{part}\b.*[=:]"
            assert re.search(defined, source), f"{path}:{name}"


def test_the_rules_name_every_package():
    """No package of the house is without a rule, so a reader can begin with RULES.md."""
    text = (ROOT / "RULES.md").read_text(encoding="utf-8")
    rooms = [*map(ROOT.joinpath, ("farm", "workers", "provisioner")), *ROOT.glob("farm_*")]
    found = [path for room in rooms for path in room.rglob("__init__.py")]
    packages = {path.parent.relative_to(ROOT).as_posix() for path in found}
    packages = {package for package in packages if "tests" not in package.split("/")}
    named = [path for path, _ in PLACE.findall(text)]
    missing = [name for name in packages if not any(path.startswith(f"{name}/") for path in named)]
    assert missing == []


def test_numbers_that_the_rules_name_stand_in_the_files_beside_them():
    """A reader who wants a rule's number looks for its name, in capitals, where the rule is."""
    text = (ROOT / "RULES.md").read_text(encoding="utf-8")
    for rule in re.findall(r"(?m)^- .*`$", text):
        sources = [(ROOT / path).read_text(encoding="utf-8") for path, _ in PLACE.findall(rule)]
        names = set(re.findall(r"\b[A-Z][A-Z_]{3,}\b", PLACE.sub("", rule))) - NOT_NUMBERS
        lacking = [name for name in names if not any(name in source for source in sources)]
        assert lacking == [], rule
