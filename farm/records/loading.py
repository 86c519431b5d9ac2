"""Loads records: those in a bundle, or in the files of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path

from farm.core.errors import InputError
from farm.records.bundle import Bundle, read_bundle, refuse_other_folder
from farm.records.importing import import_files
from farm.records.reading import OnRead, unseen


def load_records(
    paths: Sequence[Path],
    source: str | None = None,
    fields: Mapping[str, str] | None = None,
    zone: tzinfo | None = None,
    on_read: OnRead = unseen,
) -> Bundle:
    """Return the records in a bundle, or in the files of a source. Raises TraceError.

    ``on_read`` is told how much of the files is read, 0 to 1.
    """
    bundles = [path for path in paths if path.is_dir()]
    if not bundles:
        return import_files(paths, source, fields, zone, on_read)
    refuse_other_folder(bundles[0])
    if len(paths) > 1 or source is not None or fields:
        raise InputError(
            f"{bundles[0]}: found a bundle beside other files or options; allowed: one bundle, "
            "or the files of one source"
        )
    return read_bundle(bundles[0])
