"""Describes a job's progress in lines of text, and prints lines on stderr."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from anabranch import drain_progress, logs, own_files
from anabranch.cli import connect
from anabranch.config import CoordinatorSettings, Settings
from anabranch.coordinator.api.client import AWAY
from anabranch.coordinator.store import address
from anabranch.model.job_model import JobModel
from anabranch.model.lane import LaneState
from anabranch.protocol.lane_report import BatchProgress, LaneReport
from anabranch.protocol.status import ContainerStatus, JobStatus, LaneStatus, LaunchStatus

_WORTH_TELLING = 0.01


def say(line: str) -> None:
    """Print a line of progress."""
    logs.say(line)


def shared(store: str) -> None:
    """Warn if a store is a file in a folder that users other than its owner can access. (Folders that this version of
    anabranch has made are accessible only to their owner.) ``store`` is the store's URL.
    """
    file = address.path_of(store)
    if file is not None and own_files.is_shared(file.parent):
        say(f"warning: other users can look into {file.parent}: chmod -R go= {file.parent}")


def kept(settings: Settings, kept: JobModel | None) -> None:
    """If the settings' factor or number of containers differs from a drained job's, print that the job keeps its own.

    ``kept`` is the drained job's model; None if the job wasn't drained.
    """
    if kept is None:
        return
    wanted = settings.job.factor, settings.job.containers
    has = kept.factor, len(kept.containers)
    if wanted != has:
        say(
            f"job {kept.job} keeps factor {has[0]} and {has[1]} container(s), although the settings say "
            f"{wanted[0]} and {wanted[1]}. To change them: anabranch scale {kept.job}"
        )


def rejected(report: LaneReport) -> str:
    """The numbers of rows that a lane rejected, as text, such as ``3 dead, 1 of them late, 2 dropped, 1 late groups``.
    The text counts dead letters, the late rows among them, dropped rows, and late rows that Spark dropped (for an
    ``agg``, counted in groups). Numbers that are 0 are left out. If all numbers are 0, the text is empty.
    """
    late = sum(report.event_time.late.values())
    dropped = (("dropped", report.event_time.dropped), ("late groups", report.event_time.late_groups))
    counts = (("dead", report.progress.dead_letters), ("of them late", late), *dropped)
    return ", ".join(f"{count:,} {what}" for what, count in counts if count)


def lag(report: LaneReport) -> str:
    """A lane's lag, as text; ``?`` while the ends of its inputs aren't known."""
    return f"{report.progress.lag:,}" if report.progress.ends_known else "?"


def when(unix_ms: int | None) -> str:
    """A time, such as a watermark, as text in UTC; empty for None."""
    return "" if unix_ms is None else datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def troubles(status: JobStatus) -> list[str]:
    """The problems of a job and its lanes, one line each."""
    return [
        *status.warnings,
        *waits(status),
        *stuck(status),
        *(each for lane in status.lanes for each in _troubles(lane)),
    ]


def _troubles(lane: LaneStatus) -> list[str]:
    report = lane.report
    found = [] if report is None else list(report.warnings)
    if lane.lane.state is LaneState.FAILED:
        found.append(f"lane {lane.lane.id} failed, and is no longer restarted: {lane.lane.error}")
    elif report is not None and (attempt := report.attempt).awaits:
        since = when(round(attempt.awaits_since * 1000))
        found.append(f"lane {lane.lane.id} has been waiting for {attempt.awaits} since {since} UTC: {attempt.trouble}")
    elif report is not None and (attempt := report.attempt).trouble:
        found.append(
            f"lane {lane.lane.id} was started {attempt.number} times, the last time because: {attempt.trouble}"
        )
    return found


def idle(report: LaneReport) -> str:
    """The number of idle SSPs of a lane whose watermark nothing holds back, as text, such as ``none, 2 idle``. The text
    is empty if no SSP is idle.
    """
    return f"none, {len(report.event_time.idle)} idle" if report.event_time.idle else ""


def event_time(report: LaneReport) -> str:
    """A semicolon, a lane's watermark, the SSP that holds it back, and the number of idle SSPs, as text. The text is
    empty if neither the watermark nor such an SSP is known.
    """
    idle = f", {len(report.event_time.idle)} idle" if report.event_time.idle else ""
    if report.event_time.held_by is None:
        return "" if report.event_time.watermark is None else f"; watermark {when(report.event_time.watermark)}{idle}"
    if report.event_time.watermark is None:
        return f"; no watermark: {report.event_time.held_by} has had no event time yet, which keeps every window open"
    return f"; watermark {when(report.event_time.watermark)}, held back by {report.event_time.held_by}{idle}"


def containers(status: JobStatus) -> list[tuple[ContainerStatus, str]]:
    """The processes that have a seat or have lost one, each with a description; empty if no process serves the job."""
    return [
        (
            one,
            f"container {one.container}: process {one.pid} on {one.host}, epoch {one.epoch}, "
            + (f"rack {one.rack}, " if one.rack else "")
            + (f"lost its seat: {one.gone}" if one.gone else "silent" if not one.alive else _leased(one)),
        )
        for one in status.containers
        if status.served
    ]


def staffing(status: JobStatus) -> list[str]:
    """How many processes stand by, and the state of the launcher, one line each."""
    warming = f", {status.warming_up} still warming up" if status.warming_up else ""
    resting = [f"standing by: {status.standing_by}{warming}"] if status.standing_by else []
    return resting + ([] if status.launching is None else [_launching(status.job, status.launching)])


def standbys(status: JobStatus) -> list[str]:
    """The lanes' standbys and how far behind they are, one line each."""
    return [
        f"standby {one.number} of lane {one.lane}: kept by {one.container or 'a process that stands by'}"
        + (f" in rack {one.rack}, " if one.rack else ", ")
        + (f"error: {one.error}" if one.error else _behind(one.behind))
        for one in sorted(status.copies, key=lambda each: (each.lane, each.number))
    ]


def _behind(batches: int | None) -> str:
    return "not complete yet" if batches is None else f"{batches} batch(es) behind" if batches else "up to date"


def _launching(job: str, its: LaunchStatus) -> str:
    if its.gave_up:
        return (
            f"error: containers can't be started ({its.failures} failures in a row): {its.reason}\n"
            f"  their logs are in {its.logs}; anabranch start {job} tries again"
        )
    failed = f"; {its.failures} failed in a row: {its.reason}" if its.failures else ""
    return f"launcher: {its.running} of {its.wanted} processes run{failed}; their logs are in {its.logs}"


def _leased(container: ContainerStatus) -> str:
    return "alive" if container.lease is None else f"alive, lease ends in {container.lease:.1f} s"


def line(status: JobStatus) -> str:
    """The state of a job's lanes in one line."""
    parts = [
        f"{lane.lane.id} {lane.report.phase}, {_last(now.batch)}, rows {now.rows:,}, lag {lag(lane.report)}"
        + ("" if now.batch_progress is None else f" (at {batch(now.batch_progress)})")
        for lane in status.lanes
        if lane.report is not None and (now := lane.report.progress)
    ]
    return f"{status.job} {status.state}: " + ("; ".join(parts) or "no lane has started")


def _last(number: int) -> str:
    return "no batch yet" if number < 0 else f"batch {number}"


def batch(progress: BatchProgress) -> str:
    """A batch's progress in a few words."""
    part = f" ({progress.done / progress.planned:.0%})" if progress.planned else ""
    left = "" if progress.left is None else f", {_lasting(progress.left)} left"
    speed = f", {progress.rows_per_second:,.0f}/s" if progress.done else ""
    return f"{progress.done:,} of {progress.planned:,}{part}{speed}{left}; {progress.phase}"


def batches(status: JobStatus) -> list[str]:
    """The progress of running batches, one line each."""
    return [
        f"lane {lane.lane.id}: batch {its.number}: {batch(its)}"
        for lane in status.lanes
        if lane.report is not None and (its := lane.report.progress.batch_progress) is not None
    ]


def spent(seconds: Mapping[str, float]) -> str:
    """A batch's duration and the share of each phase in it, as text, such as ``of 8 s: functions 75%, reading 25%``.
    The longest phase comes first, and phases below 1% are left out. ``seconds`` contains the duration of each phase.
    If all durations are 0, or there are none, the text is empty.
    """
    total = sum(seconds.values())
    shares = sorted(seconds.items(), key=lambda each: -each[1]) if total else []
    found = ", ".join(f"{phase} {each / total:.0%}" for phase, each in shares if each / total >= _WORTH_TELLING)
    return f"of {_lasting(total)}: {found}" if found else ""


def _lasting(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    if minutes >= 10:
        return f"{minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.0f} s"


def draining(status: JobStatus) -> str:
    """A drain's progress in one line."""
    its = drain_progress.left(status)
    doing = "time ends" if status.drain is not None and status.drain.last else "takes in"
    return (
        f"job {status.job} drains ({doing}): {its.stages} stage(s), {its.lanes} lane(s), {its.records:,} record(s) and "
        f"{its.windows:,} window(s) left, about {math.ceil(drain_progress.seconds_left(status, time.time()))} s"
    )


def waits(status: JobStatus) -> list[str]:
    """What closing lanes are waiting for, one line per lane."""
    its = ((each.lane.id, each.report) for each in status.lanes)
    return [
        f"lane {lane} waits to end: {its.attempt.waits}" for lane, its in its if its is not None and its.attempt.waits
    ]


def stuck(status: JobStatus) -> list[str]:
    """The messages on which functions have been working for a second or more, one line per lane."""
    return [
        f"lane {each.lane.id}: {each.report.drain.stuck}"
        for each in status.lanes
        if each.report and each.report.drain.stuck
    ]


def unserved(where: CoordinatorSettings, status: JobStatus) -> None:
    """If the status comes from the store instead of a process that serves the job, say so. Also say whether the job may
    be running."""
    if status.served:
        return
    if pid := connect.LockHolder(where, status.job).pid:
        say(f"process {pid} is starting the job, ending it, or at work on its files: this is from the store")
        return
    try:
        may_run = status.state.active and not connect.is_left_by_run(where, status.job)
    except AWAY:  # for a moment, the store can't be read
        may_run = True
    unknown = "no coordinator that serves the job answered: this is from the store, and its containers may run on"
    say(unknown if may_run else "nothing is running: this is from the store")


def summary(status: JobStatus) -> None:
    """Print what each lane of a job has done, one line per lane."""
    for lane in status.lanes:
        if lane.report is not None:
            what = rejected(lane.report)
            aside = f"; rejected: {what}" if what else ""
            rows = f"{lane.report.progress.rows:,} {'row' if lane.report.progress.rows == 1 else 'rows'}"
            read = f"{lane.report.phase}, {rows} read since it last started{aside}{event_time(lane.report)}"
            say(f"{lane.lane.id} ({lane.lane.group}): {read}")
    say(f"job {status.job}: {status.state}")
