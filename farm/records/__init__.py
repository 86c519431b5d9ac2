"""What really happened on other farms: importers, one per source, and the bundle they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path

from farm.core.errors import InputError
from farm.records.bundle import Bundle, is_bundle, read_bundle
from farm.records.importing import import_files


def load_records(
    paths: Sequence[Path],
    source: str | None = None,
    fields: Mapping[str, str] | None = None,
    zone: tzinfo | None = None,
) -> Bundle:
    """Return the records in a bundle, or in the files of a source. Raises TraceError."""
    bundles = [path for path in paths if is_bundle(path)]
    if not bundles:
        return import_files(paths, source, fields, zone)
    if len(paths) > 1 or source is not None or fields:
        raise InputError(
            f"{bundles[0]}: found a bundle beside other files or options; allowed: one bundle, "
            "or the files of one source"
        )
    return read_bundle(bundles[0])


__all__ = ["Bundle", "import_files", "load_records"]
