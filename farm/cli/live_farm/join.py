"""``farm admin join``: how another machine can run builders of this farm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farm.app.long_running.access import join_commands
from farm.cli.live_farm.acl import PASSWORDS
from farm.terminal.options import Quiet, server_option
from farm.terminal.output import remark, warn


def join(
    server: Annotated[str, typer.Argument(metavar="SERVER")],
    hosts: Annotated[list[str] | None, typer.Option("--host", metavar="NAME")] = None,
    room: Annotated[int, typer.Option(min=0)] = 0,
    pool: str = "",
    passwords: Annotated[Path, typer.Option(metavar="DIR")] = PASSWORDS,
    redis: Annotated[
        str | None,
        server_option(
            "Create the builder's user on this server, as a user that may use ACL. Default: it "
            "exists already (farm admin acl builder)."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Print the command with which another machine runs builders of this farm.

    It contains no password, only the name of the file that contains it.

    Args:
        server: URL of the farm's server, as seen from the other machine.
        hosts: Name of a machine, which gets its own user; repeatable. Default: one command for all.
        room: Maximum number of builders; 0: no limit.
        pool: Run only builders of this pool. Default: any.
        passwords: Directory of the users' passwords, one file per user.

    Examples:
        farm admin join redis://farm.example:6379/0
        farm admin join rediss://farm.example:6380/0 --host rack1 --room 8
        farm admin join redis://farm.example:6379/0 --pool linux
    """
    for line in join_commands(server, hosts or (), passwords, redis, room, pool):
        typer.echo(line)
    remark(
        f"to be run there, where this farm is installed, with a copy of the file in {passwords} "
        "that it names (and of ssl_ca_certs)",
        quiet=quiet,
    )
    if not (quiet or server.startswith("rediss:")):
        warn("without TLS (rediss://) others on the network can read and change the traffic")
