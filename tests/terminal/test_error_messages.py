"""Messages of errors, whatever else is wrong."""

from __future__ import annotations

import io
import sys

import pytest

from farm.core.errors import InputError
from farm.terminal.error_messages import with_error_messages


class Terminal(io.StringIO):
    """A stream that shows colours."""

    def isatty(self) -> bool:
        return True


def test_a_message_needs_no_import(monkeypatch):
    """Without file descriptors nothing can be imported: the error was a traceback about that."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setitem(sys.modules, "farm.terminal.console", None)

    def command(**_: object) -> int:
        raise InputError("too many open files")

    with pytest.raises(SystemExit) as ended:
        with_error_messages(command)
    assert ended.value.code == 2
    assert terminal.getvalue() == "error: too many open files\n"
