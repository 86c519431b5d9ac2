"""What these tests share with all others."""

from tests.conftest import farm, kernel, server, tool, traces

__all__ = ["farm", "kernel", "server", "tool", "traces"]
