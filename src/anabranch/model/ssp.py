"""SSP: system, stream, partition and key bucket: the smallest unit a task can own."""

from __future__ import annotations

from anabranch.errors import UsageError
from anabranch.model.document import Document

WHOLE = -1


class SSP(Document, frozen=True, kw_only=True):
    """One partition of a stream, or one key bucket of it (``key_bucket = -1``: the whole partition)."""

    system: str
    stream: str
    partition: int
    key_bucket: int = WHOLE

    def __post_init__(self) -> None:
        for word, name in (("system", self.system), ("stream", self.stream)):
            if not name or "/" in name:
                raise UsageError(f"{word} name {name!r} is refused", "use a name that is not empty and has no slash")

    def __hash__(self) -> int:
        return hash((self.system, self.stream, self.partition, self.key_bucket))

    def __str__(self) -> str:
        whole = f"{self.system}/{self.stream}/{self.partition}"
        return whole if self.key_bucket == WHOLE else f"{whole}#{self.key_bucket}"

    @property
    def order(self) -> tuple[str, str, int, int]:
        """What SSPs are sorted by: partitions and buckets by number, not by text."""
        return (self.system, self.stream, self.partition, self.key_bucket)

    @property
    def whole(self) -> SSP:
        """The partition that this SSP is, or is a bucket of."""
        return (
            self if self.key_bucket == WHOLE else SSP(system=self.system, stream=self.stream, partition=self.partition)
        )

    @classmethod
    def parse(cls, text: str) -> SSP:
        """The inverse of ``str``: ``system/stream/partition`` or ``system/stream/partition#bucket``."""
        try:
            system, stream, rest = text.split("/")
            partition, _, bucket = rest.partition("#")
            return cls(system=system, stream=stream, partition=int(partition), key_bucket=int(bucket or WHOLE))
        except ValueError as error:
            raise UsageError(
                f"{text!r} is not an SSP", "write system/stream/partition, as in embedded/flights/3"
            ) from error
