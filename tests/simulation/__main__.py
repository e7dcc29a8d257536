"""``python -m tests.simulation --seed N`` shows what happens in a run; ``--seeds A..B`` says which runs go wrong."""

from __future__ import annotations

import argparse
import sys
import time

import pytest

from tests.simulation import mutants, running


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="show this run")
    which.add_argument("--seeds", help="A..B: run all of these, B too")
    parser.add_argument("--mutant", choices=mutants.NAMES, help="with one step of the protocol left out")
    options = parser.parse_args()
    with pytest.MonkeyPatch.context() as patch:
        if options.mutant is not None:
            mutants.load(options.mutant).apply(patch)
        if options.seed is not None:
            return _show(options.seed)
        first, last = map(int, options.seeds.split(".."))
        return _run(first, last)


def _show(seed: int) -> int:
    trace, broken = running.run(seed)
    for at, who, what in trace:
        print(f"{at:8.3f}  {who:14} {what}")
    print(f"seed {seed}: {broken or 'all invariants hold'}")
    return 1 if broken is not None else 0


def _run(first: int, last: int) -> int:
    began, broken = time.monotonic(), 0
    for seed in range(first, last + 1):
        found = running.run(seed)[1]
        if found is not None:
            broken += 1
            print(f"seed {seed}: {found}", flush=True)
    seconds, runs = time.monotonic() - began, last + 1 - first
    print(f"{runs} seeds in {seconds:.1f} s ({runs / seconds:.0f} a second), {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
