"""Long runs of generated jobs under kills: ``python -m tests.soak``. What was done is not done again."""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from anabranch import steps
from tests.acceptance.harness import ROOT, Workspace, flights

FOLDER = ROOT / ".soak"
STATE = FOLDER / "state.json"
COUNT = 20_000
SMALL, LARGER = 1500, 5000
STEPS = tuple(itertools.product((0, 1), steps.NAMES))

Scenario = Callable[[int, Workspace], str]


def spine(seed: int, workspace: Workspace) -> str:
    """One kill of the job ``delays``: at a step of a lane for even seeds, at a random time for odd ones."""
    dice = random.Random(seed)
    several = flights(seed, COUNT)
    workspace.put(several, pieces=dice.choice([1, 3]))
    stage, step = STEPS[seed // 2 % len(STEPS)]
    batch = dice.randint(1, 6)
    hold = "" if seed % 2 else f"{stage}-:{step}:{batch}"
    process = workspace.start("run", "delays.py", "--available-now", hold=hold, job__max_rows_per_batch=SMALL)
    if hold:
        how = f"at {hold}"
        process.held()
    else:
        read, later = dice.randint(1, COUNT // 2), dice.uniform(0, 1.5)
        how = f"{later:.1f} s after {read} rows in stage {stage}"
        process.until("a commit", lambda: workspace.committed(f"{stage}-") >= 0)
        process.until(f"{read} rows", lambda: workspace.lane(f"{stage}-").read >= read)
        time.sleep(later)
    process.kill()
    left = workspace.lane(f"{stage}-")
    assert left.committed >= 0, "no batch was committed before the kill"
    assert left.read <= 0.8 * COUNT, f"only {COUNT - left.read} rows were left at the kill"

    workspace.finish(job__max_rows_per_batch=LARGER)
    workspace.check_outputs(several)
    ends = workspace.ends()
    again = workspace.finish()
    assert again.stderr.count(" 0 rows read in this run") == 2
    assert workspace.ends() == ends
    return f"killed {how}, {left.read} rows read"


# Each is run once a seed, in a workspace of its own. Every later issue adds its long runs here.
SCENARIOS: dict[str, Scenario] = {"spine": spine}


def main() -> int:
    words = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    words.add_argument("--seeds", type=int, default=20, help="how many seeds of each scenario (default: 20)")
    words.add_argument("--from", type=int, default=0, dest="first", help="the first seed (default: 0)")
    words.add_argument("--only", choices=sorted(SCENARIOS), help="this scenario only")
    words.add_argument("--again", action="store_true", help="also the seeds that are done")
    given = words.parse_args()
    for name in [given.only] if given.only else SCENARIOS:
        for seed in range(given.first, given.first + given.seeds):
            if seed in _done().get(name, []) and not given.again:
                print(f"{name} {seed}: done before", flush=True)
            elif not _ran(name, seed):
                return 1
    return 0


def _ran(name: str, seed: int) -> bool:
    command = f"python -m tests.soak --only {name} --from {seed} --seeds 1 --again"
    print(f"{name} {seed}: {command}", flush=True)
    folder = FOLDER / f"{name}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (FOLDER / ".gitignore").write_text("*\n")
    workspace = Workspace(folder)
    begun = time.monotonic()
    try:
        found = SCENARIOS[name](seed, workspace)
    except AssertionError as error:
        print(f"{name} {seed}: FAILED: {error}\n  its files are in {folder}; again with\n  {command}", flush=True)
        return False
    finally:
        workspace.close()
    shutil.rmtree(folder)
    print(f"{name} {seed}: ok, {found}; {time.monotonic() - begun:.0f} s", flush=True)
    done = _done()
    _write({**done, name: sorted({*done.get(name, []), seed})})
    return True


def _done() -> dict[str, list[int]]:
    return json.loads(STATE.read_text()) if STATE.exists() else {}


def _write(done: dict[str, list[int]]) -> None:
    part = Path(f"{STATE}.part")
    part.write_text(json.dumps(done) + "\n")
    part.replace(STATE)


if __name__ == "__main__":
    sys.exit(main())
