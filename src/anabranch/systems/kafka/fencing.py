"""Fences lanes in Kafka: after a fence, nothing more from a process with a lower epoch can become visible."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
from confluent_kafka import KafkaException

from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError, FencedError, StateError
from anabranch.systems.kafka import markers
from anabranch.systems.kafka.holder import PATIENCE, Holder, passes
from anabranch.systems.kafka.markers import Marker, Markers

__all__ = ["fence", "fenced", "successor", "unmarked"]

_THREADS = 8


def fence(
    settings: KafkaSettings,
    job: str,
    lane: str,
    group: str,
    slots: range,
    epoch: int,
    *,
    new: bool | None,
    closed: bool = False,
    opens: bool = False,
) -> dict[int, Marker]:
    """Make a lane's slots refuse every epoch lower than ``epoch``, and return each slot's marker. Also abort the slots'
    open transactions, so that readers don't wait for them. The function is idempotent: after an error, call it again.

    Args:
        group: the lane's output group.
        epoch: the epoch that the markers will have.
        new: whether no batch of the lane was ever planned; None if unknown. If ``new`` is True or None, missing markers
            are created.
        closed: whether to close the slots. Closed slots refuse even the process with ``epoch``.
        opens: whether to open closed slots again. This is necessary if the process with ``epoch`` still has something
            to write.

    Raises:
        FencedError: a process with a higher epoch has the lane.
        StateError: the lane is new, but one of its slots has a batch; or the lane isn't new, and a slot has no marker.
        AnabranchError: another process kept opening a slot, or the brokers don't answer.
    """

    def fence_slot(slot: int) -> Marker:
        deadline = time.monotonic() + PATIENCE
        while True:
            holder = Holder(settings, markers.transactional_id(settings.prefix, job, lane, group, slot))
            try:
                found = reader.read([slot])[slot]
                marker = successor(found, job, lane, slot, epoch, holder.instance, new=new, closed=closed, opens=opens)
                holder.begin()
                holder.mark(reader, slot, marker, deadline)
                holder.commit(deadline)
            except KafkaException as error:
                if not passes(error.args[0]) or time.monotonic() > deadline:
                    raise AnabranchError(
                        f"slot {slot} of lane {lane} of {job} can't be fenced at epoch {epoch}: {error.args[0].str()}",
                        "if another process keeps opening it, end that process; otherwise check the brokers; try again",
                    ) from error
            else:
                return marker
            finally:
                holder.drop()

    if new is not False:
        markers.prepare(settings, job, slots.stop)
    with Markers(settings, job, lane, group) as reader, ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(slots, pool.map(fence_slot, slots), strict=True))


def successor(
    found: Marker | None,
    job: str,
    lane: str,
    slot: int,
    epoch: int,
    instance: str,
    *,
    new: bool | None,
    closed: bool,
    opens: bool = False,
) -> Marker:
    """The marker that a fence writes in place of ``found``, which is a slot's current marker. ``found`` is None if the
    slot has no marker. ``instance`` is the producer that writes the new marker. For the other arguments and the errors,
    see :func:`fence`."""
    if found is None:
        if new is False:
            raise unmarked(job, lane, slot)
        return Marker(lane=lane, epoch=epoch, instance=instance, closed=closed)
    if found.epoch > epoch:
        raise fenced(job, lane, slot, epoch, f"epoch {found.epoch} has taken over")
    if new and found.batch > markers.NOTHING:
        raise StateError(
            f"lane {lane} of {job} is new, but its slot {slot} in Kafka holds batch {found.batch} of it",
            "the coordinator's store is an older copy: restore the newest one; going on would lose or repeat records",
        )
    return msgspec.structs.replace(found, epoch=epoch, instance=instance, closed=(found.closed and not opens) or closed)


def fenced(job: str, lane: str, slot: int, epoch: int, reason: str) -> FencedError:
    """The error for a process that must stop, because it no longer has the lane."""
    return FencedError(
        f"lane {lane} of {job}, epoch {epoch}, must not write to Kafka from its slot {slot}: {reason}",
        "nothing was written; this process must stop, the lane continues elsewhere",
    )


def unmarked(job: str, lane: str, slot: int) -> StateError:
    """The error for a slot that should have a marker, but has none."""
    return StateError(
        f"slot {slot} of lane {lane} of {job} has no marker in Kafka, so what it has written is not known: the marker "
        "expired (offsets.retention.minutes of the brokers) while the job was stopped or the lane had failed, or topic "
        f"{markers.topic(job)} or one of its groups was deleted",
        "going on could lose or repeat a batch: look at the ends of the output topics, then start a new job; keep "
        "offsets.retention.minutes above the longest time for which the job is stopped or a lane stays failed",
    )
