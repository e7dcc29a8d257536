"""This process's claims to folders in storage without locks, and the thread that renews the leases of these folders."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from anabranch import logs
from anabranch.clocks import boottime
from anabranch.container.checkpoint.ownership import EXCLUSIVE, RENEW_EVERY, Claim, Ownership
from anabranch.errors import ConfigError
from anabranch.spark.internals import checkpoint_files
from anabranch.spark.internals.checkpoint_files import FarFiles
from anabranch.spark.internals.hadoop_files import Hadoop
from anabranch.spark.session import session
from anabranch.throttle import Throttled

__all__ = ["check", "end", "release", "stop_session", "take"]

log = logs.get_logger()

_BOOT, _PIDS = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
_STATE, _STARTED = 0, 19
"""Indices of fields in ``/proc/PID/stat``, counted from the field after the program's name."""

_owners: dict[tuple[int, str], Ownership] = {}
"""The folders that each JVM owns, by the JVM's process id and the job's folder."""
_lock = threading.Lock()


def take(spark: SparkSession, folder: str, unless: Callable[[], bool]) -> None:
    """Take a lane's folder for this process, or check that this process still has it. The call may wait for the
    folder's owner; see :meth:`Ownership.take`.

    Args:
        unless: returns whether to stop waiting for the owner.

    Raises:
        ConfigError: the storage isn't known to create files exclusively (see ``ownership.EXCLUSIVE``), or a test has
            shown that it doesn't.
        FencedError: another process has the folder and is alive, or has taken the folder from this process.
        ConflictError: ``unless`` returned True before it was known whether the folder's owner is alive.
        UnsupportedFormatError: a newer version of anabranch has written the owner's claim.
    """
    scheme = urlsplit(folder).scheme
    if scheme not in EXCLUSIVE:
        raise ConfigError(
            f"[storage] root is on {scheme!r}, where it isn't known whether files can be created exclusively: two "
            "processes couldn't be kept from running the same lane",
            f"use one of {', '.join(sorted(EXCLUSIVE))}, or a disk",
        )
    _owner(spark, folder).take(folder, unless)


def check(spark: SparkSession, folder: str) -> None:
    """Check that this process still owns a lane's folder: see :meth:`Ownership.check`."""
    _owner(spark, folder).check(folder)


def release(spark: SparkSession, folder: str) -> None:
    """Release a lane's folder: see :meth:`Ownership.release`."""
    _owner(spark, folder).release(folder)


def end() -> None:
    """Release all folders. Call this only after everything in this process has stopped writing to them."""
    for owner in tuple(_owners.values()):
        try:
            owner.end()
        except Exception as error:
            log.warning("a folder was not given back: others wait until its lease is over", error=str(error))


def stop_session(spark: SparkSession) -> None:
    """Release all folders, and stop Spark, at the end of a command that has taken folders."""
    end()
    session.stop(spark)


def _owner(spark: SparkSession, folder: str) -> Ownership:
    of_job, jvm = folder.rsplit("/", 2)[0], checkpoint_files.process_id(spark)
    with _lock:
        if (jvm, of_job) not in _owners:
            owner = Ownership(_HadoopFiles(spark, folder), of_job, _me(jvm), boottime, time.sleep, _has_ended)
            if not _owners:
                threading.Thread(target=_renew, name="renews leases", daemon=True).start()
            _owners[jvm, of_job] = owner
        return _owners[jvm, of_job]


def _renew() -> None:
    said: dict[tuple[int, str], Throttled] = {}  # not LastTold, because an error of S3 has an id of its own each time
    while True:
        time.sleep(RENEW_EVERY)
        for key, owner in tuple(_owners.items()):
            try:
                owner.renew()
                said.pop(key, None)
            except Exception as error:
                said.setdefault(key, Throttled(_cannot_renew))(str(error))


def _cannot_renew(why: str) -> None:
    log.warning("the lease of folders can't be renewed", error=why)


def _me(jvm: int) -> Claim:
    machine = ""
    with suppress(OSError):
        machine = f"{_BOOT.read_text().strip()} {os.readlink(_PIDS)}"
    stat = _stat(jvm)
    return Claim(
        process=uuid.uuid4().hex,
        host=socket.gethostname(),
        machine=machine if stat else "",
        pid=jvm,
        started=stat[_STARTED] if stat else "",
    )


def _has_ended(claim: Claim) -> bool:
    if not claim.machine or claim.machine != _me(os.getpid()).machine:
        return False
    stat = _stat(claim.pid)
    return not stat or stat[_STATE] in "ZX" or stat[_STARTED] != claim.started


def _stat(pid: int) -> list[str]:
    """The fields after the program's name in ``/proc/PID/stat``; [] if there is no such file."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")  # any program can have any name
        return text.rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


class _HadoopFiles:
    """Implements :class:`ownership.Files` with Hadoop's FileSystem."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._path: Any = Hadoop(spark).path
        self._fs = self._path(folder).getFileSystem(Hadoop(spark).conf)
        self._files = FarFiles(spark, self._fs)

    def create(self, path: str, text: str) -> bool:
        return self._files.create(self._path(path), text)

    def write(self, path: str, text: str) -> None:
        self._files.write(self._path(path), text)

    def read(self, path: str) -> str:
        return self._files.read(self._path(path))

    def remove(self, path: str) -> None:
        self._fs.delete(self._path(path), False)

    def names(self, folder: str) -> dict[str, str]:
        listed = self._files.files(self._path(folder), below=False)
        return {each.name: f"{each.size} {each.changed}" for each in listed}

    def lease(self, folder: str, seconds: float) -> None:
        checkpoint_files.lease(self._spark, folder, seconds)
