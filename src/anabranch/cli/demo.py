"""``anabranch demo``: the tour: a job that is changed, killed, frozen and drained while it runs."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch import own_files
from anabranch.cli import connect, dashboard, progress
from anabranch.errors import AnabranchError, NotFoundError
from anabranch.systems.systems import Systems
from anabranch.tour import tour
from anabranch.tour.arrivals import Arrivals
from anabranch.tour.processes import Interruptions, Processes
from anabranch.tour.screen import Screen

_TEMPLATE = Path(tour.__file__).parent / "template"
_RATE = 300.0
_CONFIG = """\
# Made by anabranch demo. All is short, so that there is something to watch.
[job]
target_batch_seconds = 1.0
state_partitions = 2
expansion_check = "2 seconds"

[coordinator]
url = "{url}"
lease = "5 seconds"
grace = "1 second"
period = "1 second"

[spark]
master = "local[2]"
memory = "1g"
"""

_KAFKA = """\

[systems]
default = "kafka"

[systems.kafka]
bootstrap_servers = "{}"
"""

_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Djava.io.tmpdir={}"
"""Its processes live for a minute: the quick compiler alone halves what they need. Nothing of theirs stays in /tmp."""


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Keep everything in this new folder (default: a temporary one).")
    ] = None,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="On a Kafka broker of its own: see anabranch jars fetch.")
    ] = False,
    step: Annotated[bool, typer.Option("--step", help="Show each command, and wait for Enter before it.")] = False,
) -> None:
    """See in a minute and a half what a job lives through: a scale, more partitions, kill -9, a freeze, a drain."""
    started = time.monotonic()
    with Interruptions() as interruptions:
        try:
            with _workspace(folder, interruptions) as place:
                is_right = _toured(place, kafka, step, interruptions)
        except KeyboardInterrupt:
            progress.say("\ndemo: stopped; nothing of it is left running")
            raise
    if not is_right:
        raise AnabranchError(
            "not all that was promised was measured", "this is a bug of anabranch: please report it, with --folder"
        )
    progress.say(f"demo: all as promised, {time.monotonic() - started:.0f} s")
    if folder is not None:
        streams = "" if kafka else "; anabranch stream cat late-flights --max 3"
        progress.say(f"look around: cd {folder}; anabranch events delays{streams}")


def _toured(place: Path, kafka: bool, step: bool, interruptions: Interruptions) -> bool:
    url = f"http://127.0.0.1:{_free_port()}"
    shutil.copy(_TEMPLATE / "delays.py", place)
    java = {"SPARK_SUBMIT_OPTS": _JAVA.format(place / "tmp")}
    with _broker(place) if kafka else nullcontext("") as address, Processes(place, java, interruptions) as processes:
        file = place / configuration.FILE_NAME
        file.write_text(_CONFIG.format(url=url) + (_KAFKA.format(address) if kafka else ""))
        settings = configuration.load(file)
        own_files.make_folder(settings.systems.embedded.root)
        system = Systems(settings).of(tour.FLIGHTS)

        def link() -> str:
            return dashboard.address(url, tour.JOB, connect.token(url, settings.coordinator))

        with Arrivals(system, tour.FLIGHTS, _RATE) as arrivals, connect.at(settings, url) as client:
            return tour.Tour(Screen(step), processes, system, arrivals, client, link).run()


@contextlib.contextmanager
def _workspace(folder: Path | None, interruptions: Interruptions) -> Iterator[Path]:
    """The folder of the tour. One of its own is removed at the end."""
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AnabranchError(f"{folder} isn't an empty folder", "name a new one")
    place = (folder or Path(tempfile.gettempdir()) / f"anabranch-demo-{uuid.uuid4().hex[:8]}").resolve()
    try:
        own_files.make_folder(place)
        yield place
    finally:
        interruptions.close()
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def _broker(place: Path) -> Iterator[str]:
    """A Kafka broker in the folder; gives its address."""
    from anabranch.systems.kafka import broker, jars

    fetched = jars.broker_folder()
    if fetched is None:
        raise NotFoundError("there are no jars of a Kafka broker here", "fetch them: anabranch jars fetch")
    progress.say("starting a Kafka broker ...")
    with broker.start(place / "broker", fetched) as cluster:
        progress.say(f"the broker answers at {cluster.bootstrap_servers}")
        yield cluster.bootstrap_servers


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
