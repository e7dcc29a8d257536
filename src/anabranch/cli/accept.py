"""``anabranch accept``: lets a stopped job continue with an input that was deleted and created again, or has lost
records that the job had already read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch import config as configuration
from anabranch.cli import connect, options, output, progress
from anabranch.config import Settings
from anabranch.coordinator.maintenance import stopped_job
from anabranch.coordinator.store import Store
from anabranch.errors import UsageError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane
from anabranch.systems.systems import Systems

if TYPE_CHECKING:
    from anabranch.container.checkpoint.acceptance import Acceptance

_AT_REST = {DeploymentState.STOPPED, DeploymentState.FAILED}


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
    if not yes:
        raise UsageError("nothing was changed", f"to do it: anabranch accept {job} {stream} --yes")
    progress.say(f"job {job} continues with the stream {stream} as it is, when it is started again")


def _readers(store: Store, job: str, stream: str) -> list[Lane]:
    """The lanes that read the stream, and have a folder. Raises UsageError if no lane reads the stream."""
    lanes = stopped_job.resting(store, job, _AT_REST, "stopped or has failed can accept a stream")
    if any(stream in lane.outputs for lane in lanes):
        raise UsageError(f"job {job!r} writes {stream} itself", "only an input from outside can be accepted")
    reading = [lane for lane in lanes if any(ssp.stream == stream for ssp in (*lane.ssps, *lane.broadcast))]
    if not reading:
        own = {stream for lane in lanes for stream in lane.outputs}
        inputs = sorted({ssp.stream for lane in lanes for ssp in (*lane.ssps, *lane.broadcast)} - own)
        raise UsageError(f"job {job!r} doesn't read {stream}", f"it reads {', '.join(inputs)}")
    return [lane for lane in reading if lane.folder_epoch]


def _accepted(
    store: Store, its: Settings, lanes: Sequence[Lane], stream: str, *, yes: bool, quiet: bool
) -> list[Acceptance]:
    """Look at the lanes' folders and, if ``yes``, give lanes folders that continue with the stream as it is.

    Raises:
        UsageError: all lanes can continue with the stream as it is.
    """
    from anabranch.container.checkpoint import acceptance
    from anabranch.container.checkpoint.folder import Folder
    from anabranch.spark.session import session

    progress.say("looking at the lanes' folders with Spark ...")
    spark = session.for_schemas(its, "")
    try:
        systems = Systems(its, lanes[0].job if lanes else "")

        def folder(lane: Lane, epoch: int) -> Folder:
            return Folder(spark, f"{its.storage.root}/{lane.job}/{lane.id}/{epoch}", systems.streams_by_topic)

        looks = [
            acceptance.look(folder(lane, lane.folder_epoch), lane, stream, systems.named(_system(lane, stream)))
            for lane in lanes
        ]
        found = [each for each in looks if each is not None]
        if not found:
            raise UsageError(
                f"there is nothing to accept: the stream {stream} is the one that the job reads, and has all that the "
                "job has read of it",
                "start the job",
            )
        for line in () if quiet else _summary(found):
            typer.echo(line)
        if yes:
            _rewrite(store, systems, found, {each.lane.id: folder for each in found})
        return found
    finally:
        session.stop(spark)


def _rewrite(store: Store, systems: Systems, found: Sequence[Acceptance], folders: Mapping[str, Any]) -> None:
    from anabranch.container.checkpoint import acceptance

    why = f"the user accepts {found[0].stream} as it is"
    begun = stopped_job.begun(store, [each.lane for each in found], time.time(), "accept", why)
    for lane, each in zip(begun, found, strict=True):
        published = -1
        if each.folder.pending:
            systems.recover(each.lane, lane.epoch, new=None)
            published = systems.published(each.lane)
        acceptance.rewrite(each, folders[lane.id](lane, lane.epoch).uri, published)
    replaced = [(acceptance.continued(lane, each), why) for lane, each in zip(begun, found, strict=True)]
    stopped_job.replaced(store, replaced, time.time(), "accept")
    for each in found:
        each.folder.remove()


def _system(lane: Lane, stream: str) -> str:
    return next(ssp.system for ssp in (*lane.ssps, *lane.broadcast) if ssp.stream == stream)


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
