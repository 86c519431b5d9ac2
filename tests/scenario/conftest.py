"""A small scenario to change, and a folder to write files in."""

from collections.abc import Callable
from pathlib import Path

import pytest

SMALL = """\
name: small
pools:
  - name: linux
    platform: {processor: amd64}
    slots: 2
    builders: 4
    boot_time: 30s
  - name: old
    platform: {processors: [i386], virtualized: false}
    provisioner: {algorithm: keda, max: 3, list_length: 5}
workload:
  - arrivals:
      name: people
      poisson: {rate: 0.5/s}
      count: 10
      platform: {processor: amd64}
      service_time: {exponential: {mean: 1m}}
scheduling:
  policy: sjf
  fair_share: [team, user]
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a scenario file; the small one by default."""

    def write_file(text: str = SMALL, name: str = "farm.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_file
