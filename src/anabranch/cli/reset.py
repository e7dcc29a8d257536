"""``anabranch reset``: forgets the positions and the state of a job that isn't running."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch import config as configuration
from anabranch.cli import connect, output, progress
from anabranch.config import Settings
from anabranch.config.storage import local_folder
from anabranch.coordinator.jobs import fencing
from anabranch.coordinator.maintenance import deletion, resetting, stopped_job
from anabranch.coordinator.maintenance.resetting import Losses
from anabranch.errors import UsageError


def reset(
    job: Annotated[str, typer.Argument(help="The name of a job that isn't running.")],
    yes: Annotated[
        bool, typer.Option("--yes", help="Reset the job. Without this option, the verb only shows what would be lost.")
    ] = False,
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Forget a job's positions and state, so that the job next starts as a new one. Streams stay as they are."""
    settings = configuration.load(config)
    with stopped_job.alone(settings.coordinator, job, progress.say) as store:
        its = connect.stored_settings(settings, store, job)
        losses = resetting.losses(store, job)
        for line in _summary(losses, its.storage.root) if not json else ():
            typer.echo(line)
        if not yes:
            if not json:
                raise UsageError("nothing was changed", f"to do it: anabranch reset {job} --yes")
            output.as_json(_plain(losses, its.storage.root, done=False))
            return
        folder = f"{its.storage.root}/{job}"
        resetting.forget(store, its, job, time.time(), fencing.fence, lambda: remove(its, folder))
    if json:
        output.as_json(_plain(losses, its.storage.root, done=True))
    progress.say(f"job {job} is reset: it starts next as a new job")


def remove(settings: Settings, folder: str) -> None:
    """Delete the folder of a job's lanes, if it exists, on any file system."""
    local = local_folder(folder)
    if local is not None:
        so_far = f"job {local.name} is reset in the store, but "
        deletion.delete(local, so_far, f"anabranch reset {local.name} --yes", levels=2)
        return
    from anabranch.container.checkpoint.folder import Folder
    from anabranch.spark.session import session

    progress.say(f"removing {folder} with Spark ...")
    spark = session.for_schemas(settings, "")
    try:
        Folder(spark, folder).remove()
    finally:
        session.stop(spark)


def _summary(losses: Losses, root: str) -> list[str]:
    if losses.is_reset:
        return [f"job {losses.job} was reset before; what is left of its folders is removed: {root}/{losses.job}"]
    found = [f"a reset of job {losses.job} loses, for good:"]
    found += (
        [f"  its positions in {', '.join(losses.inputs)}: it begins where its job file says"] if losses.inputs else []
    )
    found += [f"  the state and the open windows of {', '.join(losses.stateful)}"] if losses.stateful else []
    if losses.between:
        found.append(f"  records between its stages that were not yet read: {', '.join(losses.between)}")
    found.append(f"  the folders of its lanes: {root}/{losses.job}")
    if losses.outputs:
        found.append(f"it keeps {', '.join(losses.outputs)}: what is read again is written there again")
    return found


def _plain(losses: Losses, root: str, done: bool) -> dict[str, Any]:
    return {
        "job": losses.job,
        "done": done,
        "wasReset": losses.is_reset,
        "inputs": losses.inputs,
        "stateful": losses.stateful,
        "between": losses.between,
        "outputs": losses.outputs,
        "folder": f"{root}/{losses.job}",
    }
