"""A coordinator that serves a container of the test's process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from anabranch.container.reconciler import Container
from anabranch.coordinator.coordinator import Coordinator
from anabranch.protocol.container import Registration
from anabranch.spark.query.plan import LoadedJob
from tests.integration.harness import Deployed


def serve(run: Deployed, coordinator: Coordinator, seat: str = "0", leaving: threading.Event | None = None) -> None:
    """Be a container, until nothing is left to run, or ``leaving`` is set."""
    job = run.job
    made = Container(
        LoadedJob(run.site.spark, run.settings, job.graph, job.functions, run.schemas, {}, ""), coordinator
    )
    made.run(Registration(job=job.name, seat=seat, execution=seat, host="here", pid=1), leaving)


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextmanager
def served_by_two(run: Deployed, coordinator: Coordinator, first: Callable[[], object]) -> Iterator[None]:
    """Two containers serve a job. ``first`` is called before there is the second one."""
    with ExitStack() as stack:
        for seat in ("0", "1"):
            thread = threading.Thread(target=serve, args=(run, coordinator, seat))
            thread.start()
            stack.callback(thread.join, 60)
            stack.callback(coordinator.stop, run.job.name)  # before it is waited for
            if seat == "0":
                first()
        yield
