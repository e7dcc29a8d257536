"""Tries all mutants of the page, or those with a word in their names: ``python -m tests.dashboard.mutants WORD``."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.dashboard.mutants import MUTANTS, seen
from tests.support.interruption import interruptible


def main(words: list[str]) -> None:
    interruptible()
    chosen = [each for each in MUTANTS if not words or any(word in each.name for word in words)]
    passed = 0
    for mutant in chosen:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="anabranch-mutant-") as folder:
            wrong = seen(mutant, Path(folder))
        print(f"{'NOT SEEN' if wrong else 'seen':8} {time.monotonic() - begun:5.1f} s  {mutant.name}", flush=True)
        if wrong:
            passed += 1
            print(wrong, flush=True)
    print(f"{len(chosen) - passed} of {len(chosen)} mutants are seen")
    if passed:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
