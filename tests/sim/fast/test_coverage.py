"""What the compiled loop leaves to the reference, in code and in documentation."""

from __future__ import annotations

from pathlib import Path

from farm.sim.fast.coverage import LEFT_TO_THE_REFERENCE

TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorials" / "python.md"


def test_documentation_lists_what_is_left_to_the_reference():
    """Protects readers from a list that says less, or more, than the loop covers."""
    section = TUTORIAL.read_text("utf-8").partition("\n## Engines\n")[2].partition("\n## ")[0]
    listed = [line.removeprefix("- ") for line in section.splitlines() if line.startswith("- ")]
    assert listed == list(LEFT_TO_THE_REFERENCE)
