"""``farm join``: what another machine runs to play builders of this farm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farm.app.staying_up.joining import join_commands
from farm.cli.live_farm.acl import PASSWORDS
from farm.terminal.console import FarmConsole
from farm.terminal.options import Quiet, server_option


def join(
    server: Annotated[
        str,
        typer.Argument(
            metavar="SERVER", help="The farm's server as the other machine reaches it: a URL."
        ),
    ],
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME",
            help="A name, and a user, for one machine alone; may be given again. "
            "Absent: one command for all.",
        ),
    ] = None,
    room: Annotated[
        int, typer.Option(min=0, help="Builders that it plays at most; 0: any number.")
    ] = 0,
    pool: Annotated[str, typer.Option(help="The pool whose builders it plays; absent: any.")] = "",
    passwords: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the users' passwords are: DIR/USER.")
    ] = PASSWORDS,
    redis: Annotated[
        str | None,
        server_option(
            "The server, as a user who may use ACL: the builder's user is made there. "
            "Absent: it is there already (farm acl builder)."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Print the command with which another machine plays builders of this farm.

    It has no password in it, but the name of the file that has.
    """
    for line in join_commands(server, hosts or (), passwords, redis, room, pool):
        typer.echo(line)
    if quiet:
        return
    console = FarmConsole(stderr=True)
    console.print(
        f"to be run there, where this farm is installed, with a copy of the file in {passwords} "
        "that it names (and of ssl_ca_certs)"
    )
    if not server.startswith("rediss:"):
        console.print(
            "warning: without TLS (rediss://) others on the network can read and change the traffic"
        )
