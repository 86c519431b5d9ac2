"""What these tests share with all others."""

from tests.conftest import farm, kernel

__all__ = ["farm", "kernel"]
