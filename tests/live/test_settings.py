"""Settings of the live world from the environment."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from farm.core.errors import InputError
from farm.live.settings import LiveSettings, child_environment, from_environment, host_environment
from farm.terminal.settings import with_password


def test_room_and_pool_come_from_the_environment():
    """And are passed on to a host's environment."""
    settings = from_environment(
        {"FARM_HOST": "box-{hostname}", "FARM_HOST_ROOM": "2", "FARM_HOST_POOL": "mac"}
    )
    assert (settings.room, settings.pool) == (2, "mac")
    assert "{" not in settings.host
    assert from_environment(host_environment(settings)) == settings
    assert from_environment({}).room == 0


@pytest.mark.parametrize("text", ["one", "-1", "1.5", "²"])
def test_a_room_that_is_no_number_is_an_error(text: str):
    """Otherwise the host would accept any number of builders."""
    with pytest.raises(InputError, match=r"FARM_HOST_ROOM: found '.*'; allowed: a number"):
        from_environment({"FARM_HOST_ROOM": text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("FARM_DRAIN_TIME", "soon"),
        ("FARM_DRAIN_TIME", "-1"),
        ("FARM_DRAIN_TIME", "inf"),
        ("FARM_DRAIN_TIME", "nan"),
        ("FARM_BEAT_INTERVAL", "0"),
    ],
)
def test_a_time_that_is_none_is_an_error(name: str, text: str):
    """It is not replaced by the default in silence, and no host beats without a pause."""
    with pytest.raises(InputError, match=rf"{name}: found '{text}'; allowed: a number of seconds"):
        from_environment({name: text})


def test_every_setting_reaches_a_host():
    """What one process knows, the host that it starts reads."""
    given = LiveSettings(
        redis_url="redis://h/0", prefix="p:", host="h", incarnation="i", room=2, pool="mac",
        ready_file="/r", journal="/j", drain_time=1.5, beat_interval=0.25, play="{}", burner="own",
        work_rates="cpu=1", metrics_port="1", metrics_address="0.0.0.0", metrics_targets="/t",
    )  # fmt: skip
    assert from_environment(host_environment(given)) == given
    assert len({*msgspec.to_builtins(given).values()}) == len(LiveSettings.__struct_fields__)
    # a missing one overrides its parent's: two processes would want one port
    missing = host_environment(LiveSettings())
    assert {missing[f"FARM_METRICS_{name}"] for name in ("PORT", "ADDRESS", "TARGETS")} == {""}


PLACE = "rediss://me@h:1/0?ssl_ca_certs=/ca.crt"


def test_a_password_is_kept_out_of_the_url(tmp_path: Path):
    """It comes from a file or a variable, with any characters; one in the URL takes precedence."""
    file = tmp_path / "me"
    file.write_text("a/b:c@d\n")
    by_file, by_word = {"FARM_REDIS_PASSWORD_FILE": str(file)}, {"FARM_REDIS_PASSWORD": "x y"}
    whole = "rediss://me:a%2Fb%3Ac%40d@h:1/0?ssl_ca_certs=/ca.crt"
    assert with_password(PLACE, environ=by_file) == whole
    assert with_password("redis://h", environ=by_word) == "redis://:x%20y@h"
    assert with_password("redis://me:own@h", environ=by_file) == "redis://me:own@h"
    assert with_password(PLACE, environ={}) == PLACE
    assert with_password(None, environ=by_file) is None
    settings = from_environment({"FARM_REDIS_URL": PLACE, **by_file})
    assert settings.redis_url == whole


@pytest.mark.parametrize("name", ["FARM_REDIS_PASSWORD", "FARM_REDIS_PASSWORD_FILE"])
def test_a_host_does_not_get_the_password_of_its_parent(name: str, monkeypatch: pytest.MonkeyPatch):
    """A provisioner's builders are another user: they have only their own URL."""
    monkeypatch.setenv(name, __file__)
    child = child_environment(LiveSettings(redis_url="redis://farm-builder@h/0"))
    assert from_environment(child).redis_url == "redis://farm-builder@h/0"


def test_an_impossible_url_is_left_to_the_connection():
    """The connection has the message, which lists what is allowed."""
    with_it = {"FARM_REDIS_URL": "redis://[x", "FARM_REDIS_PASSWORD": "y"}
    assert from_environment(with_it).redis_url == "redis://[x"


def test_a_password_file_that_cannot_be_read_is_an_error(tmp_path: Path):
    """With the name of the variable and of the file."""
    missing = {"FARM_REDIS_PASSWORD_FILE": str(tmp_path / "none")}
    with pytest.raises(InputError, match=r"FARM_REDIS_PASSWORD_FILE: .*/none cannot be read"):
        with_password(PLACE, environ=missing)
