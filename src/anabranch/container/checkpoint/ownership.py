"""Decides, by claims and leases, which process owns a lane's folder if the storage has no locks.

A claim to a folder is a numbered file in another folder, next to the claimed one. The file is created exclusively: if
two processes try, only one succeeds. The claim with the highest number counts. The process that made this claim shows
that it is alive by rewriting its own file every few seconds. A process uses the same file for all lanes of a job.

Another process makes the next claim only if the owner has released the folder, has ended, or hasn't rewritten its file
for ``EXPIRES`` seconds. (An owner that ends normally releases its folders. The end of a killed owner is visible only on
the same machine.)

``LEASE`` is shorter than ``EXPIRES``. An owner that hasn't rewritten its file for ``LEASE`` seconds writes nothing to
its folders until it has checked that its claims still count. From then on, the owner repeats this check whenever it
extends its lease, because another process may have noticed the owner's silence and may still be about to make a claim.
Each process uses its own clock for these times.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

import msgspec

from anabranch import logs
from anabranch.errors import ConfigError, ConflictError, FencedError, UnsupportedFormatError
from anabranch.model.document import Document, UnknownVersionError, decode, encode

__all__ = ["EXCLUSIVE", "EXPIRES", "LEASE", "Claim", "Files", "Ownership"]

RENEW_EVERY = 5.0
LEASE = 20.0
EXPIRES = 30.0
"""How long, in seconds, an owner must have been silent before another process takes its folder. Over this time, the
clocks of two machines must not diverge by more than ``EXPIRES`` - ``LEASE``."""
_LOOK_EVERY = 0.5

EXCLUSIVE = frozenset({"abfs", "abfss", "gs", "hdfs", "o3fs", "ofs", "s3a", "swebhdfs", "viewfs", "webhdfs"})
"""The URI schemes of storage in which files can be created exclusively."""

_PROCESSES = "processes"
_CLAIMS = "claims-"
_RELEASED = ".released"

log = logs.get_logger()


class Claim(Document, frozen=True, kw_only=True):
    """A claim to a folder. The claim names the process that made it.

    Attributes:
        process: a random name for the process.
        host: the name of the process's machine, for messages.
        machine: an identifier that is the same for all processes whose process ids can be compared; '' if unknown.
        pid: the id of the process that writes to the folder.
        started: when that process was started, according to the operating system; '' if unknown.
    """

    process: str
    host: str
    machine: str
    pid: int
    started: str


class Files(Protocol):
    """Access to the files in the storage, by path."""

    def create(self, path: str, text: str) -> bool:
        """Create a file. Returns False if it exists. If several processes try at once, exactly one succeeds."""
        ...

    def write(self, path: str, text: str) -> None:
        """Write a file, replacing any existing one."""
        ...

    def read(self, path: str) -> str:
        """The text of a file."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        ...

    def names(self, folder: str) -> dict[str, str]:
        """The names of the files in a folder, each with a value that changes when the file is rewritten. Empty if there
        is no such folder."""
        ...

    def lease(self, folder: str, seconds: float) -> None:
        """Allow this process to write below a folder for ``seconds``; 0 forbids this at once."""
        ...


class Ownership:
    """The folders of one job that one process owns. Thread-safe.

    Args:
        files: access to the files of the storage.
        folder: the folder that contains the folders of the job's lanes.
        me: the claim that this process makes.
        clock: returns the seconds of a clock that keeps running while the process is frozen.
        pause: waits for a number of seconds.
        has_ended: returns whether the process of a claim is known to have ended, so that it can no longer write.
    """

    def __init__(
        self,
        files: Files,
        folder: str,
        me: Claim,
        clock: Callable[[], float],
        pause: Callable[[float], object],
        has_ended: Callable[[Claim], bool],
    ) -> None:
        self._files = files
        self._folder = folder
        self._me = me
        self._clock = clock
        self._pause = pause
        self._has_ended = has_ended
        self._lock = threading.RLock()
        self._taking: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._held: dict[str, int] = {}
        self._lost: dict[str, str] = {}
        self._renewed: float | None = None
        self._was_silent = False
        """Whether this process's lease has ever run out. If so, another process may have taken its folders."""
        self._count = 0

    def take(self, folder: str, unless: Callable[[], bool] = lambda: False) -> None:
        """Take a folder. If this process has taken the folder before, only check that the process still owns it.

        A folder that nobody owns, or whose owner has released it or has ended, is taken at once. Otherwise, the owner
        is watched, and the folder is taken if the owner gives no sign of life for ``EXPIRES`` seconds. If the owner
        gives a sign of life just before the new claim is made, the call waits ``LEASE`` more seconds, until the owner's
        lease has ended.

        Args:
            unless: returns whether to stop waiting for the owner.

        Raises:
            FencedError: another process has the folder, and is alive; or it has taken the folder from this process.
            ConflictError: ``unless`` became true before it was known whether the owner is alive.
            ConfigError: the storage lets two processes create the same file.
            UnsupportedFormatError: a newer version of anabranch has written the owner's claim.
        """
        with self._lock:
            taking = self._taking[folder]
        with taking:
            if folder in self._held:
                self.check(folder)
                return
            self._begin()
            created = False
            while not created:
                last, claim, silent = self._last(folder), None, None
                if last is not None and not self._is_released(folder, last):
                    claim = self._claim(folder, last)
                    if claim is None or claim.process != self._me.process:
                        silent = self._await_end(folder, last, claim, unless)
                number = 0 if last is None else last + 1
                created = self._files.create(_claim_path(folder, number), encode(self._me).decode())
            if silent is not None and self._sign(claim) != silent:
                # The former owner may have extended its lease before it could see the new claim. Wait for the lease's
                # end.
                self._pause(LEASE)
            self._have(folder, number)

    def check(self, folder: str) -> None:
        """Check that this process still owns a folder. While the lease lasts, no files are accessed.

        Raises:
            FencedError: another process has taken the folder.
        """
        with self._lock:
            if not self._is_leased:
                self._renew()
            self._raise_if_lost(folder)

    def renew(self) -> None:
        """Show that this process is alive, and extend its lease. Does nothing before the first :meth:`take`. Must be
        called every ``RENEW_EVERY`` seconds."""
        with self._lock:
            if self._renewed is not None:
                self._renew()

    def release(self, folder: str) -> None:
        """Release a folder. Call this only if this process won't write to the folder again."""
        with self._lock:
            number = self._held.pop(folder, None)
            if number is None or folder in self._lost:
                return
            self._files.lease(folder, 0)
            self._files.create(_release_path(folder, number), "")

    def end(self) -> None:
        """Release all folders at the end of the process."""
        with self._lock:
            if self._renewed is None:
                return
            for folder in self._held:
                self._files.lease(folder, 0)
            held = {folder: number for folder, number in self._held.items() if folder not in self._lost}
            self._held.clear()
            self._renewed = None
            for folder, number in held.items():
                self._files.create(_release_path(folder, number), "")
            self._files.remove(self._own_path)

    @property
    def _own_path(self) -> str:
        return f"{self._folder}/{_PROCESSES}/{self._me.process}"

    @property
    def _is_leased(self) -> bool:
        return self._renewed is not None and self._clock() < self._renewed + LEASE

    def _begin(self) -> None:
        """Write this process's file, unless this was done before. Raises ConfigError if the storage lets the existing
        file be created again."""
        with self._lock:
            if self._renewed is not None:
                return
            begun, text = self._clock(), encode(self._me).decode()
            self._files.write(self._own_path, text)
            if self._files.create(self._own_path, text):
                raise ConfigError(
                    f"the store of {self._folder} lets two processes create the same file: it ignores If-None-Match",
                    "use a version of it that has conditional writes, or HDFS, or a disk: see checkpoint-to-s3.md",
                )
            self._renewed = begun

    def _renew(self) -> None:
        begun = self._clock()
        self._count += 1
        self._files.write(self._own_path, f"{encode(self._me).decode()}\n{self._count}\n")
        self._was_silent = self._was_silent or not self._is_leased
        if self._was_silent:
            self._look_for_claims()
        self._renewed = begun
        for folder in self._held:
            self._files.lease(folder, 0 if folder in self._lost else LEASE - (self._clock() - begun))

    def _look_for_claims(self) -> None:
        for folder, number in self._held.items():
            last = None if folder in self._lost else self._last(folder)
            if last is not None and last > number:
                self._lost[folder] = self._owner(folder, last)
                log.warning("another process has taken the folder of a lane", folder=folder, by=self._lost[folder])

    def _raise_if_lost(self, folder: str) -> None:
        if folder in self._lost:
            raise FencedError(
                f"{self._lost[folder]} has taken {folder}, because this process gave no sign of life "
                f"for {EXPIRES:.0f} s",
                "this process writes nothing more to it",
            )

    def _have(self, folder: str, number: int) -> None:
        with self._lock:
            self._held[folder] = number
            self._lost.pop(folder, None)
            assert self._renewed is not None
            if self._was_silent or not self._is_leased:
                self._renew()
            self._raise_if_lost(folder)
            self._files.lease(folder, LEASE - (self._clock() - self._renewed))

    def _last(self, folder: str) -> int | None:
        return max((int(name) for name in self._files.names(_claims(folder)) if name.isdecimal()), default=None)

    def _claim(self, folder: str, number: int) -> Claim | None:
        """A claim; None if the file is damaged, for example because only part of it was written. Raises
        UnsupportedFormatError if a newer version of anabranch wrote it."""
        try:
            return decode(self._files.read(_claim_path(folder, number)).encode(), Claim)
        except UnknownVersionError:
            raise
        except (msgspec.MsgspecError, UnsupportedFormatError):
            return None

    def _owner(self, folder: str, number: int) -> str:
        try:
            return _named(self._claim(folder, number))
        except UnsupportedFormatError:
            return _named(None)

    def _is_released(self, folder: str, number: int) -> bool:
        return f"{number}{_RELEASED}" in self._files.names(_claims(folder))

    def _await_end(self, folder: str, number: int, claim: Claim | None, unless: Callable[[], bool]) -> str | None:
        """Wait until it is known that the owner has released the folder, has ended, or has been silent for too long. In
        the last case, returns the owner's last sign of life, otherwise None. ``number`` is that of the owner's claim.
        Raises FencedError or ConflictError like :meth:`take`.
        """
        said, since = self._sign(claim), self._clock()
        while True:
            at = self._clock()  # before the sign, because this process may be frozen between the two
            now, late = self._sign(claim), at >= since + EXPIRES
            if self._is_released(folder, number) or (claim is not None and self._has_ended(claim)):
                return None
            is_silent = now in ("", said)
            if not is_silent and (late or self._yields(folder)):
                raise self._taken(folder, claim)
            if is_silent and late:
                log.warning("the owner of a lane's folder is silent, and is taken for dead", folder=folder)
                return now
            if unless():
                raise ConflictError(
                    f"it isn't known yet whether another process still uses {folder}",
                    f"try again: this will be known {EXPIRES:.0f} s after that process's last sign of life",
                )
            self._pause(_LOOK_EVERY)

    def _yields(self, folder: str) -> bool:
        """Whether this process gives way to a living owner at once. If two processes want the same folders, and each
        has taken some of them, the process that has taken the alphabetically first folder continues, and the other one
        ends.
        """
        with self._lock:
            return not any(held < folder for held in self._held)

    def _sign(self, claim: Claim | None) -> str:
        """A value that changes with each sign of life of a claim's process. The value is '' if the process's file isn't
        there. This doesn't mean that the process has ended: in some storage, such as WebHDFS, the file is missing for a
        moment whenever it is rewritten. If ``claim`` is None because the claim can't be read, the value is a constant.
        """
        if claim is None:
            return "unknown"
        return self._files.names(f"{self._folder}/{_PROCESSES}").get(claim.process, "")

    def _taken(self, folder: str, claim: Claim | None) -> FencedError:
        return FencedError(
            f"{_named(claim)} runs on {folder}",
            "stop it, or leave the job to it; two processes with copies of one store can't run the same job",
        )


def _claims(folder: str) -> str:
    """The folder that contains the claims to ``folder``. It is next to ``folder``, not in it, so that a copy of
    ``folder`` has no claims."""
    lane, _, epoch = folder.rpartition("/")
    return f"{lane}/{_CLAIMS}{epoch}"


def _claim_path(folder: str, number: int) -> str:
    return f"{_claims(folder)}/{number}"


def _release_path(folder: str, number: int) -> str:
    return f"{_claim_path(folder, number)}{_RELEASED}"


def _named(claim: Claim | None) -> str:
    return "another process" if claim is None else f"process {claim.pid} on {claim.host}"
