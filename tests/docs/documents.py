"""Where the documents are, and how to find the commands in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PLACES = ("*.md", "docs/**/*.md", "farm_*/docs/*.md", "[a-z]*/README.md")
DOCUMENTS = sorted({path for place in PLACES for path in ROOT.glob(place)})


class Block(NamedTuple):
    """A fenced block of a document."""

    document: Path
    line: int
    language: str
    text: str


class Step(NamedTuple):
    """A command of a console block, and its documented output."""

    command: str
    output: str


def blocks_of(document: Path) -> list[Block]:
    """Return the fenced blocks of a document."""
    text = document.read_text(encoding="utf-8")
    return [
        Block(document, text.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


def steps_of(block: Block) -> list[Step]:
    """Return the commands (after ``$ ``) of a console block with the lines that follow each."""
    _, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    steps = []
    for part in parts:
        command, _, output = part.replace("\\\n", " ").partition("\n")
        steps.append(Step(command, output))
    return steps


BLOCKS = [block for document in dict.fromkeys(DOCUMENTS) for block in blocks_of(document)]
#: those with commands and their output are followed, from the first line to the last
FOLLOWED = [*dict.fromkeys(block.document for block in BLOCKS if block.language == "console")]
