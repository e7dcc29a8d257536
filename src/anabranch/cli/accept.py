"""``anabranch accept``: lets a stopped job continue with an input that was deleted and created again, or has lost
records that the job had already read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch import config as configuration
from anabranch.cli import connect, options, output, progress
from anabranch.config import Settings
from anabranch.coordinator.maintenance import stopped_job
from anabranch.coordinator.store import Store
from anabranch.errors import StateError, UsageError
from anabranch.model.lane import Lane
from anabranch.systems.systems import Systems

if TYPE_CHECKING:
    from anabranch.container.checkpoint.acceptance import Acceptance


def accept(
    job: Annotated[str, typer.Argument(help="The name of a job that has stopped or failed.")],
    stream: Annotated[str, typer.Argument(help="The input, by the name that the job has for it.")],
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Accept the stream. Without this option, the verb only shows what would change."),
    ] = False,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Let a job continue with an input that was deleted and created again, or has lost its last records."""
    settings = configuration.load(config)
    with stopped_job.alone(settings.coordinator, job, progress.say) as store:
        lanes = _readers(store, job, stream)
        its = connect.stored_settings(settings, store, job)
        found = _accepted(store, its, lanes, stream, yes=yes, quiet=json)
    if json:
        output.as_json({"job": job, "stream": stream, "done": yes, "lanes": [_plain(each) for each in found]})
    if not yes and not json:
        raise UsageError("nothing was changed", f"to do it: anabranch accept {job} {stream} --yes")
    if yes:
        progress.say(f"job {job} continues with the stream {stream} as it is, when it is started again")


def _readers(store: Store, job: str, stream: str) -> list[Lane]:
    """The open lanes of a job. Raises UsageError if the job doesn't read ``stream``, or writes ``stream`` itself. Also
    raises the errors of :func:`stopped_job.ended`.
    """
    lanes = stopped_job.ended(store, job)
    own = {stream for lane in lanes for stream in lane.outputs}
    if stream in own:
        raise UsageError(f"job {job!r} writes {stream} itself", "only an input from outside can be accepted")
    inputs = sorted({ssp.stream for lane in lanes for ssp in (*lane.ssps, *lane.broadcast)} - own)
    if stream not in inputs:
        raise UsageError(f"job {job!r} doesn't read {stream}", f"it reads {', '.join(inputs)}")
    return lanes


def _accepted(
    store: Store, its: Settings, lanes: Sequence[Lane], stream: str, *, yes: bool, quiet: bool
) -> list[Acceptance]:
    """Find the lanes that can't continue with the stream as it is. Unless ``quiet``, print what would change for these
    lanes. If ``yes``, give the lanes new folders, with which they can continue.

    Raises:
        UsageError: all lanes can continue with the stream as it is.
        StateError: a lane's pending batch can be neither finished nor forgotten.
    """
    from anabranch.container.checkpoint import acceptance, claims
    from anabranch.container.checkpoint.folder import Folder
    from anabranch.spark.session import session

    progress.say("looking at the lanes' folders with Spark ...")
    spark = session.for_schemas(its, "")
    try:
        systems = Systems(its, lanes[0].job)
        read = ((ssp.system, ssp.stream) for lane in lanes for ssp in (*lane.ssps, *lane.broadcast))
        system = systems.named(next(system for system, name in read if name == stream))

        now = acceptance.StreamNow.of(system, stream)

        def folder(lane: str, epoch: int) -> Folder:
            return Folder(spark, f"{its.storage.root}/{lanes[0].job}/{lane}/{epoch}", systems.streams_by_topic)

        looks = (
            acceptance.look(
                folder(lane.id, lane.folder_epoch) if lane.folder_epoch else None,
                [folder(*each) for each in lane.inherits.items()],
                lane,
                now,
            )
            for lane in lanes
        )
        found = [each for each in looks if each is not None]
        if not found:
            raise UsageError(
                f"there is nothing to accept: the stream {stream} is the one that the job reads, and has all that the "
                "job has read of it",
                "start the job",
            )
        for line in () if quiet else _summary(found):
            typer.echo(line)
        _check_functions(store, found)
        if yes:
            readers = system.readers()
            if readers is not None:  # before the positions change: retention must keep what the job will read
                readers.hold(stream, lanes[0].job, _lowest(found))
            rewrite(store, systems, found, lambda lane: folder(lane.id, lane.epoch).uri)
        return found
    finally:
        claims.stop_session(spark)


def _lowest(found: Sequence[Acceptance]) -> dict[int, int]:
    """For each partition, the lowest offset at which a lane will continue."""
    lowest: dict[int, int] = {}
    for each in found:
        for partition, offset in (*each.to.items(), *each.limits.items()):
            lowest[partition] = min(offset, lowest.get(partition, offset))
    return lowest


def _check_functions(store: Store, found: Sequence[Acceptance]) -> None:
    """Raise StateError if a pending batch may have been passed to a ``foreach_batch`` function. The batch's records are
    gone, so the batch would be repeated under the same number with other rows, and the function would take these rows
    for the former ones.
    """
    for each in found:
        lane, folder = each.lane, each.folder
        if folder is None or not folder.pending:
            continue
        if any(node.kind == "foreach_batch" for node in store.graph(lane.job, lane.deployment).nodes):
            raise StateError(
                f"lane {lane.id} has begun batch {folder.planned()}, and may have given it to a foreach_batch "
                "function; its records are gone, so the batch can be neither finished nor forgotten",
                f"restore the former stream; or, to start as a new job: anabranch reset {lane.job}",
            )


def rewrite(store: Store, systems: Systems, found: Sequence[Acceptance], target: Callable[[Lane], str]) -> None:
    """Let lanes continue with the stream as it is. If this process is killed before it changes the lanes in the store,
    the only effect is that the lanes are fenced: the job still refuses the stream, and ``accept`` can be repeated.
    ``target`` returns the URI of a lane's new folder.

    Raises:
        StateError: a lane's pending batch can be neither finished nor forgotten. No lane has been changed.
    """
    from anabranch.container.checkpoint import acceptance

    why = f"the user accepts {found[0].stream} as it is"
    begun = stopped_job.begun(store, [each.lane for each in found], time.time(), "accept", why)
    published = [_published(systems, lane, each) for lane, each in zip(begun, found, strict=True)]
    for last, each in zip(published, found, strict=True):
        acceptance.check_published(each, last)
    for lane, each, last in zip(begun, found, published, strict=True):
        if each.folder is not None:
            acceptance.rewrite(each, target(lane), last)
    replaced = [(acceptance.continued(lane, each), why) for lane, each in zip(begun, found, strict=True)]
    stopped_job.replaced(store, replaced, time.time(), "accept")
    for each in found:
        if each.folder is not None:
            each.folder.remove()
            continue
        for former in each.former:
            former.note_stream(each.stream, each.id)  # the lane compares its inputs with these


def _published(systems: Systems, lane: Lane, found: Acceptance) -> int:
    """Fence a lane that has a pending batch. Returns the last batch of which at least a part is in an exactly-once
    output or a table; -1 if there is none, or if no batch is pending.
    """
    if found.folder is None or not found.folder.pending:
        return -1
    new = False if lane.took_outputs(found.folder.committed()) else None
    systems.recover(lane, lane.epoch, new=new)
    systems.fence_tables(lane, lane.epoch, new=new, foreign=True)
    return systems.published(lane)


def _summary(found: Sequence[Acceptance]) -> list[str]:
    stream = found[0].stream
    if found[0].anew:
        what = (
            f"the stream {stream} was deleted and created again since the job read it; of the former one, what the job"
        )
        lines = [f"{what} hasn't read is lost"]
    else:
        lines = [f"the stream {stream} has lost records that the job has already processed; their results stay"]
    for each in found:
        moves = (f"{p}: {each.at[p]} → {each.to[p]}" for p in sorted(each.to) if each.at[p] != each.to[p])
        lines.append(f"  lane {each.lane.id} continues at other offsets, by partition: {', '.join(moves) or 'none'}")
    return [*lines, "the job's state, windows and watermark stay, and later records are added to them"]


def _plain(found: Acceptance) -> dict[str, Any]:
    return {"lane": found.lane.id, "new": found.anew, "from": dict(found.at), "to": dict(found.to)}
