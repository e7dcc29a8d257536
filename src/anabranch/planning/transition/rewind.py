"""Plans a rewind: a change whose new lanes begin at requested offsets if their predecessors have read beyond these
offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from anabranch.errors import StateError, UsageError
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, Position, Rewind
from anabranch.model.ssp import SSP
from anabranch.planning import stages
from anabranch.planning.ownership import positions
from anabranch.planning.transition import follow, opening
from anabranch.planning.transition.change import Change

__all__ = ["lacks_ends", "opened", "rewound", "sources", "undone"]


def sources(graph: Graph, lanes: Iterable[Lane]) -> list[SSP]:
    """The partitions that a job reads, except the partitions of its intermediate streams."""
    own = stages.intermediate_streams(graph)
    found = {ssp for lane in follow.heads(lanes) for ssp in lane.partitions if ssp.stream not in own}
    return sorted(found, key=lambda ssp: ssp.order)


def rewound(
    graph: Graph,
    model: JobModel,
    lanes: Mapping[str, Lane],
    to: Mapping[str, int],
    state: str | None,
    new_id: Callable[[], str],
) -> Change:
    """Plan the next generation, in which some partitions are read again. The arguments not listed here are those of
    :func:`anabranch.planning.transition.rescale.rescaled`.

    Args:
        to: the next offset to read, by whole SSP in text form. Other SSPs of input streams, and SSPs that haven't been
            read up to this offset yet, continue where they are.
        state: what to do with the state of the operators that get the repeated records: "keep" adds the records to the
            state, and "clear" lets the operators begin without state. None if no such operator has state.

    Raises:
        UsageError: ``state`` is None although there is state, or the state can't be cleared because it also depends on
            partitions that aren't rewound.
    """
    present = follow.heads(lanes.values())
    own = stages.intermediate_streams(graph)
    touched = [lane for lane in present if any(str(ssp) in to for ssp in lane.partitions)]
    reached = _reached(present, touched, own)
    holding = list(dict.fromkeys(lane.group for lane in reached if lane.stateful))
    if holding and state is None:
        raise UsageError(
            f"job {model.job!r} has state in {', '.join(holding)}, and its records would be processed a second time",
            "add --state clear, to begin as if nothing had been read before, or --state keep, to add the repeated "
            "records to the current state",
        )
    clear = bool(holding) and state == "clear"
    if clear:
        _check_clear(present, reached, own, to)
    closing = reached if clear else touched
    after = tuple(lane.id for lane in closing) if clear else ()
    new = _followers(present, closing, Rewind(to=dict(to), clear=clear, after=after), new_id)
    return Change(
        model=msgspec.structs.replace(
            model,
            generation=model.generation + 1,
            rewound=tuple(lane.id for lane in new),
            expands=(),
            request="",
            undoes=0,
        ),
        closing=tuple(lane.id for lane in closing),
        lanes=tuple(new),
    )


def undone(model: JobModel, lanes: Mapping[str, Lane], new_id: Callable[[], str]) -> Change:
    """Plan the generation that undoes a rewind. It closes the lanes that the rewind made, and gives each a successor.

    A stateful successor continues with the state and the positions of the lane from before the rewind. A stateless
    successor begins at the later of two positions: the one at which the lane from before the rewind ended, and the one
    at which the rewind's lane ended.

    Args:
        model: the current generation, which the rewind made.
        lanes: all lanes of the deployment, by id.
        new_id: returns 8 random hex digits per call.
    """
    present = follow.heads(lanes.values())
    closing = [lane for lane in present if lane.id in model.rewound]
    return Change(
        model=msgspec.structs.replace(model, generation=model.generation + 1, rewound=(), expands=(), request=""),
        closing=tuple(lane.id for lane in closing),
        lanes=tuple(_followers(present, closing, Rewind(back=True), new_id)),
    )


def opened(lane: Lane, lanes: Mapping[str, Lane]) -> Lane:
    """Fill in a lane's start offsets. The lane's predecessors must be closed, and so must all other lanes for which the
    lane waits.

    Raises:
        StateError: as for :func:`anabranch.planning.transition.opening.opened`.
    """
    how = lane.rewind
    if how is None:
        return opening.opened(lane, lanes)
    if how.back:
        (rewound,) = (lanes[name] for name in lane.predecessors)
        before = msgspec.structs.replace(lane, predecessors=rewound.predecessors)
        found = opening.opened(before, lanes)
        read = {position.ssp: position.offset for position in rewound.final}
        starting = tuple(_beyond(position, lane, read) for position in found.starting)
        return msgspec.structs.replace(found, predecessors=lane.predecessors, starting=starting)
    found = opening.opened(lane, lanes)
    ends = _ends(lanes[name] for name in how.after)
    starting = tuple(_lowered(position, lane, how, ends) for position in found.starting)
    if how.clear:
        return msgspec.structs.replace(found, starting=starting, first_batch=0, watermark=None)
    return msgspec.structs.replace(found, starting=starting)


def lacks_ends(lane: Lane, lanes: Iterable[Lane]) -> bool:
    """Whether a lane that has ended must run once more before it can be closed. The lane must do so if one of ``lanes``
    begins where the lane's intermediate streams ended, but the lane hasn't reported these end offsets. (A lane normally
    reports these end offsets when it closes. The end offsets are missing if the container ended, or lost the lane,
    before the container knew that the lane had to close.)
    """
    return not lane.wrote and any(
        each.rewind is not None
        and each.rewind.clear
        and lane.id in each.rewind.after
        and not lane.outputs.keys().isdisjoint(_streams(each))
        for each in lanes
    )


def _lowered(position: Position, lane: Lane, how: Rewind, ends: Mapping[str, int]) -> Position:
    whole = str(position.ssp.whole)
    if whole in how.to and position.ssp in lane.broadcast:
        return positions.all_at(position, lambda at: min(at, how.to[whole]))
    if whole in how.to:
        return positions.lowered(position, lane.factor, how.to[whole])
    if not how.clear:
        return position
    if whole not in ends:
        raise StateError(
            f"lane {lane.id} begins where {whole} ended, but no lane that wrote it has reported that offset",
            "restore a copy of the store",
        )
    return Position(ssp=position.ssp, offset=ends[whole])


def _beyond(position: Position, lane: Lane, read: Mapping[SSP, int]) -> Position:
    """The position at which a lane that undoes a rewind begins to read an SSP. A stateful lane begins at ``position``,
    because it takes over the state from before the rewind. A stateless lane begins at the later of ``position`` and the
    rewound lane's offset.

    Args:
        position: where the lane from before the rewind ended.
        read: the offsets at which the rewound lane ended, by whole SSP.
    """
    whole = position.ssp.whole
    if lane.stateful or whole not in read:
        return position
    if position.ssp in lane.broadcast:
        return positions.all_at(position, lambda at: max(at, read[whole]))
    return positions.after(position, lane.factor, read[whole])


def _ends(wrote: Iterable[Lane]) -> dict[str, int]:
    found: dict[str, int] = {}
    for lane in wrote:
        for ssp, end in lane.wrote.items():
            found[ssp] = max(end, found.get(ssp, end))
    return found


def _streams(lane: Lane) -> set[str]:
    return {ssp.stream for ssp in (*lane.ssps, *lane.broadcast)}


def _reached(present: Sequence[Lane], touched: Sequence[Lane], own: Collection[str]) -> list[Lane]:
    """The lanes ``touched``, and all lanes that get records from them through intermediate streams."""
    found, queue = {lane.id for lane in touched}, list(touched)
    while queue:
        written = queue.pop().outputs.keys() & own
        for lane in present:
            if lane.id not in found and not written.isdisjoint(_streams(lane)):
                found.add(lane.id)
                queue.append(lane)
    return [lane for lane in present if lane.id in found]


def _check_clear(present: Sequence[Lane], reached: Sequence[Lane], own: Collection[str], to: Mapping[str, int]) -> None:
    """Raise UsageError unless all records on which the cleared state depends are read again."""
    writers = [lane for lane in present if any(not lane.outputs.keys().isdisjoint(_streams(each)) for each in reached)]
    concerned = {lane.id: lane for lane in (*reached, *writers)}
    left = {
        ssp for lane in concerned.values() for ssp in lane.partitions if ssp.stream not in own and str(ssp) not in to
    }
    others = [lane for lane in writers if lane.id not in {each.id for each in reached}]
    if left or others:
        named = ", ".join(map(str, sorted(left, key=lambda ssp: ssp.order)[:3])) or others[0].group
        raise UsageError(
            f"state can't be cleared: it also depends on {named}, which would not be read again",
            "give offsets for all partitions on which the state depends, or --to earliest; or --state keep",
        )


def _followers(present: Sequence[Lane], closing: Sequence[Lane], how: Rewind, new_id: Callable[[], str]) -> list[Lane]:
    """For each lane that closes, a new lane that continues the same work."""
    ids = {lane.id: f"{lane.stage}-{new_id()}" for lane in closing}
    beside: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    for lane in present:
        its = beside.setdefault((lane.stage, lane.group), {})
        its.update({ids[lane.id]: (lane.id,)} if lane.id in ids else {lane.id: lane.speaks_for})
    return follow.fed([_follower(lane, ids[lane.id], beside[lane.stage, lane.group], how) for lane in closing])


def _follower(lane: Lane, name: str, beside: dict[str, tuple[str, ...]], how: Rewind) -> Lane:
    return msgspec.structs.replace(follow.as_planned(lane), id=name, predecessors=(lane.id,), beside=beside, rewind=how)
