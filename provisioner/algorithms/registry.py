"""The registry of algorithms, and their construction from a scenario's options.

To add an algorithm: one file and one line here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from farm.core.errors import InputError, did_you_mean, not_among
from farm.core.registry import Registry
from provisioner.algorithms.sizing import AnySizing

ALGORITHMS: Registry[type[AnySizing]] = Registry(
    {
        "fixed": "provisioner.algorithms.fixed:Fixed",
        "manual": "provisioner.algorithms.manual:Manual",
        "taskcluster": "provisioner.algorithms.taskcluster:Taskcluster",
        "keda": "provisioner.algorithms.keda:Keda",
        "target-wait": "provisioner.algorithms.target_wait:TargetWait",
        "arc": "provisioner.algorithms.arc:Arc",
        "buildkite": "provisioner.algorithms.buildkite:Buildkite",
        "gitlab": "provisioner.algorithms.gitlab:Gitlab",
        "buildbarn": "provisioner.algorithms.buildbarn:Buildbarn",
        "jenkins": "provisioner.algorithms.jenkins:Jenkins",
        "predictive": "provisioner.algorithms.predictive:Predictive",
    }
)

ParseTime = Callable[[object], float]


def make_algorithm(
    name: str | type[AnySizing],
    options: Mapping[str, object] | None = None,
    *,
    where: str = "provisioner",
    parse_time: ParseTime | None = None,
) -> AnySizing:
    """Make the named algorithm with its options (min, max and interval are options of all).

    Instead of a name it may be a user's algorithm class, already loaded.
    ``parse_time`` reads options that are times, such as 5m; without it they are seconds. Raises
    InputError that names the option (after ``where``), what was found and what is allowed.
    """
    kind = ALGORITHMS.get(name) if isinstance(name, str) else name
    if kind is None:
        raise InputError(f"{where}.algorithm: {not_among(str(name), ALGORITHMS)}")
    name = name if isinstance(name, str) else kind.__name__
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    values = {}
    for key, given in (options or {}).items():
        if key not in fields:
            allowed = f"{did_you_mean(key, fields)}allowed: {', '.join(fields)}"
            raise InputError(f"{where}.{key}: {name} has no such option; {allowed}")
        values[key] = _value(given, fields[key], f"{where}.{key}", parse_time)
    for key, field in fields.items():
        if field.required and key not in values:
            raise InputError(f"{where}.{key}: missing; {name} needs it")
    try:
        return kind(**values)
    except ValueError as error:
        raise InputError(f"{where}.{error}") from None


def _value(
    given: object, field: msgspec.structs.FieldInfo, where: str, parse: ParseTime | None
) -> Any:
    if parse is not None and is_time(field):
        try:
            given = parse(given)
        except ValueError as error:
            raise InputError(f"{where}: {error}") from None
    if isinstance(given, float) and not math.isfinite(given):
        raise InputError(f"{where}: found {given}; expected a finite number")
    try:
        # mappings with numbers for keys come from JSON with text for keys
        return msgspec.convert(given, field.type, strict=not isinstance(given, Mapping))
    except msgspec.ValidationError as error:
        reason = str(error).split(" - at ")[0].replace("`", "")
        raise InputError(f"{where}: found {given!r}; {reason[:1].lower()}{reason[1:]}") from None


def is_time(field: msgspec.structs.FieldInfo) -> bool:
    """Return whether an option is a time in seconds."""
    info = msgspec.inspect.type_info(field.type)
    return isinstance(info, msgspec.inspect.Metadata) and (info.extra or {}).get("unit") == "s"
