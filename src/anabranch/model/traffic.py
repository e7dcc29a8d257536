"""The traffic between racks."""

from __future__ import annotations

from anabranch.model.document import Document

__all__ = ["Traffic"]


class Traffic(Document, frozen=True, kw_only=True):
    """How many partitions are read within each rack and between racks. ``read[a][b]`` is the number of partitions that
    containers in rack ``a`` read from rack ``b``. A partition counts once for each lane that reads the partition.
    """

    read: dict[str, dict[str, int]]

    @property
    def total(self) -> int:
        return sum(sum(row.values()) for row in self.read.values())

    @property
    def across(self) -> int:
        """The number of partitions that are read from another rack."""
        return self.total - sum(row.get(rack, 0) for rack, row in self.read.items())
