"""Files that are replaced whole."""

import gc
from pathlib import Path

import pytest

from farm.whole_files import draft_of, pieces_of, write_whole


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


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("content", [b"", b"a", b"a\n", b"long line\n\nb\r\nno end", b"\n\n"])
def test_pieces_are_whole_lines(tmp_path: Path, size: int, content: bytes) -> None:
    """All of the file, in order; only the last one may lack its end."""
    path = tmp_path / "log"
    path.write_bytes(content)
    pieces = list(pieces_of(path, size))
    assert b"".join(pieces) == content
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])
    assert all(pieces)


def test_a_file_that_is_left_in_the_middle_is_closed(tmp_path: Path) -> None:
    """Also where its reader is part of a cycle: no warning, which would be an error here."""
    path = tmp_path / "log"
    path.write_bytes(b"a\nb\n")
    for _ in range(20):
        cycle: list[object] = [pieces_of(path, 1)]
        cycle.append(cycle)
        assert next(cycle[0]) == b"a\n"  # type: ignore[call-overload]
    del cycle
    gc.collect()
