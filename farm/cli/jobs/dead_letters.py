"""``farm admin dead-letters``: messages that the scheduler refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from farm.app.long_running.farm_place import reach
from farm.live.redis.keys import written_at
from farm.terminal.cells import folding, texts
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import note, print_json
from farm.terminal.tables import Listing
from farm.units import many

COLUMNS = (*texts("written", "stream"), *folding("sender"), *texts("reason"), *folding("why"))
#: characters of a reason in the table; --json has all of it
SHOWN = 300


def dead_letters(
    clear: Annotated[bool, typer.Option("--clear")] = False,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """List the messages that the scheduler refused.

    With --json, the beginning of each message is included.

    Args:
        clear: Delete them, and their counts.

    Examples:
        farm admin dead-letters         who sent what was refused, and why
        farm admin dead-letters --json  with the beginning of each
        farm admin dead-letters --clear
    """
    with reach(redis, folder) as client:
        letters, counts = client.dead_letters()
        if clear:
            client.forget_dead_letters()
    if as_json:
        print_json(*letters)
        return
    if letters:
        rows = [
            (
                datetime.fromtimestamp(written_at(letter.entry), UTC).isoformat(" ", "seconds"),
                letter.stream,
                letter.sender,
                letter.reason,
                letter.why.strip()[-SHOWN:],
            )
            for letter in letters
        ]
        note(Listing(COLUMNS, rows, first_to_go=("sender", "stream")))
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
    typer.echo(
        f"{many(sum(counts.values()), 'message')} refused{f': {reasons}' if reasons else ''}"
    )
