"""Values as tables and command lines write them, and what is said of those that are wrong."""

from __future__ import annotations

import pytest

from farm.core.errors import allowed_by
from farm.core.fields import FieldError, fields_of, record_of
from farm.core.model import Cause, Job
from farm.core.rules import SchedulingRules
from farm.forecasts.runtime.interface import EstimatorOptions
from farm.live.protocol.failure_detection import Patience
from farm.live.settings import LiveSettings
from farm.scenario.model import Live
from farm.scenario.scheduling import RuntimeOptions, Scheduling
from farm.upstream.boinc.records import MIN_HOST_SAMPLES


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
    names = (
        "finished failed lost poisonous requested fail-fast unrunnable stopped skipped superseded"
    )
    assert [cause.value for cause in Cause] == names.split()


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"id": "a"}, ("service_time", "found nothing; allowed: ")),
        ({"id": "a", "service_time": "x"}, ("service_time", "found 'x'; allowed: ")),
        ({"id": "a", "service_time": -1.0}, ("service_time", "found -1.0; allowed: ")),
    ],
)
def test_the_field_that_is_missing_or_wrong_is_named(given: dict, refused: tuple[str, str]) -> None:
    """A submitter would have to guess which of the twenty."""
    with pytest.raises(FieldError) as raised:
        record_of(Job, given)

    name, beginning = refused
    assert raised.value.name == name
    assert str(raised.value).startswith(beginning)


def test_defaults_that_two_rooms_write_agree():
    """The core and live processes know no scenario: each has its own default of these."""
    runtime, live = RuntimeOptions.model_construct(), Live.model_construct()
    assert Scheduling.model_construct().retries == SchedulingRules().retries
    assert runtime.host_samples == EstimatorOptions().host_samples == MIN_HOST_SAMPLES
    assert live.lost_after == Patience().silence
    assert live.heartbeat == LiveSettings().beat_interval
