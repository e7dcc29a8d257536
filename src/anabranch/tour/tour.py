"""The course of the tour: what happens to the job, in which order, and what is measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from anabranch.coordinator.api.client import AWAY, Client
from anabranch.deadlines import wait_until
from anabranch.errors import AnabranchError, FencedError, OutOfTimeError
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.status import ContainerStatus, JobStatus
from anabranch.systems.contract import System
from anabranch.tour import outputs
from anabranch.tour.arrivals import Arrivals
from anabranch.tour.processes import Process, Processes
from anabranch.tour.screen import Screen

__all__ = ["FLIGHTS", "JOB", "Tour"]

JOB, FLIGHTS = "delays", "flights"
_FACTOR, _PARTITIONS = 16, 4
_WITHIN = 300.0
_LOOK = 0.1
_SHOW_EVERY = 1.0
_KEEP = "to look at the logs, keep them: anabranch demo --folder FOLDER"
_LATER = 80.0
"""The flights per second after the job has been scaled: enough for every later step, but few enough for a short drain.
"""
_WATCHED = 5
"""How many seconds the lag is shown before the job is scaled."""

T = TypeVar("T")


class Tour:
    """Runs the tour. :meth:`run` calls a method for each part of the tour.

    Args:
        link: called once the coordinator has created its token; returns the address of the dashboard.
    """

    def __init__(
        self,
        screen: Screen,
        processes: Processes,
        system: System,
        arrivals: Arrivals,
        client: Client,
        link: Callable[[], str],
    ) -> None:
        self._screen = screen
        self._processes = processes
        self._system = system
        self._arrivals = arrivals
        self._client = client
        self._link = link
        self._containers: list[Process] = []
        self._victims: list[Process] = []
        """Containers that are allowed to end."""
        self._coordinator: Process | None = None
        self._rows: list[tuple[str, str, bool]] = []
        self._most = 0

    def run(self) -> bool:
        """Run all parts of the tour. Returns whether all measurements are as promised."""
        self._start()
        slow = self._fall_behind()
        self._scale(slow)
        self._widen()
        self._kill()
        self._freeze()
        self._drain()
        self._screen.table(self._rows)
        return all(agrees for _, _, agrees in self._rows)

    def _start(self) -> None:
        self._screen.chapter(
            "A job, and flights that arrive live",
            f"About {self._arrivals.rate:g} flights a second arrive in a stream of {_PARTITIONS} partitions. delays.py "
            "looks each one up, which takes 10 ms. It writes the late ones, and hourly windows by destination.",
        )
        self._call("stream", "create", FLIGHTS, "--partitions", str(_PARTITIONS))
        self._coordinator = self._background("coordinator")
        self._until("the coordinator answers", lambda: self._ask(self._client.jobs) is not None or None)
        self._screen.link("Look at it all in a browser:", self._link())
        self._call("start", "delays.py", "--detach")
        self._arrivals.start()
        self._containers.append(self._background("container", JOB))
        self._until("the first flights are read", lambda: self._read() > 0 or None)

    def _fall_behind(self) -> float:
        """Wait while the job falls behind. Returns how many flights per second the job reads."""
        self._screen.chapter("It falls behind", "More flights arrive than can be looked up one after another.")
        begin, read = time.monotonic(), self._read()
        while time.monotonic() < begin + _WATCHED or self._read() == read:
            self._pause(_SHOW_EVERY)
            self._show_lag()
            self._check_time(begin)
        return (self._read() - read) / (time.monotonic() - begin)

    def _scale(self, slow: float) -> None:
        self._screen.chapter(
            f"Scale to factor {_FACTOR}, while it runs",
            f"Each partition is cut into {_FACTOR} by key, so {_FACTOR} flights of it are looked up at once. Every key "
            "stays in order, and no window is lost. First the plan, then the change:",
        )
        self._call("plan", "scale", JOB, "--factor", str(_FACTOR))
        change = ("scale", JOB, "--factor", str(_FACTOR))
        self._announce(*change)
        before, begin, read = self._lag(), time.monotonic(), self._read()
        self._run(*change)
        enough = max(self._arrivals.rate * 3, before / 2)
        self._show_lag()
        while self._lag() > enough:
            self._pause(_SHOW_EVERY)
            self._show_lag()
            self._check_time(begin)
        status, seconds = self._status(), time.monotonic() - begin
        fast = (self._read() - read) / seconds
        self._measured(
            f"scale --factor {_FACTOR}: a slow job catches up while it runs",
            f"{slow:,.0f} flights/s before, {fast:,.0f} after; lag {before:,} to {self._lag():,} in {seconds:.0f} s; "
            f"the change took {status.rescale_seconds or 0:.1f} s",
            status.factor == _FACTOR and fast > slow,
        )
        self._arrivals.rate = _LATER
        self._containers.append(self._background("container", JOB))

    def _widen(self) -> None:
        self._screen.chapter(
            "The stream gets more partitions",
            "As when somebody adds partitions to a Kafka topic. The job notices, and starts to read them.",
        )
        self._call("stream", "expand", FLIGHTS, "--partitions", str(_PARTITIONS * 2))
        begin = time.monotonic()
        self._until("the new partitions are read", lambda: len(self._read_from()) == _PARTITIONS * 2 or None)
        seconds = time.monotonic() - begin
        self._screen.say(f"All {_PARTITIONS * 2} partitions are read, {seconds:.1f} s later.")
        self._measured(
            "more partitions: the job reads them without intervention",
            f"{_PARTITIONS} to {_PARTITIONS * 2} partitions, all of them read after {seconds:.1f} s",
            len(self._read_from()) == _PARTITIONS * 2,
        )

    def _kill(self) -> None:
        self._screen.chapter(
            "kill -9",
            "A second container stands by. The working one is killed, whatever it is doing. When its lease has run "
            "out, the other one continues after the last batch that was committed.",
        )
        victim = self._victim()
        self._screen.command(f"kill -9 {victim.pid}")
        begin = time.monotonic()
        victim.kill()
        holder = self._until_another_works(victim)
        seconds = time.monotonic() - begin
        self._screen.say(f"Process {holder.pid} continues, {seconds:.1f} s later.")
        self._measured(
            "kill -9: the job continues", f"another container continued after {seconds:.1f} s", holder.code is None
        )
        self._containers.append(self._background("container", JOB))

    def _freeze(self) -> None:
        self._screen.chapter(
            "A frozen container can't write any more",
            "Worse than a process that dies is one that hangs, is presumed dead, and wakes up later. This one is "
            "stopped in the middle of a batch. Before another one takes over, its outputs are fenced.",
        )
        victim = self._victim()
        self._screen.command(f"kill -STOP {victim.pid}  # and everything that it has started")
        victim.freeze()
        begin = time.monotonic()
        try:
            holder = self._until_another_works(victim)
            self._screen.say(f"Process {holder.pid} continues, {time.monotonic() - begin:.1f} s later. Wake the first:")
            self._screen.command(f"kill -CONT {victim.pid}")
        finally:
            victim.wake()
        self._until("the container that woke ends", lambda: victim.code is not None or None)
        why = next((line for line in victim.text.splitlines() if line.startswith("error: ")), "")
        self._screen.output(why or victim.text[-300:])
        self._measured(
            "a container that was frozen is fenced, and can't write",
            f"it woke, was refused, and ended with exit code {victim.code}; duplicates are counted below",
            victim.code == FencedError.exit_code,
        )

    def _drain(self) -> None:
        self._screen.chapter(
            "A drain emits every open window",
            "No more flights arrive. The job processes those that are left, emits the windows that are still open, and "
            "ends.",
        )
        self._arrivals.stop()
        drain = ("drain", JOB, "--up-to", "latest")
        self._announce(*drain)
        before, begin = outputs.window_count(self._system), time.monotonic()
        self._run(*drain)
        seconds = time.monotonic() - begin
        after = outputs.window_count(self._system)
        self._screen.chapter(
            "Checked against the data itself",
            f"{self._arrivals.count:,} flights went in. The outputs are compared with them, hour by hour and flight by "
            "flight:",
        )
        result = outputs.compared(self._system, self._arrivals.written)
        state = self._status().state
        self._measured(
            "drain: every open window comes out, then the job ends",
            f"{after - before:,} windows in {seconds:.1f} s; {result.windows_wrong} are missing or wrong; "
            f"the job is {state}",
            state == DeploymentState.DRAINED and after > before and not result.windows_wrong,
        )
        self._measured(
            "exactly once, through all of this",
            f"{self._arrivals.count:,} flights in; {result.flights:,} counted, in {result.windows:,} destination "
            f"hours, {result.windows_repeated} twice; {result.late:,} late ones, {result.late_repeated} twice, "
            f"{result.late_wrong} missing or too many",
            result.is_right and result.flights == self._arrivals.count,
        )

    def _measured(self, promise: str, measure: str, agrees: bool) -> None:
        self._rows.append((promise, measure, agrees))

    def _call(self, *words: str) -> None:
        self._announce(*words)
        self._run(*words)

    def _announce(self, *words: str) -> None:
        """Show a verb that is about to run and, with ``--step``, wait for the user. Measurements must begin after
        this call.
        """
        self._screen.command(f"anabranch {' '.join(words)}")

    def _run(self, *words: str) -> None:
        self._screen.output(self._processes.run(*words, meanwhile=self._check))

    def _background(self, *words: str) -> Process:
        self._screen.command(f"anabranch {' '.join(words)} &")
        return self._processes.start(*words)

    def _victim(self) -> Process:
        """Wait until a spare container can take over. Return the container that has the seat; the caller will kill or
        freeze it."""

        def ready() -> Process | None:
            status = self._status()
            return self._worker(status) if status.standing_by and status.state == DeploymentState.RUNNING else None

        worker = self._until("a second container stands by", ready)
        self._victims.append(worker)
        return worker

    def _until_another_works(self, former: Process) -> Process:
        read = self._read()

        def works() -> Process | None:
            worker = self._worker(self._status())
            return worker if worker not in (None, former) and self._read() > read else None

        return self._until("another container goes on", works)

    def _worker(self, status: JobStatus) -> Process | None:
        alive: list[ContainerStatus] = [each for each in status.containers if each.gone is None and each.alive]
        pids = {each.pid for each in alive}
        return next((process for process in self._containers if process.pid in pids), None)

    def _reports(self) -> list[LaneReport]:
        lanes = self._status().lanes
        return [lane.report for lane in lanes if lane.report is not None and lane.lane.stage == "0"]

    def _read_from(self) -> dict[str, int]:
        """The number of flights that the job has read from each partition. Partitions that the job hasn't read are left
        out.
        """
        positions: dict[str, int] = {}
        for report in self._reports():
            for ssp, position in report.progress.positions.items():
                positions[ssp] = max(position, positions.get(ssp, 0))
        return {ssp: position for ssp, position in positions.items() if position}

    def _read(self) -> int:
        return sum(self._read_from().values())

    def _lag(self) -> int:
        return max(0, self._arrivals.count - self._read())

    def _show_lag(self) -> None:
        lag = self._lag()
        self._most = max(self._most, lag)
        self._screen.gauge(lag, self._most, f"{self._arrivals.count:>7,} arrived")

    def _check_time(self, begin: float) -> None:
        if time.monotonic() > begin + _WITHIN:
            raise OutOfTimeError(f"after {_WITHIN:g} s the lag is {self._lag():,}", _KEEP)

    def _status(self) -> JobStatus:
        return self._until("the coordinator answers", lambda: self._ask(lambda: self._client.status(JOB)))

    @staticmethod
    def _ask(question: Callable[[], T]) -> T | None:
        try:
            return question()
        except AWAY:
            return None

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._check()
            time.sleep(min(_LOOK, left))

    def _until(self, aim: str, look: Callable[[], T | None]) -> T:
        def checked() -> T | None:
            self._check()
            return look()

        def late() -> OutOfTimeError:
            return OutOfTimeError(f"waited in vain for {_WITHIN:g} s until {aim}", _KEEP)

        return wait_until(checked, _WITHIN, late, _LOOK)

    def _check(self) -> None:
        """Check that nothing has failed. A container that has ended because it lost its lease is replaced.

        Raises:
            AnabranchError: flights can't be written, or a process has failed.
        """
        self._arrivals.check()
        for process in (self._coordinator, *self._containers):
            if process is None or process in self._victims or not process.code:
                continue
            if process.code != FencedError.exit_code:
                raise AnabranchError(f"anabranch {process.name} ended with {process.code}:\n{process.text[-2000:]}")
            self._victims.append(process)
            self._screen.say("A container lost its lease because this machine is busy. Another one is started:")
            self._containers.append(self._background("container", JOB))
