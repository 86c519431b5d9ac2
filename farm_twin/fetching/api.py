"""An HTTP API that answers in pages of JSON: asked with patience, and within its rate limits.

An API refuses who asks too often and says until when, fails at times, and names the next page in a
header. A caller sees none of that: it gets pages, or one sentence about what stands in the way. The
token goes to the API's own host only: neither a redirect nor the link of a next page may name
another one.
"""

from __future__ import annotations

import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.message import Message
from ipaddress import ip_address
from typing import Any, NoReturn
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec

from farm.core.errors import FarmError, InputError
from farm.units import format_time

#: seconds for the answer to one request
TIMEOUT = 60.0
#: pauses in seconds before a request is sent again that failed, or that the API could not answer
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
#: seconds that a rate limit is waited out at most; those in use begin anew within an hour
MAX_RATE_LIMIT_WAIT = 3700.0
#: seconds of a pause for a refusal that does not say how long it lasts, as GitHub asks for
UNTOLD_PAUSE = 60.0
#: seconds after the named end of a limit, since clocks differ
CLOCK_MARGIN = 1.0
#: bytes of one answer; a page of a hundred runs or builds has some megabytes
MAX_ANSWER = 200_000_000
#: characters of an API's own words that a message repeats
MAX_REASON = 200

_NEXT_LINK = re.compile(r'<([^<>]*)>\s*;[^<]*\brel="?next"?')


class ApiError(FarmError):
    """An API that cannot be reached, or that refuses what it was asked for."""

    exit_code = 2


class NotThereError(ApiError):
    """The API knows nothing of this name, or shows it to other users only."""


class ForbiddenError(ApiError):
    """The token may not read this, or it is switched off (a project without CI)."""


class RefusedRequestError(ApiError):
    """The API does not answer this request, as for a page too far from the first one."""


class Page(msgspec.Struct, frozen=True):
    """One answer: its JSON, and what its headers say of others."""

    body: Any
    #: the address of the next page; empty: this is the last one
    next_url: str = ""
    #: how many records all pages together have, if a header says so
    total: int | None = None


class Api:
    """Asks one API; ``headers`` carry the token, and are sent to ``base`` only.

    ``token_name`` is the environment variable of the token, for messages. ``on_wait`` is given a
    sentence when a rate limit is waited out; ``pause`` waits, and ``now`` tells the time in seconds
    since 1970. Raises InputError for an address that would send the token in the clear.
    """

    def __init__(
        self,
        base: str,
        headers: Mapping[str, str],
        token_name: str,
        on_wait: Callable[[str], None] = lambda _: None,
        pause: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._base = base.rstrip("/") + "/"
        self._origin = _origin_of(self._base)
        self._headers = {"Accept": "application/json", "User-Agent": "build-farm-emulator"}
        self._headers.update(headers)
        self._token_name = token_name
        self._on_wait, self._pause, self._now = on_wait, pause, now
        handlers: list[urllib.request.BaseHandler] = [_SameHostRedirects(self._origin)]
        if self._origin[0] == "http":
            # this machine itself: a proxy would get the token in the clear
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str, **parameters: object) -> Page:
        """Return the answer to a request; ``path`` is below the base, or a page's ``next_url``.

        Raises ApiError.
        """
        url = urljoin(self._base, path)
        if parameters:
            url += "?" + urlencode(parameters)
        if _origin_of(url) != self._origin:
            raise ApiError(
                f"{self._base}: the next page is said to be at {url:.100}; "
                "allowed: the same host, since no other one gets the token"
            )
        failure = ""
        for pause in (0.0, *PAUSES):
            if pause:
                self._pause(pause)
            try:
                return self._answer(url)
            except _TryAgainError as error:
                failure = str(error)
        raise ApiError(f"{url}: {failure} ({len(PAUSES) + 1} attempts)")

    def pages(self, path: str, **parameters: object) -> Iterator[Page]:
        """Yield the pages of a list, the first one first. Raises ApiError."""
        page = self.get(path, **parameters)
        yield page
        while page.next_url:
            page = self.get(page.next_url)
            yield page

    def _answer(self, url: str) -> Page:
        """Return the answer to a request, after the rate limit if there is one."""
        waited = 0.0
        while True:
            request = urllib.request.Request(url, headers=self._headers)  # noqa: S310 - see _origin_of
            try:
                status, headers, text = self._exchange(request)
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", None) or error
                raise _TryAgainError(f"cannot be reached: {reason}") from None
            if status < 300:
                return self._page_of(url, text, headers)
            wait = self._rate_limit_wait(status, headers, text)
            if wait is None:
                self._refuse(url, status, text)
            if waited + wait > MAX_RATE_LIMIT_WAIT:
                raise ApiError(
                    f"{self._base}: the rate limit of this token is used up for another "
                    f"{format_time(wait)}: run the same command later, which continues from here"
                )
            end = datetime.fromtimestamp(self._now() + wait, UTC)
            self._on_wait(f"the rate limit is used up until {end:%H:%M:%S} UTC: waiting")
            self._pause(wait)
            waited += wait

    def _exchange(self, request: urllib.request.Request) -> tuple[int, Message, bytes]:
        """Return status, headers and content of an answer; raises OSError, HTTPException."""
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                return answer.status, answer.headers, answer.read(MAX_ANSWER + 1)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read(MAX_ANSWER)

    def _rate_limit_wait(self, status: int, headers: Message, text: bytes) -> float | None:
        """Return for how many seconds the API takes no request; None: the refusal is no limit."""
        if status not in (403, 429):
            return None
        if (after := _number(headers["Retry-After"])) is not None:
            return after + CLOCK_MARGIN
        remaining = headers["X-RateLimit-Remaining"] or headers["RateLimit-Remaining"]
        reset = _number(headers["X-RateLimit-Reset"] or headers["RateLimit-Reset"])
        if remaining == "0" and reset is not None:
            # an instant, or (of Buildkite) the seconds from now on
            left = reset - self._now() if reset > MAX_RATE_LIMIT_WAIT else reset
            return max(0.0, left) + CLOCK_MARGIN
        if status == 429 or b"rate limit" in text.lower():
            return UNTOLD_PAUSE
        return None

    def _refuse(self, url: str, status: int, text: bytes) -> NoReturn:
        """Raise the error of an answer that is none."""
        if status >= 500:
            raise _TryAgainError(f"answers with status {status}")
        if status == 401:
            raise ApiError(f"{self._base}: refuses the token in {self._token_name}")
        if status == 403:
            raise ForbiddenError(
                f"{url}: refused ({_reason_in(text)}): the token in {self._token_name} "
                "may not read it, or it is switched off"
            )
        if status == 404:
            raise NotThereError(f"{url}: not found, or not shown to this token")
        raise RefusedRequestError(f"{url}: refused with status {status} ({_reason_in(text)})")

    def _page_of(self, url: str, content: bytes, headers: Message) -> Page:
        if len(content) > MAX_ANSWER:
            raise ApiError(f"{url}: found an answer of over {MAX_ANSWER:,} bytes")
        try:
            body = msgspec.json.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ApiError(
                f"{url}: found an answer that is no JSON; is {self._base} the address of the API?"
            ) from None
        link = _NEXT_LINK.search(headers["Link"] or "")
        total = _number(headers["X-Total"])
        return Page(body, link[1] if link else "", None if total is None else int(total))


class _TryAgainError(Exception):
    """A failure that may be over soon."""


class _SameHostRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects (a repository was renamed) that stay on the API's host."""

    def __init__(self, origin: tuple[str, str]) -> None:
        self._origin = origin

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        """Return the request that follows a redirect."""
        if _origin_of(newurl) != self._origin:
            fp.close()
            raise ApiError(
                f"{req.full_url}: redirects to {newurl:.100}; allowed: the same host, "
                "since no other one gets the token"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _origin_of(url: str) -> tuple[str, str]:
    """Return scheme and host; raises InputError for one that a token must not be sent to."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return parts.scheme, parts.netloc
    if parts.scheme == "http" and _is_loopback(parts.hostname or ""):
        return parts.scheme, parts.netloc
    raise InputError(f"--api: found {url!r:.100}; allowed: an address that begins with https://")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _number(text: str | None) -> float | None:
    """Return a header's number; None if there is none (Retry-After may also be a date)."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0.0 <= number < 1e12 else None


def _reason_in(text: bytes) -> str:
    """Return an API's own words about a refusal."""
    try:
        body = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "no reason given"
    reason = body.get("message") or body.get("error") if isinstance(body, dict) else None
    return " ".join(str(reason).split())[:MAX_REASON] if reason else "no reason given"
