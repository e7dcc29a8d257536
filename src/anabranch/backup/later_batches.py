"""Checks that outputs contain nothing that a restored job would write again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from anabranch.backup.manifest import Manifest
from anabranch.backup.moment import Moment
from anabranch.errors import ConflictError
from anabranch.systems.systems import Systems

__all__ = ["check"]

_CURE = (
    "the restored job would write those records again. Restore a newer backup, or set those outputs back to the time "
    "of this one; otherwise start the job as a new one, under another name or after `anabranch reset`: its positions "
    "and its state are lost then. Nothing was changed"
)


def check(systems: Systems, backup: Manifest, moment: Moment, restored: Collection[str]) -> None:
    """Check the outputs that won't be restored. These outputs must contain only batches that the backup knows. Later
    batches of the backup's lanes are unknown to the backup, and so are batches of lanes created afterwards.

    Args:
        moment: the job at the moment of the backup.
        restored: the streams that will be restored.

    Raises:
        ConflictError: an output contains a batch unknown to the backup.
    """
    planned = {each.lane: each.planned for each in backup.lanes if each.is_open}
    written: dict[str, set[str]] = {}
    for lane in moment.taking_part:
        outside = {output: count for output, count in lane.outputs.items() if output not in restored}
        if not outside:
            continue
        seen = systems.published(msgspec.structs.replace(lane, outputs=outside))
        knows = planned.get(lane.id, lane.last_batch)
        if seen > knows:
            raise _written_since(backup, lane.id, outside, seen, knows)
        for output in outside:
            written.setdefault("" if systems.is_table(output) else lane.system(output), set()).add(output)
    for name, outputs in written.items():
        for writer, where in systems.writers(name, backup.job, sorted(outputs)).items():
            if writer not in moment.lanes:
                raise _unknown(backup, writer, where)


def _written_since(backup: Manifest, lane: str, outputs: Mapping[str, int], seen: int, knows: int) -> ConflictError:
    which = f"{'the output' if len(outputs) == 1 else 'one of the outputs'} {', '.join(sorted(outputs))}"
    until = f"ends with batch {knows}" if knows >= 0 else "contains none of its batches"
    return ConflictError(
        f"{which} already contains batch {seen} of lane {lane}, but the backup of job {backup.job!r} {until}: "
        "the later batches were written after the backup was made",
        _CURE,
    )


def _unknown(backup: Manifest, lane: str, where: str) -> ConflictError:
    return ConflictError(
        f"{where} already contains batches of lane {lane}, which isn't in the backup of job {backup.job!r}: the lane "
        "was started after the backup was made",
        _CURE,
    )
