"""``farm admin acl``: users for a server that several people and machines share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farm.app.long_running import access
from farm.core.errors import InputError
from farm.live.redis.roles import BY_NAME, ROLES
from farm.live.settings import from_environment
from farm.terminal.options import Quiet, server_option
from farm.terminal.output import remark, warn

PASSWORDS = Path("farm-passwords")


def acl(
    roles: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ROLE]...", help=f"Of {', '.join(ROLES)}; absent: all but admin and keda."
        ),
    ] = None,
    hosts: Annotated[list[str] | None, typer.Option("--host", metavar="NAME")] = None,
    passwords: Annotated[Path, typer.Option(metavar="DIR")] = PASSWORDS,
    aclfile: Annotated[bool, typer.Option("--aclfile")] = False,
    apply: Annotated[bool, typer.Option("--apply")] = False,
    redis: Annotated[str | None, server_option("The server, with a user that may use ACL.")] = None,
    quiet: Quiet = False,
) -> None:
    """Print or create the users of a farm's server, with their permissions.

    The farm is that of FARM_PREFIX, in the database of --redis (else 0). The output is for
    redis-cli and contains no passwords.

    Args:
        hosts: A builder's user for this host only (its FARM_HOST); repeatable. Default: one user
            for all hosts.
        passwords: Directory of the passwords, one file per user; missing ones are generated.
        aclfile: Print a complete file for the server's aclfile option.
        apply: Create the users on the server and print nothing.

    Examples:
        farm admin acl  commands for redis-cli
        farm admin acl --aclfile > users.acl
        farm admin acl builder --host rack1 --apply
    """
    if apply and aclfile:
        raise InputError("found --apply and --aclfile; allowed: one of them")
    if apply and not redis:
        raise InputError("--redis: found none; --apply needs the server")
    usual = [name for name in ROLES if name not in BY_NAME]
    wanted = roles or usual + ["admin"] * aclfile
    users = access.users_of(from_environment().prefix, wanted, hosts or (), redis or "")
    kept = True
    if apply:
        kept = access.apply(users, passwords, redis or "")
    else:
        for line in access.lines_of(users, passwords, aclfile=aclfile):
            typer.echo(line)
    remark(f"passwords are in {passwords}: redis://USER:PASSWORD@HOST:PORT/0", quiet=quiet)
    if redis and (missing := access.unlimited(redis)):
        warn(
            f"the server has no limit by {', '.join(missing)}: one client that does not read its "
            "answers can fill its memory (docs/how-to/operating.md#users-and-passwords)"
        )
    if apply:
        remark(
            "the user default is unchanged: give it a password, or turn it off when it is no "
            "longer needed (ACL SETUSER default off)",
            quiet=quiet,
        )
    if not kept:
        remark(
            "the server forgets these users when it ends: start it with an aclfile (farm admin acl "
            "--aclfile), or apply them again",
            quiet=quiet,
        )
