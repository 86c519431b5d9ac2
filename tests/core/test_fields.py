"""Values as tables and command lines write them, and what is said of those that are wrong."""

from __future__ import annotations

import pytest

from farm.core.errors import allowed_by
from farm.core.fields import fields_of
from farm.core.model import Cause, Job


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("1", True), ("False", False), ("0", False)]
)
def test_a_flag_is_a_word_or_a_number(text: str, value: bool) -> None:
    """A table that writes 1 for its heavy jobs has heavy jobs."""
    assert fields_of(Job)["heavy"].of_text(text) is value


def test_where_no_words_are_ours_pydantics_say_what_is_allowed() -> None:
    """Without its "Input should be a valid", which no other message has."""
    assert allowed_by({"type": "list_type", "msg": "Input should be a valid list"}) == "list"


def test_causes_keep_their_names() -> None:
    """They stand in event logs and tables that were saved."""
    names = "finished failed lost poisonous requested fail-fast unrunnable stopped skipped"
    assert [cause.value for cause in Cause] == names.split()
