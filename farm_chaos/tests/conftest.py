"""What these tests share with all others."""

from tests.conftest import server

__all__ = ["server"]
