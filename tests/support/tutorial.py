"""Follows a page of docs/tutorials to the letter: writes its files, runs its commands, compares what they print.

docs/contributing/documentation.md says what each kind of block is.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```(?P<kind>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_INSTALLS = re.compile(r"^(python3? -m venv|pip install|\. \.venv|docker run)", re.MULTILINE)
"""What was done for the tests already."""
_PATIENCE = 400.0


@dataclass(frozen=True)
class Block:
    """A block of code. ``title``: of a file its path, of commands the terminal; ``output``: what they print."""

    kind: str
    title: str
    text: str
    line: int
    output: str | None = None


def blocks(page: str) -> list[Block]:
    """The blocks of a page, each with the output that stands right behind it."""
    found: list[Block] = []
    end = 0
    for match in _BLOCK.finditer(page):
        between = page[end : match.start()]
        end = match.end()
        block = Block(match["kind"], match["title"] or "", match["text"], page.count("\n", 0, match.start()) + 1)
        last = found[-1] if found else block
        if block.kind == "text" and last.kind == "sh" and last.output is None and not between.strip():
            found[-1] = replace(last, output=block.text)
        else:
            found.append(block)
    return found


def settings(page: Path) -> dict[str, Any]:
    """The settings that a page gives, all its blocks of TOML together."""
    found: dict[str, Any] = {}
    for block in blocks(page.read_text(encoding="utf-8")):
        for section, values in tomllib.loads(block.text).items() if block.kind == "toml" else ():
            held = found.setdefault(section, {})
            for name, value in values.items():
                held[name] = {**held[name], **value} if name in held else value
    return found


def differs(expected: str, printed: str) -> bool:
    """Whether something else was printed; ``...`` stands for anything, on a line of its own for any lines or none."""
    lines = [line.rstrip() for line in expected.strip().splitlines()]
    parts = ["(?:.*\n)?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*?") + "\n" for line in lines]
    text = "".join(f"{line.rstrip()}\n" for line in printed.strip().splitlines())
    return re.fullmatch("".join(parts), text, re.DOTALL) is None


def follow(page: Path, folder: Path, environment: Mapping[str, str], replaced: Mapping[str, str] | None = None) -> int:
    """Do what a page says, in an empty folder. Gives the number of blocks that were run.

    Args:
        environment: that of the commands.
        replaced: texts of the page that are others here, as the address of a broker.
    """
    text = page.read_text(encoding="utf-8")
    for old, new in (replaced or {}).items():
        assert old in text, f"{page.name} doesn't have {old}"
        text = text.replace(old, new)
    done = 0
    with _Terminals(folder, environment) as terminals:
        for block in blocks(text):
            where = f"{page.name}:{block.line}"
            if block.kind == "sh":
                terminals.run(block, where)
            elif block.title:
                path = terminals.cwd / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
            elif block.kind == "python":
                terminals.run(Block("sh", "", f"python - <<'PYTHON'\n{block.text}PYTHON\n", block.line), where)
            else:
                assert block.kind == "text", f"{where}: nothing runs a block of the kind {block.kind!r}"
                assert _INSTALLS.search(block.text), f"{where}: output that belongs to no commands"
                continue
            done += 1
    return done


@contextmanager
def _Terminals(folder: Path, environment: Mapping[str, str]) -> Iterator[Terminals]:
    terminals = Terminals(folder, environment)
    try:
        yield terminals
    finally:
        terminals.close()


class Terminals:
    """A terminal whose commands are waited for, and others whose commands may go on."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.cwd = folder
        self._environment = dict(environment)
        self._others: list[subprocess.Popen[bytes]] = []

    def run(self, block: Block, where: str) -> None:
        """Run commands, and compare what they print."""
        if block.title:
            self._start(block, where)
            return
        # the folder and variables are those of the next block, too
        script = f"{block.text}\npwd >&9\nexport -p >&8"
        state, variables = self.cwd / ".tutorial-cwd", self.cwd / ".tutorial-env"
        command = ["bash", "-euo", "pipefail", "-c", f"exec 9>'{state}' 8>'{variables}'\n{script}"]
        done = subprocess.run(
            command,
            cwd=self.cwd,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        told = f"{where}\n$ {block.text}\n{done.stdout}\n{done.stderr[-4000:]}"
        assert done.returncode == 0, told
        if block.output is not None:
            # a terminal shows both; what is data goes to stdout, the rest to stderr
            seen = done.stdout, done.stderr, done.stderr + done.stdout
            assert not all(differs(block.output, text) for text in seen), f"{told}\nthe page has:\n{block.output}"
        for name, value in re.findall(r'^declare -x (ANABRANCH\w*)="(.*)"$', variables.read_text(), re.MULTILINE):
            self._environment[name] = value
        after = Path(state.read_text().strip())
        state.unlink()
        variables.unlink()
        self.cwd = after

    def _start(self, block: Block, where: str) -> None:
        log = self.cwd / f".tutorial-{len(self._others)}.log"
        with log.open("wb") as output:
            started = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", f"exec {block.text.strip()}"],
                cwd=self.cwd,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._others.append(started)
        end = time.monotonic() + _PATIENCE
        while block.output is not None and differs(f"...\n{block.output.strip()}\n...", log.read_text()):
            assert started.poll() is None, f"{where}: ended\n{log.read_text()}"
            assert time.monotonic() < end, f"{where}: doesn't print {block.output}\n{log.read_text()}"
            time.sleep(0.2)

    def close(self) -> None:
        """End what still runs, and all that it has started."""
        for each in self._others:
            with suppress_gone():
                os.killpg(each.pid, signal.SIGTERM)
        for each in self._others:
            try:
                each.wait(30)
            except subprocess.TimeoutExpired:
                with suppress_gone():
                    os.killpg(each.pid, signal.SIGKILL)
                each.wait()


@contextmanager
def suppress_gone() -> Iterator[None]:
    """A process that has ended meanwhile needs no signal."""
    try:
        yield
    except ProcessLookupError:
        return
