"""Maintains a stopped job, for example by replacing the folders of its lanes."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import msgspec

from anabranch.config import CoordinatorSettings
from anabranch.config.secrets import without_passwords
from anabranch.coordinator.jobs import job_events
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.store import DeploymentRecord, Event, LeaderRecord, Store, address, stored_jobs
from anabranch.errors import ConflictError, NotFoundError, NotLeadingError, StoreUnavailableError
from anabranch.event_time import durations
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane, LaneState, open_lanes

__all__ = ["RENEW_EVERY", "alone", "begun", "ended", "lanes", "needed_folders", "replaced", "unneeded"]

RENEW_EVERY = 2.0
"""The seconds between two renewals of the lease during exclusive work."""
_LOOK = 0.25
_COMPACTS = "the user compacts the job"


@contextmanager
def alone(settings: CoordinatorSettings, job: str, say: Callable[[str], None]) -> Iterator[Store]:
    """The store, for exclusive work on a job inside ``with``. If the store is in a file, no other process can serve the
    job meanwhile. If the store is on a server, no coordinator can lead meanwhile. There is one exception: if this
    process is frozen, or cut off from the store, for longer than a lease, a coordinator can take the lead. From then
    on, this process's writes to the store fail.

    If the store is on a server, and its last coordinator ended without resigning, waits until the coordinator's lease
    and the grace period are over.

    Args:
        say: called with a message before such a wait.

    Raises:
        NotFoundError: there is no store. Or the store is on a server, and no coordinator has ever led there.
        ConflictError: another process serves the job. Or the store is on a server, and a coordinator leads there.
        KeyboardInterrupt: the store is on a server, the body of ``with`` runs in the main thread, and the process has
            received SIGTERM.
    """
    store = Store.open_existing(settings.store, to_write=True)
    try:
        if not address.is_on_server(settings.store):
            with endpoint.RunLock(settings.store, job):
                yield store
            return
        leader = store.leader()
        if leader is None:
            raise NotFoundError(f"no coordinator has ever led on {store.url}", "name its store in [coordinator] store")
        store.stand_by()
        if not leader.resigned:
            leader = _ended(store, leader, _patience(settings), say)
        with _interrupted_by_sigterm():
            try:
                if not store.claim(leader, leader.holder):
                    raise _led(store, leader)
                with _renewed(store):
                    yield store
            finally:
                with suppress(NotLeadingError):  # meanwhile, a coordinator has started and leads
                    store.resign()
    finally:
        store.close()


def _patience(settings: CoordinatorSettings) -> float:
    """How many seconds must pass without a renewal of the lease before a leader no longer counts as alive."""
    lease, grace = (durations.parse(text) / 1000 for text in (settings.lease, settings.grace))
    return max(lease + grace, 2 * RENEW_EVERY)


def _ended(store: Store, leader: LeaderRecord, patience: float, say: Callable[[str], None]) -> LeaderRecord:
    """Wait until the leader has resigned, or hasn't renewed its lease for ``patience`` seconds. Returns the leader's
    row. Raises ConflictError if the leader is still alive."""
    say(
        f"the last coordinator on {store.url} hasn't resigned: waiting up to {patience:g} s to see whether it lives ..."
    )
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        time.sleep(_LOOK)
        found = store.leader()
        if found is not None and found != leader:
            if found.resigned:
                return found
            raise _led(store, found)
    return leader


def _led(store: Store, leader: LeaderRecord) -> ConflictError:
    return ConflictError(
        f"a coordinator leads on {store.url}, or another verb is at work there: {without_passwords(leader.holder)}",
        "end the coordinators of this store with SIGTERM, or Ctrl-C, first; the jobs that run go on",
    )


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, so that ``with`` statements release what they hold. A second SIGTERM ends the
    process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _renewed(store: Store) -> Iterator[None]:
    """Renew the lease of a store until the end of ``with``. Copying folders can take much longer than a lease."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEW_EVERY):
            try:
                store.renew()
            except NotLeadingError:
                return
            except (StoreUnavailableError, ConflictError):
                continue  # the lease lasts longer than a few attempts

    thread = threading.Thread(target=renew, name="anabranch-renew", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def lanes(store: Store, job: str) -> list[Lane]:
    """The lanes of a stopped job that have state in their own folders.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: the job isn't stopped. Or the job was stopped during a change, or before all of its lanes were
            fenced.
    """
    its = _at_rest(store, job, {DeploymentState.STOPPED}, "stopped can be compacted")
    found = [lane for lane in open_lanes(store.lanes(job).values()) if lane.deployment == its.id]
    odd = next((lane for lane in found if not _rests(lane)), None)
    if odd is not None:
        raise ConflictError(
            f"lane {odd.id} of job {job!r} is {odd.state.value}, and others may have to continue it",
            "start the job again, and stop it once it runs",
        )
    return [lane for lane in found if lane.stateful and lane.folder_epoch]


def ended(store: Store, job: str) -> list[Lane]:
    """The open lanes of a job that has stopped or failed. The job may have ended during a change, or during the start
    of another version. For each of the returned lanes, either the start offsets are known, or all predecessors are
    open.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: the job is in another state, or was draining. Or a lane wasn't fenced. Or a lane's start
            offsets aren't known yet, and the lane has a closed predecessor or undoes a rewind.
    """
    its = _at_rest(store, job, {DeploymentState.STOPPED, DeploymentState.FAILED}, "stopped or has failed can do this")
    reset = f"restore the former stream; or, to start as a new job: anabranch reset {job}"
    if its.drain is not None:
        raise ConflictError(f"job {job!r} was draining, up to offsets of the former stream", reset)
    known = store.lanes(job)
    found = open_lanes(known.values())
    for lane in found:
        if lane.unfenced:
            raise ConflictError(
                f"lane {lane.id} of job {job!r} may still be written by another process",
                "start the job again, and stop it once that process is fenced",
            )
        closed = any(known[name].state is LaneState.CLOSED for name in lane.predecessors if name in known)
        undoes = lane.rewind is not None and lane.rewind.back
        if (closed or undoes) and not lane.start_is_known:
            raise ConflictError(f"lane {lane.id} of job {job!r} doesn't know yet where it continues", reset)
    return found


def _at_rest(store: Store, job: str, states: Collection[DeploymentState], which: str) -> DeploymentRecord:
    """A job's last deployment. Raises ConflictError unless the deployment is in one of ``states``. In the error's
    message, ``which`` completes the words "only one that is".
    """
    its = stored_jobs.deployment(store, job)
    if its.state not in states:
        cure = f"anabranch stop {job}" if its.state.active else "start it again, and stop it once it runs"
        raise ConflictError(f"job {job!r} is {its.state}: only one that is {which}", cure)
    return its


def unneeded(known: Mapping[str, Lane], there: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The folders in ``there`` that will never be read again, sorted. An open lane's former folders will never be read
    again. The folder of a closed lane is still needed as long as an open lane has to continue from this folder. Only
    folders of lanes in ``known`` are returned.

    Args:
        known: all lanes that the stopped job has ever had. No change may be under way (see :func:`lanes`).
        there: the existing folders, as pairs of a lane's id and a name within that lane's folder. Only folders whose
            names are numbers (epochs) are returned.
    """
    needed = {(lane, str(epoch)) for lane, epoch in needed_folders(known)}
    of_lanes = {(lane, name) for lane, name in there if lane in known and name.isdecimal()}
    return sorted(of_lanes - needed)


def needed_folders(known: Mapping[str, Lane]) -> set[tuple[str, int]]:
    """The folders from which the open lanes of a job continue, as pairs of lane and epoch (0 if the lane has no folder
    yet).
    """
    needed: set[tuple[str, int]] = set()
    for lane in open_lanes(known.values()):
        needed.add((lane.id, lane.folder_epoch))
        if not lane.folder_epoch or lane.was_silent:  # the lane will still read its predecessors' folders
            needed |= set(lane.inherits.items())
    return needed


def _rests(lane: Lane) -> bool:
    return lane.state is LaneState.PLANNED and lane.start_is_known and not lane.unfenced


def begun(
    store: Store,
    of: Sequence[Lane],
    at: float,
    who: str = "compact",
    why: str = _COMPACTS,
    what: str = "new folders are made for",
) -> list[Lane]:
    """Give lanes the job's next epoch. Under this epoch, the caller can fence the lanes' outputs and make new folders
    for the lanes. Returns the lanes as stored. ``who``, ``why`` and ``what`` become part of the event. In the event,
    the lanes' ids follow ``what``.
    """
    what = f"{what} {', '.join(lane.id for lane in of)}"
    return store.reseat(of, Event(kind="fence", job=of[0].job, at=at, who=who, what=what, why=why))


def replaced(store: Store, of: Sequence[tuple[Lane, str]], at: float, who: str = "compact") -> None:
    """Record, in one transaction, that lanes now use the folders of their epochs. ``of`` contains pairs of a lane and
    the reason for the lane's event. ``who`` is stored in each event. Lanes without a folder stay without one.
    """
    store.put_lanes(
        [
            msgspec.structs.replace(lane, folder_epoch=lane.epoch, abandoned=False) if lane.folder_epoch else lane
            for lane, _ in of
        ],
        [job_events.of_lane(lane, at, "has a new folder", why, who=who) for lane, why in of],
    )
