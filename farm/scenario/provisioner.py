"""``pools.*.provisioner``: the algorithm that sizes a pool, and its options by the time."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    ValidationInfo,
    field_validator,
    model_validator,
)

from farm.core.errors import not_among
from farm.scenario.people import TimesOfWeek
from farm.scenario.presets import PRESETS
from farm.scenario.quantities import Count, Duration, Positive, PositiveDuration, Text
from farm.scenario.section import Section
from farm.scenario.times_of_week import Period, minutes_of_week, parse_offset
from farm.units import format_roughly


def _checked_offset(text: str) -> str:
    parse_offset(text)
    return text


def given_options(options: Mapping[str, object] | None) -> dict[str, object]:
    """Return the options that have a value: without one an algorithm has its default."""
    return {name: value for name, value in (options or {}).items() if value is not None}


class OptionsByTime(Section):
    """Options that hold at some time of the week, instead of those of the provisioner."""

    model_config = ConfigDict(extra="allow")
    takes_free_keys: ClassVar[bool] = True

    when: TimesOfWeek = ()
    """`mon-fri 08:00-18:00`, or cron's fields as ranges; a list: at any of them; absent: always."""
    timezone: Annotated[Text, AfterValidator(_checked_offset)] | None = None
    """Offset of the clock of `when` from the farm's, such as `+01:00`."""
    start: Duration = 0.0
    """Farm time before which it does not hold."""
    end: Duration | None = None
    """Farm time from which it does not hold."""
    min: Count | None = None
    """Minimum number of builders."""
    max: Positive | None = None
    """Maximum number of builders."""

    @model_validator(mode="after")
    def _not_over_before(self) -> Self:
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"found end {self.end:g} with start {self.start:g}; allowed: later")
        return self

    @property
    def period(self) -> Period:
        """When it holds."""
        end = math.inf if self.end is None else self.end
        if not self.when:
            return Period(None, self.start, end)
        offset = parse_offset(self.timezone) if self.timezone else 0
        sets = (minutes_of_week(text, offset) for text in self.when)
        return Period(frozenset().union(*sets), self.start, end)

    @property
    def words(self) -> str:
        """When it holds, as it is written."""
        parts = [", ".join(self.when)]
        if self.start:
            parts.append(f"from {format_roughly(self.start)}")
        if self.end is not None:
            parts.append(f"until {format_roughly(self.end)}")
        return " ".join(filter(None, parts)) or "by_time"

    @property
    def options(self) -> dict[str, object]:
        """The options that hold then, as written."""
        limits = {"min": self.min, "max": self.max}
        return given_options({**(self.model_extra or {}), **limits})


def _preset_or_all(schema: dict[str, Any]) -> None:
    required = schema.pop("required")
    schema["anyOf"] = [{"required": required}, {"required": ["preset"]}]


class ProvisionerSettings(Section):
    """A provisioning algorithm, which sizes the pool, and its options."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_preset_or_all)
    takes_free_keys: ClassVar[bool] = True

    preset: Text | None = None
    """Name of a preset: what it sets need not be given."""
    algorithm: Text
    """Name of a provisioning algorithm, or `module:function` of your own. All keys that are not
    listed here are the algorithm's options, checked by it."""
    min: Count = 0
    """Minimum number of builders."""
    max: Positive
    """Maximum number of builders."""
    interval: PositiveDuration | None = None
    """Time between plans. Absent: the algorithm's own."""
    first_plan: PositiveDuration | None = None
    """Farm time of the first plan. Absent: an `interval` after the start."""
    by_time: tuple[OptionsByTime, ...] = ()
    """Options that hold at some times; of several at one time, the last entry's."""

    @field_validator("preset")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        if name is not None and name not in PRESETS:
            raise ValueError(not_among(name, PRESETS))
        return name

    @field_validator("algorithm")
    @classmethod
    def _of_the_preset(cls, name: str, info: ValidationInfo) -> str:
        preset = info.data.get("preset")
        if preset is not None and name != PRESETS[preset].provisioner["algorithm"]:
            theirs = PRESETS[preset].provisioner["algorithm"]
            raise ValueError(f"found {name!r:.60}; the preset {preset} is of {theirs}")
        return name

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for place, (least, most) in self._limits():
            if most < least:
                raise ValueError(f"found {place}max {most} below min {least}; allowed: max >= min")
        return self

    @property
    def options(self) -> dict[str, object]:
        """The algorithm's own options, as written."""
        return given_options(self.model_extra)

    def limits(self) -> dict[str, object]:
        """Return the keys that every algorithm knows, as a file has them; those by time, too."""
        dumped = self.model_dump(mode="json", exclude_none=True)
        known = OptionsByTime.model_fields
        times = [{k: v for k, v in one.items() if k in known} for one in dumped["by_time"]]
        limits: dict[str, object] = {
            key: dumped[key] for key in ("min", "max", "interval", "first_plan") if key in dumped
        }
        return {**limits, "by_time": [one for one in times if {"min", "max"} & one.keys()]}

    @property
    def highest_max(self) -> int:
        """The maximum number of builders at any time."""
        return max(most for _, (_, most) in self._limits())

    def min_at_start(self, starts: float) -> int:
        """Return the minimum at farm time 0, ``starts`` seconds into the week."""
        now = [one for one in self.by_time if one.period.holds_at(0.0, starts)]
        return now[-1].min if now and now[-1].min is not None else self.min

    def _limits(self) -> Iterator[tuple[str, tuple[int, int]]]:
        yield "", (self.min, self.max)
        for number, one in enumerate(self.by_time):
            least = self.min if one.min is None else one.min
            yield f"by_time.{number}: ", (least, self.max if one.max is None else one.max)
