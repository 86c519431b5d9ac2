"""A real Prometheus for a test: on a free port of loopback, with data of its own."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

import yaml

from farm.live.redis.server import free_port

START_TIMEOUT = 30.0


class Prometheus:
    """Runs while its ``with`` block lasts; scrapes the targets every second.

    Args:
        targets: job -> address.
        files: a pattern of files that name more of them (file_sd_configs).
        rules: a file of alerts that it evaluates every second.
    """

    def __init__(
        self,
        binary: str,
        folder: Path,
        *,
        data: Path | None = None,
        targets: dict[str, str] | None = None,
        files: str | None = None,
        rules: Path | None = None,
    ) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._folder = folder
        config: dict[str, Any] = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [] if rules is None else [str(rules)],
            "scrape_configs": [
                {"job_name": name, "static_configs": [{"targets": [target]}]}
                for name, target in (targets or {}).items()
            ],
        }
        if files is not None:
            found = {"files": [files], "refresh_interval": "1s"}
            config["scrape_configs"].append({"job_name": "found", "file_sd_configs": [found]})
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        self._command = [
            binary,
            f"--config.file={file}",
            f"--storage.tsdb.path={data or folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--log.level=warn",
        ]

    def __enter__(self) -> Self:
        with (self._folder / "prometheus.log").open("w") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._is_ready():
            assert self._process.poll() is None, (self._folder / "prometheus.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)

    def query(self, expr: str, at: float | None = None) -> list[dict[str, Any]]:
        """Return the result of an instant query (now, or then); an error is an error."""
        return self._ask("query", query=expr, **({} if at is None else {"time": at}))

    def query_range(self, expr: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """Return the result of a range query."""
        return self._ask("query_range", query=expr, start=start, end=end, step=step)

    def rules(self) -> dict[str, dict[str, Any]]:
        """Return what became of each alert's rule: its state, health, last error."""
        (group,) = self._get("rules")["groups"]
        return {rule["name"]: rule for rule in group["rules"]}

    def _ask(self, what: str, **options: object) -> list[dict[str, Any]]:
        return self._get(f"{what}?{urllib.parse.urlencode(options)}")["result"]

    def _get(self, what: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/api/v1/{what}", timeout=10) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False
