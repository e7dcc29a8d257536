"""Finds out what holds a job back, based on its status, for the dashboard and ``anabranch why``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import LaneState
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.status import JobStatus, LaneStatus
from anabranch.views.findings import SEVERITIES, Finding
from anabranch.views.live import ChangeProgress

__all__ = ["MOST", "RULES", "findings"]

MOST = 20
"""The maximum number of findings that are returned."""
_SPAN = 20.0
"""How many seconds the metrics must cover for a rate to be conclusive."""
_GROWS = 1.1
_BEHIND_SECONDS = 30.0
"""A backlog is reported only if reading it, without any new records, would take at least this many seconds."""
_BUSY, _SKEWED = 0.9, 3.0
_HELD_MS = 60_000
_BEHIND = 10
_TIMES_PREDICTED, _LEAST_CHANGE = 3.0, 10.0
_UNPREDICTED = 20.0
"""The pause, in seconds, that is assumed for a change without a predicted pause."""
_LEASE_LEFT = 0.3

Rule = Callable[[JobStatus, float, ChangeProgress | None], Iterable[Finding]]


def findings(status: JobStatus, at: float, lease: float, change: ChangeProgress | None = None) -> list[Finding]:
    """What holds a job back: at most ``MOST`` findings, the most severe first. ``change`` is the change under way.

    Args:
        at: the current time, in seconds since 1970.
        lease: how many seconds a container counts as alive after a heartbeat.
    """
    found = [each for rule in RULES for each in rule(status, at, change)]
    found += _leases(status, lease)
    return sorted(found, key=lambda each: SEVERITIES.index(each.severity))[:MOST]


def _failed_lanes(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    for lane, report in _open(status):
        if lane.lane.state is LaneState.FAILED and status.state != DeploymentState.FAILED:
            yield Finding(
                severity="failed",
                rule="lane-failed",
                subject={"lane": lane.lane.id},
                summary=f"lane {lane.lane.id} has failed",
                why=lane.lane.error or (report.error or "" if report else ""),
                cure=f"fix what it says; then: anabranch stop {status.job}, and start it again",
            )


def _failed_job(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    if status.state == DeploymentState.FAILED.value:
        failed = next((lane.lane.id for lane, _ in _open(status) if lane.lane.state is LaneState.FAILED), None)
        yield Finding(
            severity="failed",
            rule="job-failed",
            subject={"job": status.job} | ({} if failed is None else {"lane": failed}),
            summary=f"job {status.job} has failed",
            why=status.error or "",
            cure=f"fix what it says, and start it again: anabranch start {status.job}",
        )


def _not_served(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    if not status.served and DeploymentState(status.state).active:
        yield Finding(
            severity="attention",
            rule="no-leader",
            subject={"job": status.job},
            summary=f"job {status.job} is {status.state}, and no coordinator that was asked serves it",
            why="its containers may run on; what they do isn't known here",
            cure="ask the coordinator that leads, or start one: anabranch coordinator",
        )


def _empty_seats(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    if not status.served or not DeploymentState(status.state).active:
        return
    held = sum(each.gone is None and each.alive is True for each in status.containers)
    if held < status.seats:
        lost = next((each for each in status.containers if each.gone is not None), None)
        yield Finding(
            severity="attention",
            rule="seats-empty",
            subject={"job": status.job},
            summary=f"{status.seats - held} of {status.seats} containers are missing",
            why="" if lost is None else f"{lost.container} lost its seat: {lost.gone}",
            figures={"seats": status.seats, "held": held, "standingBy": status.standing_by},
            cure="their lanes wait: start containers, or see what keeps the launcher from it",
        )


def _gave_up(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    launching = status.launching
    if launching is not None and launching.gave_up:
        yield Finding(
            severity="failed",
            rule="launcher-gave-up",
            subject={"job": status.job},
            summary=f"no containers are started any more after {launching.failures} failures",
            why=launching.reason,
            figures={"failures": launching.failures, "wanted": launching.wanted, "running": launching.running},
            cure=f"see what they said in {launching.logs or 'their logs'}; then: anabranch start {status.job}",
        )


def _leases(status: JobStatus, lease: float) -> Iterable[Finding]:
    for each in status.containers:
        if each.gone is None and each.lease is not None and each.lease < lease * _LEASE_LEFT:
            yield Finding(
                severity="attention",
                rule="lease-runs-out",
                subject={"container": each.container, "seat": each.seat},
                summary=f"container {each.container} wasn't heard for {lease - each.lease:.1f} s, of {lease:g} s",
                figures={"lease": each.lease},
                cure=f"see whether process {each.pid} on {each.host} lives, and reaches the coordinator",
            )


def _unfenced(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    for lane, _ in _open(status):
        if lane.lane.unfenced:
            yield Finding(
                severity="attention",
                rule="lane-unfenced",
                subject={"lane": lane.lane.id},
                summary=f"lane {lane.lane.id} waits until its former process can write no more",
                why="its container has lost its seat, and its outputs aren't fenced yet",
                cure=f"see anabranch events {status.job}: it says why, if they can't be",
            )


def _slow_change(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    if change is None:
        return
    takes, predicted = at - change.began, change.predicted
    if takes > max(_LEAST_CHANGE, _TIMES_PREDICTED * (_UNPREDICTED if predicted is None else predicted)):
        expected = "" if predicted is None else f"; output was expected to pause for {predicted:.1f} s"
        yield Finding(
            severity="attention",
            rule="change-slow",
            subject={"job": status.job},
            summary=f"the change to generation {change.generation} has taken {takes:.0f} s so far",
            why=f"{change.closed} of {len(change.closing)} lanes have closed, {change.running} of "
            f"{len(change.starting)} that follow run{expected}",
            figures={"seconds": takes} | ({} if predicted is None else {"predicted": predicted}),
            cure=f"wait; or take it back: anabranch cancel {status.job}",
            since=change.began,
        )


def _restarts(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    for lane, report in _open(status):
        if report is None or report.attempt.awaits:
            continue
        if report.attempt.number > 1 and lane.lane.state is not LaneState.FAILED:
            yield Finding(
                severity="attention",
                rule="lane-restarts",
                subject={"lane": lane.lane.id},
                summary=f"lane {lane.lane.id} was begun {report.attempt.number} times"
                + (f", {report.attempt.stalls} of them as it stood still" if report.attempt.stalls else ""),
                why=report.attempt.trouble,
                figures={"attempts": report.attempt.number, "stalls": report.attempt.stalls},
                cure=f"see anabranch events {status.job}",
            )


def _waiting(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    """Finds lanes that wait for something outside the job, such as a system. Makes one finding for each cause."""
    waiting: dict[str, list[LaneReport]] = defaultdict(list)
    for _, report in _open(status):
        if report is not None and report.attempt.awaits:
            waiting[report.attempt.awaits].append(report)
    for awaited, reports in waiting.items():
        first = min(reports, key=lambda each: each.attempt.awaits_since)
        who = f"lane {first.lane}" if len(reports) == 1 else f"{len(reports)} lanes"
        yield Finding(
            severity="attention",
            rule="lanes-wait",
            subject={"lane": first.lane},
            summary=f"{who} {'waits' if len(reports) == 1 else 'wait'} for {awaited}",
            why=first.attempt.trouble,
            figures={"lanes": len(reports)},
            cure="they go on by themselves once it is well again",
            since=first.attempt.awaits_since or None,
        )


def _lane_warnings(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    warned: dict[str, list[str]] = defaultdict(list)
    for _, report in _open(status):
        if report is not None:
            for text in report.warnings:
                warned[text].append(report.lane)
    for text, lanes in warned.items():
        yield Finding(
            severity="notice",
            rule="lane-warning",
            subject={"lane": lanes[0]},
            summary=f"lane {lanes[0]} warns" if len(lanes) == 1 else f"{len(lanes)} lanes warn",
            why=text,
            cure=f"see anabranch status {status.job}",
        )


def _growing_lag(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    heard = [(lane, report) for lane, report in _with_lag(status) if report.load.span >= _SPAN]
    lag = sum(lane.lag for lane, _ in heard)
    arriving = sum(report.load.arriving for _, report in heard)
    read = sum(report.load.rows_per_second for _, report in heard)
    if lag and arriving > _GROWS * read:
        slowest = max(heard, key=lambda each: each[0].lag)
        yield Finding(
            severity="attention",
            rule="lag-grows",
            subject={"job": status.job, "lane": slowest[0].lane.id},
            summary=f"{arriving:,.0f} records a second come in, and {read:,.0f} are read: the lag of {lag:,} grows",
            why=f"lane {slowest[0].lane.id} is furthest behind, by {slowest[0].lag:,}; it is busy for "
            f"{slowest[1].load.busy:.0%} of the time, functions work for {slowest[1].load.working:.0%}",
            figures={"lag": lag, "arriving": arriving, "read": read},
            cure=f"see what another factor would do: anabranch sizing {status.job}",
        )


def _backlog(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    """Finds a large backlog that doesn't grow fast, but will be worked off only after a long time, or never."""
    heard = [(lane, report) for lane, report in _with_lag(status) if report.load.span >= _SPAN]
    lag = sum(lane.lag for lane, _ in heard)
    arriving = sum(report.load.arriving for _, report in heard)
    read = sum(report.load.rows_per_second for _, report in heard)
    if not lag or arriving > _GROWS * read:
        return
    left = lag / (read - arriving) if read > arriving else None
    if lag < _BEHIND_SECONDS * max(read, 1.0) or (left is not None and left < _BEHIND_SECONDS):
        return
    slowest = max(heard, key=lambda each: each[0].lag)
    ends = "never catches up" if left is None else f"catches up in about {max(1.0, left / 60):,.0f} min"
    yield Finding(
        severity="notice",
        rule="backlog",
        subject={"job": status.job, "lane": slowest[0].lane.id},
        summary=f"the job is {lag:,} behind the ends of its inputs, and at this rate it {ends}",
        why=f"it reads {read:,.0f} records a second, {arriving:,.0f} come in; lane {slowest[0].lane.id} is furthest "
        f"behind, by {slowest[0].lag:,}, and is busy for {slowest[1].load.busy:.0%} of the time",
        figures={"lag": lag, "arriving": arriving, "read": read, **({} if left is None else {"seconds": left})},
        cure=f"wait; or see what another factor would do: anabranch sizing {status.job}",
    )


def _skew(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    for lane, report in _with_lag(status):
        if report.load.skew >= _SKEWED and report.load.working >= _BUSY and lane.lag:
            yield Finding(
                severity="attention",
                rule="skew",
                subject={"lane": lane.lane.id, "ssp": report.load.slowest},
                summary=f"functions spend {report.load.skew:.1f} times the mean on {report.load.slowest}",
                why=f"they work for {report.load.working:.0%} of the time; lane {lane.lane.id} is {lane.lag:,} behind",
                figures={"skew": report.load.skew, "working": report.load.working, "lag": lane.lag},
                cure="one key can't be split: a larger factor helps only if many keys are in that bucket",
            )


def _held_time(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    by_stage: dict[str, list[tuple[LaneStatus, LaneReport]]] = defaultdict(list)
    for lane, report in _open(status):
        if report is not None and report.event_time.watermark is not None and report.event_time.held_by:
            by_stage[lane.lane.stage].append((lane, report))
    for its in by_stage.values():
        newest = max(max(report.event_time.times.values(), default=0) for _, report in its)
        newest = max(newest, *(report.event_time.watermark or 0 for _, report in its))
        lane, report = min(its, key=lambda each: each[1].event_time.watermark or 0)
        behind = newest - (report.event_time.watermark or 0)
        if behind >= _HELD_MS:
            windows = f", and {report.drain.windows:,} windows wait" if report.drain.windows else ""
            yield Finding(
                severity="attention",
                rule="holds-time",
                subject={"ssp": report.event_time.held_by or "", "lane": lane.lane.id},
                summary=f"{report.event_time.held_by} holds back event time in lane {lane.lane.id}: it is "
                f"{behind / 60_000:.0f} min behind the newest partition{windows}",
                figures={"behindMs": behind, "windows": report.drain.windows},
                cure="see whether anything comes from it; one that is silent for long can be declared idle",
            )


def _inputs(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    for name, count in status.inputs.items():
        if not count:
            yield Finding(
                severity="failed",
                rule="input-changed",
                subject={"stream": name},
                summary=f"stream {name} is gone",
                cure="restore it: its lanes go on as long as they can",
            )
    for warning in status.warnings:
        said, _, cure = warning.partition("\n")
        yield Finding(
            severity="attention",
            rule="input-changed" if "partitions" in said or "stream" in said else "warning",
            subject={"job": status.job},
            summary=said,
            cure=cure.strip(),
        )


def _standbys(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    for each in status.copies:
        subject = {"lane": each.lane, "container": each.container}
        if each.error:
            yield Finding(
                severity="attention",
                rule="standby-broken",
                subject=subject,
                summary=f"standby {each.number} of lane {each.lane} can't be brought up to date",
                why=each.error,
                cure="fix what it says; until then, another container copies the state when it takes the lane over",
            )
        elif each.behind is not None and each.behind > _BEHIND:
            yield Finding(
                severity="notice",
                rule="standby-behind",
                subject=subject,
                summary=f"standby {each.number} of lane {each.lane} is {each.behind} batches behind",
                figures={"behind": each.behind},
            )


def _dead_letters(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    its = [(lane, report) for lane, report in _open(status) if report is not None and report.progress.dead_letters]
    count = sum(report.progress.dead_letters for _, report in its)
    if count:
        streams = sorted({stream for lane, _ in its for stream in lane.lane.dead_letters.values()})
        yield Finding(
            severity="notice",
            rule="dead-letters",
            subject={"stream": streams[0]} if streams else {"job": status.job},
            summary=f"{count:,} records could not be processed and are in {', '.join(streams) or 'dead letters'}",
            figures={"deadLetters": count},
            cure="read them: anabranch stream cat" + (f" {streams[0]}" if streams else ""),
        )


def _stuck(status: JobStatus, at: float, change: ChangeProgress | None) -> Iterable[Finding]:
    for lane, report in _open(status):
        if report is not None and report.drain.stuck and (report.drain.overdue or status.drain is not None):
            yield Finding(
                severity="attention" if report.drain.overdue else "notice",
                rule="drain-stuck" if status.drain is not None else "function-slow",
                subject={"lane": lane.lane.id},
                summary=f"lane {lane.lane.id}: {report.drain.stuck}",
                why="it has taken more than a minute, and the job has no message_timeout"
                if report.drain.overdue
                else "",
                cure=f"see anabranch status {status.job}",
            )


RULES: Sequence[Rule] = (
    _failed_job,
    _failed_lanes,
    _gave_up,
    _not_served,
    _empty_seats,
    _unfenced,
    _slow_change,
    _waiting,
    _restarts,
    _growing_lag,
    _backlog,
    _skew,
    _held_time,
    _inputs,
    _standbys,
    _dead_letters,
    _stuck,
    _lane_warnings,
)
"""All rules except the rule for leases, which needs the length of a lease as an additional argument. Findings of equal
severity are sorted in the order of these rules. Findings about leases come after the others of equal severity."""


def _open(status: JobStatus) -> Iterable[tuple[LaneStatus, LaneReport | None]]:
    return ((lane, lane.report) for lane in status.lanes)


def _with_lag(status: JobStatus) -> Iterable[tuple[LaneStatus, LaneReport]]:
    """The lanes whose lag is known."""
    return ((lane, report) for lane, report in _open(status) if report is not None and report.progress.ends_known)
