"""Processes that unpack the same code at once, or are killed while they do."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.job_code import artifact
from tests.unit.job_code.archives import contents, zipped

UNPACK = """
import sys
from pathlib import Path
from anabranch.job_code import artifact
content = Path(sys.argv[1]).read_bytes()
print("ready", flush=True)
sys.stdin.readline()
folder = artifact.unpack(content, sys.argv[2], Path(sys.argv[3]))
print(sum(1 for path in folder.rglob("*.py")), artifact.unpacked(sys.argv[2], Path(sys.argv[3])) == folder)
"""

FROZEN = """
import sys
from pathlib import Path
from anabranch.job_code import artifact
write = Path.write_text
def stop(path, text):
    write(path, text[: len(text) // 2])
    print("stopped", flush=True)
    sys.stdin.readline()
Path.write_text = stop
artifact.unpack(Path(sys.argv[1]).read_bytes(), sys.argv[2], Path(sys.argv[3]))
"""


def process(code: str, content: bytes, sha256: str, tmp_path: Path) -> subprocess.Popen[str]:
    (tmp_path / "content").write_bytes(content)
    words = [sys.executable, "-c", code, str(tmp_path / "content"), sha256, str(tmp_path / "cache")]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("damaged", [False, True])
def test_processes_that_unpack_at_once_end_with_one_sound_folder(tmp_path: Path, damaged: bool) -> None:
    content, sha256 = zipped(*((f"lib{n}/a.py", b"x" * 1000) for n in range(300)))
    if damaged:
        (artifact.unpack(content, sha256, tmp_path / "cache") / "lib7" / "a.py").unlink()
    processes = [process(UNPACK, content, sha256, tmp_path) for _ in range(3)]
    try:
        for each in processes:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in processes:
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()
        assert [each.communicate(timeout=60)[0] for each in processes] == ["300 True\n"] * 3
    finally:
        for each in processes:
            each.kill()
            each.communicate()
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {sha256, f".{sha256}.lock"}


def test_an_unpacking_that_is_killed_leaves_nothing_that_is_taken_for_whole(tmp_path: Path) -> None:
    content, sha256 = zipped(("job.py", b"1"), ("lib/a.py", b"2"))
    cache = tmp_path / "cache"
    killed = process(FROZEN, content, sha256, tmp_path)
    try:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "stopped\n"
        assert artifact.unpacked(sha256, cache) is None
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    assert not (cache / sha256).exists()
    assert (cache / f".{sha256}.part" / "job.py").exists()
    assert contents(artifact.unpack(content, sha256, cache)) == {"job.py": b"1", "lib/a.py": b"2"}
    assert {path.name for path in cache.iterdir()} == {sha256, f".{sha256}.lock"}
