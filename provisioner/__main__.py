"""``python -m provisioner``: the provisioner as a process."""

from __future__ import annotations

import typer.main

from farm.terminal.command_help import with_docstring
from farm.terminal.error_messages import with_error_messages
from provisioner.command import app, provision

if __name__ == "__main__":
    with_error_messages(with_docstring(typer.main.get_command(app), provision.__doc__))
