"""``anabranch backup``: copies a whole job, even while it runs."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch.cli import connect, options, output, progress
from anabranch.cli.restore import as_json, place
from anabranch.coordinator.store import Store, stored_jobs


def backup(
    job: options.Job,
    uri: Annotated[
        str, typer.Argument(help="An empty or new folder: a path, or a Hadoop URI such as hdfs:// or s3a://.")
    ],
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Copy a whole job, even while it runs: store, lanes, state, code, and its streams in the embedded log."""
    from anabranch.backup import making
    from anabranch.spark.session import session

    settings = configuration.load(config)
    with closing(Store.open_existing(settings.coordinator.store)) as store:
        stored_jobs.deployment(store, job)
        its = connect.settings_of(settings, job)
        progress.say("copying with Spark ...")
        spark = session.for_schemas(its, "")
        try:
            made = making.make(making.Source(spark, its, store, job, time.time), place(uri))
        finally:
            session.stop(spark)
    if json:
        output.as_json(as_json(made))
    for each in made.elsewhere if not json else ():
        progress.say(f"not in the backup: {each}, which stays where it is")
    files, size = len(made.files), sum(file.size for file in made.files.values())
    progress.say(f"job {job} is backed up: {files:,} files, {size / 1e6:,.1f} MB. Restore it: anabranch restore {uri}")
