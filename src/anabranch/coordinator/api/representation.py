"""Makes HTTP responses with ETags. Large responses are compressed if the client accepts gzip. Answers can be kept, and
reused for identical requests.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

__all__ = ["Representation", "ResponseCache", "knows", "respond", "tagged"]

_SMALL = 1_000
"""The number of bytes up to which answers aren't compressed."""
_LEVEL = 1
_MOST_KEPT = 64
_CLOCK = re.compile(rb'"at":[0-9.e+-]+,?')
_HEAD = 60
_MARK = re.compile(r'-+(gzip|br|zstd|deflate)"$')


@dataclass(frozen=True)
class Representation:
    """The content of a response. ``etag`` identifies the content. If two contents differ only in the time at which they
    were made, they have the same ``etag``."""

    content: bytes
    media_type: str
    etag: str

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.content, _LEVEL)


def tagged(content: bytes, media_type: str, etag: str = "") -> Representation:
    """The representation of ``content``. The default of ``etag`` is a hash of the content, without the time at which
    the content was made.
    """
    if not etag:
        # Near its beginning, the content names the time at which it was made. This time isn't part of the hash.
        head = _CLOCK.sub(b"", content[:_HEAD], count=1)
        digest = hashlib.blake2b(head, digest_size=12)
        digest.update(memoryview(content)[_HEAD:])
        etag = f'"{digest.hexdigest()}"'
    return Representation(content, media_type, etag)


async def respond(request: Request, found: Representation) -> Response:
    """The response to a GET for the content of ``found``. If the client already has this content, the response has
    status 304 and no content."""
    # The ETag is weak, because compressed and uncompressed content have the same ETag.
    headers = {"ETag": f"W/{found.etag}", "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if knows(request, found.etag):
        return Response(status_code=304, headers=headers)
    content = found.content
    if len(content) > _SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        content = await run_in_threadpool(lambda: found.compressed)
        headers["Content-Encoding"] = "gzip"
    return Response(content, headers=headers, media_type=found.media_type)


def knows(request: Request, etag: str) -> bool:
    """Whether the client already has the content that an ETag identifies."""
    known = request.headers.get("if-none-match", "")
    # A proxy that compresses may have appended a mark to the ETag, and doesn't remove it from later requests.
    tags = (_MARK.sub('"', each.strip().removeprefix("W/")) for each in known.split(","))
    return any(tag in (etag, "*") for tag in tags)


@dataclass
class _Entry:
    key: str = ""
    until: float = 0.0
    answer: Representation | None = None
    building: asyncio.Lock = field(default_factory=asyncio.Lock)


class ResponseCache:
    """The last answers, by request. While an answer is kept and valid, all clients that send the same request get it.
    All uses of a cache must be on the same event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    async def get(
        self, asked: str, key: str, fresh_for: float, build: Callable[[], Awaitable[Representation]]
    ) -> Representation:
        """The stored answer, if it has this ``key`` and is still fresh; otherwise a new answer.

        Args:
            asked: the request. Identical requests have the same text.
            key: the state to which the answer belongs. An answer with another key is out of date.
            fresh_for: how many seconds a new answer stays fresh.
            build: creates a new answer.
        """
        entry = self._entries.setdefault(asked, _Entry())
        self._entries.move_to_end(asked)
        while len(self._entries) > _MOST_KEPT:
            self._entries.popitem(last=False)
        async with entry.building:
            if entry.answer is None or entry.key != key or self._clock() >= entry.until:
                entry.answer = await build()
                entry.key, entry.until = key, self._clock() + fresh_for
            return entry.answer
