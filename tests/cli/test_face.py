"""What a user has in view: how many commands and options, and the help of each."""

from __future__ import annotations

import inspect
import re
import shlex
from typing import Any

import pytest
import typer
import typer.main

from farm.cli.main import ADMIN, COMMANDS, app, commands_in
from farm.cli.old_names import ANSWERS, RENAMED

ALL: Any = typer.main.get_command(app)
FOUND = dict(commands_in(ALL))
#: those that have commands within, each with its own help
EACH = {
    f"{words} {name}".removesuffix(" ."): one
    for words, command in FOUND.items()
    for name, one in (getattr(command, "commands", None) or {".": command}).items()
}


def test_no_more_commands_are_in_view_than_a_person_takes_in() -> None:
    """Thirty years of ``git`` may have a hundred and fifty; here one page of help has them all."""
    shown = [name for names in COMMANDS.values() for name in names.split()]
    listed = [name for name in ALL.list_commands(None) if not ALL.get_command(None, name).hidden]
    assert listed == [*shown, "admin"]
    assert len(shown) <= 25
    assert [*FOUND] == [
        *(f"farm {name}" for name in shown),
        *(f"farm admin {name}" for names in ADMIN.values() for name in names.split()),
    ]
    assert {*RENAMED, *ANSWERS} & {*shown} == {"plan"}, "an old name is not in view"


def test_no_more_options_are_in_view() -> None:
    """Each new one should be worth a line that everyone reads."""
    lines = {
        words: sum(not getattr(one, "hidden", False) for one in command.params)
        for words, command in EACH.items()
    }
    assert sum(n for words, n in lines.items() if "admin" not in words) <= 210, lines
    assert sum(lines.values()) <= 325, lines


@pytest.mark.parametrize("words", EACH)
def test_three_examples_end_each_help_and_are_understood(words: str) -> None:
    """They are of this very command, and the command line takes them; no help speaks of types."""
    shown = EACH[words].get_help(typer.Context(EACH[words], terminal_width=100))
    # what is to be typed has a name; ``<int range>`` and ``[[FILE]]`` are the library's
    types = r"<\w[\w |]*>|\[\[|\{\w+\}\]?|--no-(?!save|arrivals)|\bINTEGER\b|\bPATH \["
    assert re.findall(types, shown) == []
    _, mark, text = EACH[words].get_help(typer.Context(EACH[words])).partition("  Examples:\n")
    lines = [line.strip() for line in text.splitlines()]
    assert (bool(mark), len(lines)) == (True, 3)
    for line in lines:
        _, *typed = shlex.split(re.split(r"  +| > ", line)[0])
        typed = typed[2:] if typed[0] == "--dir" else typed
        own = words.split()[1:]
        assert typed[: len(own)] == own
        EACH[words].make_context(words, typed[len(own) :]).close()


@pytest.mark.parametrize("words", FOUND)
def test_every_command_and_option_has_a_help(words: str):
    """In the declaration or in the command's docstring, of which every line is used.

    The first one is that in the list of commands.
    """
    group, found = ALL, FOUND[words]
    *groups, name = words.split()[1:]
    for one in groups:
        group = group.get_command(None, one)
    listed = group.get_command(None, name).help
    assert (found.name, found.help.partition("\n")[0]) == (name, listed) != (name, "")
    for own in (found, *getattr(found, "commands", {}).values()):
        assert [one.name for one in own.params if not one.help] == []
        _, _, told = inspect.getdoc(own.callback).partition("Args:\n")
        told = told.partition("\nExamples:\n")[0]
        words = " ".join(one.help for one in own.params).split()
        assert set(re.sub(r"(?m)^ {4}\w+: ", "", told).split()) <= set(words)
        assert "Args:" not in own.help


def test_o_is_where_a_command_writes_what_it_makes() -> None:
    """One letter for one thing, wherever it stands."""
    long = {
        option
        for command in EACH.values()
        for one in command.params
        if "-o" in one.opts
        for option in one.opts
    }
    assert long == {"-o", "--out", "--save"}


def test_help_of_a_command_and_as_wide_as_the_terminal(farm: Any, monkeypatch: Any) -> None:
    """``farm help CMD`` is ``farm CMD --help``; a wide terminal is used."""
    told = farm("help", "simulate")
    assert told == farm("simulate", "--help")
    assert farm("help") == farm("--help") == farm()
    assert farm("help", "admin", "audit") == farm("admin", "audit", "--help")
    assert max(map(len, told.out.splitlines())) > 100
    monkeypatch.setenv("COLUMNS", "72")
    narrow = farm("help", "simulate").out.partition("Examples:")[0]
    assert max(map(len, narrow.splitlines())) <= 72


@pytest.mark.parametrize("command", ["simulate", "run", "up", "whatif", "sweep", "plan"])
def test_policy_and_seed_are_short_for_keys(farm: Any, command: str) -> None:
    """Wherever a scenario's keys can be overridden; in the order of what is typed last."""
    shown = farm(command, "--help").out
    assert "--policy POLICY" in shown
    assert "--seed" in shown
    if command == "simulate":
        for *words, key in (("--policy", "sjff"), ("--set", "scheduling.policy=sjff")):
            named = "--policy" if words == ["--policy"] else "scheduling.policy"
            told = farm(command, "mm1", *words, key).err
            assert f"{named}: unknown 'sjff'; did you mean sjf?" in told


def test_which_farm_is_meant_stands_before_or_after_the_command_or_in_the_environment(
    farm: Any, monkeypatch: Any
) -> None:
    """What is nearest to the command wins; --redis of a sweep is another one."""

    def asked(*words: str) -> str:
        return re.findall(r"\((\S+)/farm.json|at (\S+) cannot", farm(*words).err)[0]

    assert asked("status") == (".farm", "")
    assert asked("--dir", "a", "status") == ("a", "")
    assert asked("--dir", "a", "status", "--dir", "b") == ("b", "")
    monkeypatch.setenv("FARM_DIR", "c")
    assert asked("jobs") == ("c", "")
    assert asked("--dir", "a", "jobs") == ("a", "")
    url, other = "redis://127.0.0.1:1/0", "redis://127.0.0.1:2/0"
    assert asked("--redis", url, "admin", "dead-letters") == ("", url)
    assert asked("--redis", url, "pools", "--redis", other) == ("", other)
    monkeypatch.setenv("FARM_REDIS_URL", other)
    assert asked("status") == ("", other)
    assert asked("--redis", url, "status") == ("", url)
