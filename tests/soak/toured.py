"""The tour, ended by Ctrl-C at any moment: nothing of it may be left."""

from __future__ import annotations

import random
import signal
import time

from tests.acceptance.harness import Workspace
from tests.support.toured import Tour

__all__ = ["interrupted"]

_LONGEST = 150.0


def interrupted(seed: int, workspace: Workspace) -> str:
    """A signal comes at a random moment: for a third of the seeds in the first two seconds. A tour that is over by then
    must have ended well."""
    dice = random.Random(seed)
    after = dice.uniform(0, 2) if seed % 3 == 0 else dice.uniform(2, _LONGEST)
    number = dice.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    folder = workspace.folder / "tour"
    folder.mkdir()
    tour = Tour(folder)
    try:
        end = time.monotonic() + after
        while time.monotonic() < end and tour.popen.poll() is None:
            time.sleep(0.01)
        is_over = tour.popen.poll() is not None
        running = len(tour.processes())
        tour.popen.send_signal(number)
        if dice.random() < 0.5:
            time.sleep(dice.uniform(0, 0.5))
            tour.popen.send_signal(number)  # impatience must not keep it from clearing away
        code = tour.wait(90)
        # before the tour heeds signals there is nothing to clear away, and they end the process
        assert code in ({0} if is_over else {0, 130, -number}), f"exit code {code}\n{tour.text}"
        tour.check_nothing_is_left()
    finally:
        tour.close()
    return f"{number.name} after {after:.1f} s, with {running} processes: exit code {code}"
