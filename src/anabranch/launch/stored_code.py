"""Checks whether the stored code of a job can be loaded."""

from __future__ import annotations

import subprocess
import sys

from anabranch import cache_dir
from anabranch import config as configuration
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError
from anabranch.job_code import artifact
from anabranch.protocol.deployment import Program

__all__ = ["fault"]

_LOADED_WITHIN = 120.0
_SAID = 2000  # characters
_LOAD = """
import sys
from pathlib import Path
from anabranch.errors import AnabranchError
from anabranch.launch import loading
try:
    loading.load(Path(sys.argv[1]))
except AnabranchError as error:
    sys.exit(error.what)
"""


def fault(store: Store, program: Program) -> str:
    """Why a container would fail to load a program's code; empty if it would succeed. To check this, the code is loaded
    in a new process.
    """
    content = store.artifact(program.artifact) if program.artifact else None
    if content is None:
        return program.lacks or "it isn't in the store"
    cache = cache_dir.folder() / "artifacts"
    try:
        home = artifact.unpacked(program.artifact, cache) or artifact.unpack(content, program.artifact, cache)
        command = [sys.executable, "-P", "-c", _LOAD, str(home / program.file)]
        done = subprocess.run(
            command,
            env=configuration.environment_of_containers(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LOADED_WITHIN,
            check=False,
        )
    except AnabranchError as error:
        return error.what
    except subprocess.TimeoutExpired:
        return f"loading it takes more than {_LOADED_WITHIN:.0f} s"
    return "" if done.returncode == 0 else done.stderr.strip()[-_SAID:] or f"it ended with {done.returncode}"
