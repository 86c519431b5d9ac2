"""What the figures of a sweep are of: versions, the digests of what was read, the user's code."""

from __future__ import annotations

import inspect
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from farm.app.inputs import code_of, digests_of
from farm.results.run_directory import digest_of, versions
from farm.scenario import Scenario

META, CODE = "meta.json", "code"


class SweepMeta(msgspec.Struct, frozen=True):
    """What meta.json of a sweep has."""

    python: str
    packages: dict[str, str]
    #: digests: of files by path, of code by the name that the scenario gives it
    inputs: dict[str, str]


class MadeFrom(msgspec.Struct, frozen=True):
    """The scenarios of a sweep, and functions of the caller that no other process can import."""

    scenarios: Sequence[Scenario] = ()
    functions: Mapping[str, Callable[..., object]] = {}

    def write(self, folder: Path) -> None:
        """Write meta.json, and the user's code into a folder of its own; raises OSError."""
        sources = dict(self._sources())
        inputs: dict[str, str] = {}
        for scenario in self.scenarios:
            inputs |= digests_of(scenario)
        inputs |= {name: digest_of(source.encode()) for name, source in sources.items()}
        meta = SweepMeta(platform.python_version(), versions(), inputs)
        (folder / META).write_bytes(msgspec.json.format(msgspec.json.encode(meta), indent=2))
        for name, source in sources.items():
            (folder / CODE).mkdir(exist_ok=True)
            stem = re.sub(r"[^\w.]+", "-", name).strip("-")
            (folder / CODE / f"{stem}.py").write_text(source, encoding="utf-8")

    def _sources(self) -> Iterator[tuple[str, str]]:
        """Yield code by the name that the scenario gives it; none for what was typed."""
        for scenario in self.scenarios:
            for name, source in code_of(scenario):
                if source and name not in self.functions:
                    yield name, source
        for name, function in self.functions.items():
            with suppress(OSError, TypeError):
                yield name, inspect.getsource(function)
