"""What these tests share with all others."""

from tests.conftest import farm

__all__ = ["farm"]
