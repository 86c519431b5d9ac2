"""Commands that installed packages add, by entry points of the group ``farm.commands``."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.app.first_scenario import write_first_scenario
from farm.core.errors import InputError
from farm.plugins.entry_points import COMMANDS, entries, on_records
from farm_twin import own_farm
from tests.docs.documents import ROOT, blocks_of

MODULE = '''
"""Commands of a package."""

import typer

from farm.core.errors import InputError

several = typer.Typer(help="Count apples or pears.\\n\\nMore.")


def silent() -> None:
    raise SystemExit(3)


def greet(name: str = "you", loud: bool = False) -> None:
    """Greet a person.

    Args:
        name: Who is greeted.
        loud: In capitals.
    """
    if not name:
        raise InputError("--name: found nothing; allowed: a name")
    text = f"hello {name}"
    typer.echo(text.upper() if loud else text)


@several.command()
def apples() -> None:
    typer.echo("3 apples")


@several.command()
def pears() -> None:
    typer.echo("2 pears")
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a package of this name with a module ``NAME_commands`` and these entry points."""

    def install(name: str, entries: str, source: str = MODULE) -> None:
        info = tmp_path / "site" / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info.parent / f"{name}_commands.py").write_text(source)
        monkeypatch.syspath_prepend(info.parent)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[farm.commands]\n{entries}\n")
        monkeypatch.delitem(sys.modules, f"{name}_commands", raising=False)

    return install


def test_a_package_adds_commands(farm: Any, install: Any) -> None:
    """A function or a Typer app: in the help, with its options, run, and its errors shown."""
    named = {"greet": "greet", "count": "several", "silent": "silent"}
    install("fruit", "\n".join(f"{name} = fruit_commands:{of}" for name, of in named.items()))
    listed = farm("--help")
    assert (listed.code, listed.err) == (0, "")
    assert re.search(r"greet +Greet a person\.\n", listed.out)
    assert re.search(r"count +Count apples or pears\.\n", listed.out)
    assert "More" not in listed.out
    assert "silent\n" in listed.out
    assert farm("silent").code == 3
    assert "Who is greeted." in farm("greet", "--help").out
    assert farm("greet", "--name", "Ada", "--loud").out == "HELLO ADA\n"
    assert farm("count", "pears").out == "2 pears\n"
    assert farm("greet", "--name", "") == (2, "", "error: --name: found nothing; allowed: a name\n")
    assert farm("gret").err == "error: found no command 'gret'; did you mean greet?\n"


def test_the_command_that_the_page_shows(farm: Any, install: Any) -> None:
    """What a reader types is a command of the farm."""
    toml, code = blocks_of(ROOT / "docs" / "reference" / "commands.md")
    ((group, entries),) = tomllib.loads(toml.text)["project"]["entry-points"].items()
    assert group == "farm.commands"
    ((name, value),) = entries.items()
    install("my", f"{name} = my_commands:{value.partition(':')[2]}", code.text)
    assert farm("simulate", "quickstart", "--quiet", "--out", "kept").code == 0
    shown = farm(name, "kept", "--least", "1000")
    times = [float(line.split()[1]) for line in shown.out.splitlines()]
    assert times == sorted(times, reverse=True)
    assert times
    assert min(times) >= 1000
    assert "The smallest number of seconds" in farm(name, "--help").out


def test_a_name_that_is_taken_is_one_warning(farm: Any, install: Any) -> None:
    """The farm's own command stays, and of two packages' the first by name."""
    install("one", "examples = one_commands:greet\ngreet = one_commands:greet")
    install("two", "greet = two_commands:several")
    listed = farm("--help")
    assert listed.code == 0
    assert listed.out.count("Greet a person.") == 1
    assert listed.err.splitlines() == [
        f"warning: the command {name} of {value} is left out: the name is taken"
        for name, value in (("examples", "one_commands:greet"), ("greet", "two_commands:several"))
    ]
    ours = farm("examples")
    assert ("quickstart" in ours.out, ours.err) == (True, "")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("torn_commands:nothing", "AttributeError: module 'torn_commands' has no attribute"),
        ("gone:main", "ModuleNotFoundError: No module named 'gone'"),
        ("torn_commands.inner:main", "ModuleNotFoundError: "),
        ("raising_commands:main", "ValueError: not today"),
    ],
)
def test_a_broken_entry_point_is_one_line(farm: Any, install: Any, value: str, reason: str) -> None:
    """A warning where the commands are listed, an error where it is called; no traceback."""
    install("torn", f"torn = {value}")
    install("raising", "", "raise ValueError('not\\n  today')")
    listed = farm("--help")
    assert (listed.code, "torn" in listed.out) == (0, False)
    (line,) = listed.err.splitlines()
    assert line.startswith(f"warning: the command torn cannot be loaded from {value}: {reason}")
    called = farm("torn")
    assert (called.code, called.out) == (2, "")
    assert " ".join(called.err.split()) == line.replace("warning", "error", 1)
    assert farm("examples").err == ""


def test_a_checkout_that_is_not_installed_has_its_wings(
    farm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``python -m farm doctor`` works in a clone without pip, by what pyproject.toml says."""

    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
    assert {"doctor", "import", "twin"} <= {entry.name for entry in entries(COMMANDS)}
    assert farm("doctor", "--help").code == 0
    assert on_records("doctor") is own_farm.doctor


def test_what_no_package_does_with_records_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """A farm without its wing says what is missing."""
    monkeypatch.setattr("farm.plugins.entry_points.entries", lambda _: ())
    with pytest.raises(
        InputError, match=r"found no package for scenario in the group farm\.records"
    ):
        write_first_scenario(Path("new.yaml"), Path("jobs.csv"))


def test_the_farm_plays_without_its_wings(farm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who leaves a wing out has everything else; what needs it says so in a sentence."""
    for name in [*sys.modules]:
        if name.startswith("farm_twin"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "farm_twin", None)
    assert farm("simulate", "quickstart", "--quiet", "--out", "kept").code == 0
    missing = farm("init", "kept/jobs.csv")
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert "scenario of farm.records cannot be loaded from farm_twin" in missing.err


def test_the_farms_own_commands_look_at_no_package(
    farm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search takes longer than many commands."""

    def searched(**_: object) -> None:
        raise AssertionError("looked for entry points")

    monkeypatch.setattr(importlib.metadata, "entry_points", searched)
    assert farm("examples").code == 0
    assert farm("simulate", "--help").code == 0
