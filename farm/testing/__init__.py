"""Tests of your own against this farm: fixtures for pytest, and what they hand out.

In the ``conftest.py`` at the root of your tests: ``pytest_plugins = ["farm.testing.fixtures"]``.
"""

from farm.testing.simulated import Simulated, simulated, small_scenario
from farm.testing.virtual_farm import VirtualFarm

__all__ = ["Simulated", "VirtualFarm", "simulated", "small_scenario"]
