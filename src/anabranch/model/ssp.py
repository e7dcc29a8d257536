"""SSP: system, stream, partition and key bucket, the smallest unit that a task can own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

from anabranch.errors import UsageError
from anabranch.model.document import Document

WHOLE = -1
in_order: Callable[[SSP], tuple[str, str, int, int]] = attrgetter("system", "stream", "partition", "key_bucket")


class SSP(Document, frozen=True, kw_only=True):
    """A partition of a stream, or one bucket of a partition. ``key_bucket`` is -1 for the whole partition."""

    system: str
    stream: str
    partition: int
    key_bucket: int = WHOLE

    def __post_init__(self) -> None:
        if not self.system or not self.stream or "/" in self.system or "/" in self.stream:
            names = (("system", self.system), ("stream", self.stream))
            word, name = next((word, name) for word, name in names if not name or "/" in name)
            raise UsageError(f"{word} name {name!r} is refused", "use a name that is not empty and has no slash")

    def __str__(self) -> str:
        whole = f"{self.system}/{self.stream}/{self.partition}"
        return whole if self.key_bucket == WHOLE else f"{whole}#{self.key_bucket}"

    @property
    def order(self) -> tuple[str, str, int, int]:
        """The sort key of SSPs: partitions and buckets by number, not by text."""
        return in_order(self)

    @property
    def whole(self) -> SSP:
        """The whole partition of this SSP."""
        return (
            self if self.key_bucket == WHOLE else SSP(system=self.system, stream=self.stream, partition=self.partition)
        )

    @classmethod
    def parse(cls, text: str) -> SSP:
        """The inverse of ``str``: ``system/stream/partition`` or ``system/stream/partition#bucket``. Raises UsageError
        if the text has another form."""
        try:
            system, stream, rest = text.split("/")
            partition, _, bucket = rest.partition("#")
            return cls(system=system, stream=stream, partition=int(partition), key_bucket=int(bucket or WHOLE))
        except ValueError as error:
            raise UsageError(
                f"{text!r} is not an SSP", "write system/stream/partition, as in embedded/flights/3"
            ) from error


def wholes(ssps: Iterable[SSP]) -> list[SSP]:
    """The whole partition of each SSP, in the same order. All buckets of a partition get the same object."""
    known: dict[tuple[str, str, int], SSP] = {}
    found = []
    for ssp in ssps:
        partition = ssp.system, ssp.stream, ssp.partition
        if partition not in known:
            known[partition] = ssp.whole
        found.append(known[partition])
    return found


def texts(offsets: Mapping[SSP, int]) -> dict[str, int]:
    """The offsets, with each SSP replaced by its text form, as in messages. The result is sorted by SSP."""
    return {str(ssp): offsets[ssp] for ssp in sorted(offsets, key=lambda ssp: ssp.order)}


def parsed(offsets: Mapping[str, int]) -> dict[SSP, int]:
    """The inverse of :func:`texts`. Raises UsageError if a key isn't the text form of an SSP."""
    return {SSP.parse(text): offset for text, offset in offsets.items()}
