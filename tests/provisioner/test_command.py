"""The command line of the provisioner."""

import typer.main

from farm.terminal.command_help import with_docstring
from provisioner.command import app, provision


def test_every_option_has_a_help():
    """Also those that the docstring of the command describes, as farm's commands do."""
    command = with_docstring(typer.main.get_command(app), provision.__doc__)
    assert [one.name for one in command.params if not one.help] == []
    assert "Args:" not in command.help
