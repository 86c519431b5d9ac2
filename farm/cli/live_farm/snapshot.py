"""``farm snapshot``: the state of a live farm at one instant, as a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from farm.app.long_running.snapshots import image_from, state_document
from farm.core.errors import InputError
from farm.forecasts.dispatch.farm_snapshot import view_of
from farm.terminal.options import DEFAULT_DIR, Dir, Redis


def snapshot(
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE")] = None,
    state: Annotated[bool, typer.Option("--state")] = False,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
) -> None:
    """Write the present state of a live farm, for farm estimate and farm whatif.

    A full snapshot has jobs, builders, fair-share trees, the scenario, and the history of run
    times. The scheduler makes it in one pass and continues.

    Args:
        out: Write to this file.
        state: Only builders and jobs, as in farm estimate's state files.
    """
    image = image_from(None, redis, folder)
    if state:
        text = json.dumps(state_document(view_of(image.snapshot)), indent=1)
    else:
        text = msgspec.json.encode(image).decode()
    if out is None:
        sys.stdout.write(text + "\n")
        return
    try:
        out.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out: cannot write {out}: {error.strerror}") from None
