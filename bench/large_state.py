"""What each move of a job (a change, a fail-over, a start) costs with large state: seconds, pause of output, and bytes.

A job keeps a count for each of many keys of 100 bytes. Its coordinator starts the containers itself, and always has one
warm container. A few hundred records a second arrive all the time. For each move, the command prints these figures:

- ``seconds``: how long the verb took or, for a fail-over, the time from SIGKILL until another container runs the job.
- ``stood still``: the longest time without output since the move began.
- ``written``: bytes in files that weren't in the storage root before.
- ``linked``: bytes in files that got additional names there without being written again.

For comparison, the command also copies the storage root by hand (``cp -r``, then ``sync``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.interruption import interruptible

from bench import pauses
from bench.support.processes import explained

SETTLED = 5.0
"""Seconds between two moves."""
MOST = 3600.0
COLUMNS = "{:28} {:>9} {:>13} {:>12} {:>12}"


@dataclass(frozen=True)
class Files:
    """The files below a folder.

    Attributes:
        sizes: the size of each file, by device and inode.
        names: how many names each file has below the folder.
    """

    sizes: Mapping[tuple[int, int], int]
    names: Mapping[tuple[int, int], int]

    @classmethod
    def of(cls, folder: Path) -> Files:
        sizes: dict[tuple[int, int], int] = {}
        names = Counter[tuple[int, int]]()
        for path in folder.rglob("*"):
            with suppress(FileNotFoundError):  # removed meanwhile
                found = path.lstat()
                if stat.S_ISREG(found.st_mode):
                    sizes[found.st_dev, found.st_ino] = found.st_size
                    names[found.st_dev, found.st_ino] += 1
        return cls(sizes, names)

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())

    def written(self, before: Files) -> int:
        """Bytes in files that weren't there before."""
        return sum(size for file, size in self.sizes.items() if file not in before.sizes)

    def linked(self, before: Files) -> int:
        """Bytes in files that have more names than before, counted once for each additional name."""
        more = ((file, names - before.names.get(file, 0)) for file, names in self.names.items() if file in before.sizes)
        return sum(self.sizes[file] * count for file, count in more if count > 0)


@dataclass
class Measured:
    """A job with large state, whose moves are measured."""

    run: pauses.Run
    watching: pauses.Watching

    @property
    def lanes(self) -> Path:
        return self.run.started.folder / ".anabranch" / "lanes"

    def move(self, what: str, act: Callable[[], object], stands_still: bool = True) -> None:
        """Make a move, and print what it cost. If output is expected after the move, wait for it before printing."""
        time.sleep(SETTLED)
        before, begun, since = Files.of(self.lanes), time.monotonic(), time.time()
        act()
        seconds = time.monotonic() - begun
        still = "-"
        if stands_still:
            done = time.time()
            self.run.until(f"output after {what}", lambda: bool(self.watching.at) and self.watching.at[-1] > done, MOST)
            still = f"{self.watching.gap(since, time.time()):.1f} s"
        after = Files.of(self.lanes)
        _told(what, seconds, still, after.written(before), after.linked(before))

    def fail_over(self) -> None:
        """Send SIGKILL to the containers that have seats, and wait until other containers have these seats."""
        lost = {each.container: each.pid for each in self.run.status().containers if each.gone is None}
        for pid in lost.values():
            os.killpg(pid, signal.SIGKILL)
        self.run.until("others have their seats", lambda: self._are_there(set(lost)), MOST)

    def _are_there(self, lost: set[str]) -> bool:
        status = self.run.status()
        living = {each.container for each in status.containers if each.gone is None} - lost
        return status.state == "running" and len(living) == status.seats

    def copied_by_hand(self) -> None:
        target = self.run.started.folder / "by-hand"
        begun = time.monotonic()
        subprocess.run(["cp", "-r", self.lanes, target], check=True)
        subprocess.run(["sync", "-f", target], check=True)
        _told("a copy by hand", time.monotonic() - begun, "-", Files.of(target).bytes, 0)
        shutil.rmtree(target)


def _told(what: str, seconds: float, still: str, written: int, linked: int) -> None:
    print(
        COLUMNS.format(what, f"{seconds:.1f} s", still, f"{written / 1e6:,.1f} MB", f"{linked / 1e6:,.1f} MB"),
        flush=True,
    )


def moves(made: Measured) -> None:
    run, verb = made.run, made.run.verb
    print(COLUMNS.format("move", "seconds", "stood still", "written", "linked"), flush=True)
    made.copied_by_hand()
    made.move("fail-over", made.fail_over)
    made.move("factor 1 to 4", lambda: verb("scale", "pauses", "--factor", "4"))
    made.move("factor 4 to 1", lambda: verb("scale", "pauses", "--factor", "1"))
    run.system.expand("in", 2 * pauses.PARTITIONS)
    made.move("expansion, 4 to 8 partitions", lambda: verb("expand", "pauses"))
    made.move("stop", lambda: verb("stop", "pauses"), stands_still=False)
    made.move("compact", lambda: verb("compact", "pauses"), stands_still=False)
    made.move("start", lambda: verb("start", "job.py"))
    made.move("drain", lambda: verb("drain", "pauses", "--timeout", f"{MOST:.0f}"), stands_still=False)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--keys", type=int, default=10_000_000, help="default: 10,000,000")
    given = words.parse_args()
    interruptible()
    pauses.PATIENCE = MOST
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-", ignore_cleanup_errors=True) as name, explained():
        begun = time.monotonic()
        with pauses.running(Path(name) / "job", "state", given.keys) as (run, watching):
            made = Measured(run, watching)
            state = sum(lane.report.progress.state_bytes for lane in run.status().lanes if lane.report is not None)
            sizes = f"{state / 1e6:,.0f} MB of state, {Files.of(made.lanes).bytes / 1e6:,.0f} MB in the storage root"
            print(f"{given.keys:,} keys, {sizes}, read in {time.monotonic() - begun:.0f} s", flush=True)
            moves(made)


if __name__ == "__main__":
    main()
