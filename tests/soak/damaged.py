"""Folders and streams of a job that are damaged or removed between two runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from anabranch.systems.embedded import Log
from tests.acceptance.harness import (
    EXAMPLE,
    INPUT,
    LATE,
    TABLE,
    Workspace,
    flights,
)


def damage(seed: int, workspace: Workspace) -> str:
    """Files of a job that has run are damaged or gone: it is refused or fails, nothing is written, and all is told."""
    several = flights(seed, 4000)
    workspace.put(several[:2000])
    workspace.finish()
    home = workspace.folder / ".anabranch"
    ends = workspace.ends()
    kept = shutil.copytree(home, workspace.folder / "kept")
    name = list(DAMAGES)[seed % len(DAMAGES)]
    code, *said = DAMAGES[name](workspace, home)
    before = workspace.ends()
    failed = workspace.call("run", "delays.py", "--available-now", code=code)
    assert failed.stderr.count("error: ") == 1, failed.stderr
    missing = [words for words in said if words not in failed.stderr]
    assert not missing, f"{missing} not in:\n{failed.stderr}"
    assert workspace.ends() == before, "something was written"

    shutil.rmtree(home)
    kept.rename(home)
    shutil.copy(EXAMPLE, workspace.folder / "delays.py")
    assert workspace.ends() == ends
    workspace.put(several[2000:])
    workspace.finish()
    workspace.check_outputs(several)
    return name


Damage = Callable[[Workspace, Path], tuple[object, ...]]


def _other_job(workspace: Workspace, home: Path) -> tuple[object, ...]:
    job = workspace.folder / "delays.py"
    job.write_text(job.read_text().replace("dep_delay >= 15", "dep_delay >= 20"))
    return 4, "differs from the one that was started", "condition is"


def _no_lanes(workspace: Workspace, home: Path) -> tuple[object, ...]:
    shutil.rmtree(home / "lanes")
    return 1, "the folder of lane", "is gone", "restore the storage root"


def _no_store(workspace: Workspace, home: Path) -> tuple[object, ...]:
    for path in [path for path in home.iterdir() if path.name != "streams"]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return 1, "holds records that lane", "the store", "doesn't know"


def _no_log(workspace: Workspace, home: Path) -> tuple[object, ...]:
    shutil.rmtree(home / "streams")
    return 3, f"stream '{INPUT}'"


def _no_outputs(workspace: Workspace, home: Path) -> tuple[object, ...]:
    for stream in (LATE, TABLE):
        shutil.rmtree(home / "streams" / stream)
    return 1, "the output stream '", "is gone"


def _no_table(workspace: Workspace, home: Path) -> tuple[object, ...]:
    shutil.rmtree(home / "streams" / TABLE)
    return 1, f"the output stream '{TABLE}'", "is gone"


def _another_input(workspace: Workspace, home: Path) -> tuple[object, ...]:
    shutil.rmtree(home / "streams" / INPUT)
    workspace.put(flights(0, 2000))
    return 1, f"stream embedded/{INPUT} isn't the one that"


def _cut_short(workspace: Workspace, home: Path) -> tuple[object, ...]:
    path = _newest_segment(workspace)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return 1, f"{path}, which holds the offsets ", "was cut short"


def _missing(workspace: Workspace, home: Path) -> tuple[object, ...]:
    path = _newest_segment(workspace)
    path.unlink()
    return 1, f"{path}, which holds the offsets ", "is missing"


def _newest_segment(workspace: Workspace) -> Path:
    """That of records which were not read yet."""
    end = workspace.ends()[INPUT][0]
    workspace.put(flights(1, 400))
    return Path(Log(workspace.folder / ".anabranch" / "streams").slices(INPUT, 0, end, end + 1)[0].path)


DAMAGES: dict[str, Damage] = {
    "another job": _other_job,
    "no lanes": _no_lanes,
    "no store": _no_store,
    "no log": _no_log,
    "no outputs": _no_outputs,
    "no table": _no_table,
    "another input": _another_input,
    "a segment cut short": _cut_short,
    "a segment missing": _missing,
}
