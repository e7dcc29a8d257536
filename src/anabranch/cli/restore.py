"""``anabranch restore``: restores a job from a backup to a store and a storage root that don't contain the job yet, or
checks a backup."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch import config as configuration
from anabranch.cli import options, output, progress
from anabranch.config.paths import expanded
from anabranch.config.storage import local_folder

if TYPE_CHECKING:
    from anabranch.backup.manifest import Manifest


def restore(
    uri: Annotated[str, typer.Argument(help="The place that was given to anabranch backup.")],
    check: Annotated[bool, typer.Option("--check", help="Only check whether the backup is complete.")] = False,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Restore a job from a backup, into the store, storage root and embedded log of the configuration."""
    from anabranch.backup import restoring
    from anabranch.spark.session import session

    settings = configuration.load(config)
    progress.say("reading the backup with Spark ...")
    spark = session.for_schemas(settings, "")
    try:
        found = (
            restoring.checked(spark, place(uri)) if check else restoring.restore(spark, settings, place(uri), time.time)
        )
    finally:
        session.stop(spark)
    if json:
        output.as_json(as_json(found))
    if check:
        progress.say(f"the backup of job {found.job} is complete: {len(found.files):,} files")
    else:
        progress.say(
            f"job {found.job} is restored, and stopped. Start it: anabranch run JOB.py; or, if a coordinator ran it: "
            f"anabranch start {found.job}"
        )


def place(uri: str) -> str:
    """The URI of a backup. A path without a scheme is on this machine, whatever Hadoop's default file system is."""
    local = local_folder(uri)
    return uri if local is None else f"file://{expanded(local).absolute()}"


def as_json(found: Manifest) -> dict[str, Any]:
    """A summary of a backup's manifest for JSON. The summary contains only the lanes that continue from the backup, and
    the number and total size of the files instead of a list of files.
    """
    return {
        "id": found.id,
        "job": found.job,
        "madeAt": found.made_at,
        "anabranch": found.anabranch,
        "lanes": {each.lane: each.planned for each in found.lanes if each.is_open},
        "streams": {each.stream: dict(enumerate(each.cut.ends)) for each in found.streams},
        "elsewhere": found.elsewhere,
        "files": len(found.files),
        "bytes": sum(file.size for file in found.files.values()),
    }
