"""A table of whose turn it is under fair share, level by level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farm.core.queues.fair_share.turn_explanation import Party, Turn
from farm.terminal.output import note
from farm.terminal.tables import Listing, folding, numbers, texts
from farm.units import format_roughly

_COLUMNS = (
    *texts("level", "invocation"),
    *numbers("executing", "priority", "waiting", "last start"),
    *folding("why"),
)

_WHY = {
    "alone": "no other job waits here",
    "level": "by static level",
    "share": "by share: slots executing",
    "priority": "by priority",
    "share and priority": "by share and priority: (executing + 1) * 2^(priority ÷ 100)",
    "turn": "equal: the least recently started one",
    "stickiness": "equal: the slot stays where it was",
    "directly": "a job queued in the node above precedes it",
}


def show_turns(turns: Sequence[Turn]) -> None:
    """Print, for each level, the job's own invocation and the competing ones."""
    if turns:
        title = "whose turn, level by level"
        note(Listing(_COLUMNS, _rows(turns), title=title, first_to_go=("last start",)))


def _rows(turns: Sequence[Turn]) -> Iterator[tuple[str, ...]]:
    for depth, turn in enumerate(turns, 1):
        said = f"{'goes' if turn.first else 'waits'}, {_WHY[turn.why]}"
        yield (str(depth), *_cells(turn.party), said)
        for rival in turn.rivals:
            yield ("", *_cells(rival), "")


def _cells(party: Party) -> tuple[str, ...]:
    last = format_roughly(party.started_at)
    counts = (party.executing, party.priority, party.waiting)
    return (party.name, *map(str, counts), last)
