"""``anabranch demo``: a tour that changes a running job, kills and freezes its containers, and drains it."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
import uuid
from functools import partial
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
_RATE = 250.0
_CONFIG = """\
# Made by anabranch demo. All times are short, so that there is something to watch. Batches have a fixed size
# instead of a target time, because on a busy machine they would get smaller and smaller.
[job]
max_rows_per_batch = 1000
target_batch_seconds = 0
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
"""Java options for the tour's processes, which run for about a minute. With only Java's fast compiler, these processes
use half as much CPU time. The folder for Java's temporary files is inserted at ``{}``, so nothing is left in /tmp.
"""


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Keep everything in this new folder (default: a temporary one).")
    ] = None,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Run on a Kafka broker of its own: see anabranch jars fetch.")
    ] = False,
    step: Annotated[bool, typer.Option("--step", help="Show each command, and wait for Enter before it.")] = False,
) -> None:
    """Show in 90 seconds what a running job survives: scaling, more partitions, kill -9, a freeze, a drain."""
    started = time.monotonic()
    if dropped := configuration.drop_environment():
        progress.say(f"demo: has its own settings, and ignores {', '.join(dropped)}")
    with Interruptions() as interruptions:
        try:
            is_right = _toured(_workspace(folder, interruptions), kafka, step, interruptions)
        except KeyboardInterrupt:
            progress.say("\ndemo: stopped; all its processes have ended")
            raise
    if not is_right:
        raise AnabranchError(
            "not everything that was promised was measured",
            "this is a bug in anabranch: please report it, with --folder",
        )
    progress.say(f"demo: all as promised, {time.monotonic() - started:.0f} s")
    if folder is not None:
        streams = "" if kafka else "; anabranch stream cat late-flights --max 3"
        progress.say(f"look around: cd {folder}; anabranch events delays{streams}")


def _toured(place: Path, kafka: bool, step: bool, interruptions: Interruptions) -> bool:
    temporary = place / "tmp"
    temporary.mkdir(0o700)
    interruptions.at_end(partial(shutil.rmtree, temporary, ignore_errors=True))
    java = _JAVA.format(temporary)
    url = f"http://127.0.0.1:{_free_port()}"
    config = _CONFIG.format(url=url) + (_KAFKA.format(_broker(place, java, interruptions)) if kafka else "")
    file = place / configuration.FILE_NAME
    file.write_text(config, encoding="utf-8")
    shutil.copy(_TEMPLATE / "delays.py", place)
    settings = configuration.load(file)
    own_files.make_folder(settings.systems.embedded.root)
    system = Systems(settings).of(tour.FLIGHTS)
    processes = Processes(place, temporary, {"SPARK_SUBMIT_OPTS": java}, interruptions)

    def link() -> str:
        return dashboard.address(url, tour.JOB, connect.token(url, settings.coordinator))

    with Arrivals(system, tour.FLIGHTS, _RATE) as arrivals, connect.at(settings, url) as client:
        return tour.Tour(Screen(step), processes, system, arrivals, client, link).run()


def _workspace(folder: Path | None, interruptions: Interruptions) -> Path:
    """The tour's folder; by default, a temporary folder, which is removed at the end."""
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AnabranchError(f"{folder} isn't an empty folder", "name a new one")
    place = (folder or Path(tempfile.gettempdir()) / f"anabranch-demo-{uuid.uuid4().hex[:8]}").resolve()
    if folder is None:
        interruptions.at_end(partial(shutil.rmtree, place, ignore_errors=True))
    own_files.make_folder(place)
    return place


def _broker(place: Path, java: str, interruptions: Interruptions) -> str:
    """Start a Kafka broker in the folder, and return its address."""
    from anabranch.systems.kafka import jars
    from anabranch.testing import broker

    folder = jars.broker_folder()
    if folder is None:
        raise NotFoundError(
            "there are no jars of a Kafka broker here", "fetch them: anabranch jars fetch connector broker"
        )
    progress.say("starting a Kafka broker ...")
    with interruptions.undisturbed():
        cluster = broker.start(place / "broker", folder, flags=(*broker.QUICK, *java.split()))
        interruptions.at_end(cluster.close)
    progress.say(f"the broker answers at {cluster.bootstrap_servers}")
    return cluster.bootstrap_servers


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
