"""Files that are replaced whole."""

from pathlib import Path

import pytest

from farm.whole_files import draft_of, write_whole


def write_half(path: Path) -> None:
    """Write until the disk is full."""
    with draft_of(path) as draft:
        draft.write_bytes(b"ha")
        raise OSError("full")


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    """After an error too, of which no draft stays."""
    path = tmp_path / "a.json"
    write_whole(path, b"old")
    with draft_of(path) as draft:
        draft.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    with pytest.raises(OSError, match="full"):
        write_half(path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a.json", b"new")]
