"""What is kept of a job that runs in one process, and why code or settings may be missing."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from anabranch import config
from anabranch.config import Settings
from anabranch.job_code import artifact
from anabranch.launch import own_program
from anabranch.launch.own_program import PackedCode
from anabranch.launch.preparation import Prepared
from anabranch.protocol.deployment import Program


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text("a = 1\n")
    return tmp_path


def kept(home: Path, settings: Settings | None = None) -> tuple[Program, dict[str, bytes]]:
    stored: dict[str, bytes] = {}
    file = SimpleNamespace(path=home / "job.py")
    prepared = cast(Prepared, SimpleNamespace(file=file, schemas={}, plan=None))
    found = own_program.of(prepared, settings or Settings(), PackedCode(home), stored.__setitem__)
    return found, stored


def names(code: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(code)).namelist()


def test_code_and_settings_are_kept(home: Path) -> None:
    found, stored = kept(home, Settings.model_validate({"job": {"factor": 4}}))
    assert (found.file, found.in_process, found.lacks) == ("job.py", True, "")
    assert config.restored(found.settings).job.factor == 4
    assert names(stored[found.artifact]) == ["job.py"]


def test_files_with_settings_are_left_out(home: Path) -> None:
    """Only in the settings that are stored is a literal secret recognized."""
    (home / "anabranch.toml").write_text('[coordinator]\ntoken = "planted"\n')
    (home / "prod.toml").write_text('[systems.kafka]\nsasl_password = "planted"\n')
    (home / "routes.toml").write_text("[routes]\neast = 1\n")
    (home / "upper.TOML").write_text('[systems.kafka]\nsasl_password = "planted"\n')
    (home / "mark.toml").write_bytes(b'\xef\xbb\xbf[systems.kafka]\nsasl_password = "planted"\n')
    (home / "marked-routes.toml").write_bytes(b"\xef\xbb\xbf[routes]\neast = 1\n")
    found, stored = kept(home)
    assert names(stored[found.artifact]) == ["job.py", "marked-routes.toml", "routes.toml"]


@pytest.mark.parametrize(
    "content",
    [
        b"[coordinator\n",
        b'[systems.kafka]\nsasl_password = "planted"\nx =\n',
        b'# gr\xfc\xdfe\n[systems.kafka]\nsasl_password = "planted"\n',
        b'[systems.kafka]\nsasl_password = "planted"\nx = ' + 5000 * b"[",
    ],
    ids=["a heading that isn't closed", "half-edited", "Latin-1", "nested too deeply"],
)
def test_toml_that_can_t_be_read_is_left_out(home: Path, content: bytes) -> None:
    (home / "broken.toml").write_bytes(content)
    (home / "prod.toml").write_text("[systems.kafka]\n")
    with capture_logs() as lines:
        found, stored = kept(home)
    assert names(stored[found.artifact]) == ["job.py"]
    told = [line for line in lines if "can't be read as TOML" in line["event"]]
    assert [line["files"] for line in told] == [[str(home / "broken.toml")]]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": "planted"}}}, "spark.hadoop.fs.s3a.secret.key"),
        ({"job": {"artifact": "image"}}, '[job] artifact = "image"'),
    ],
)
def test_why_it_is_not_kept(home: Path, settings: dict[str, Any], told: str) -> None:
    found, stored = kept(home, Settings.model_validate(settings))
    assert told in found.lacks
    assert "planted" not in found.lacks
    assert not stored
    assert not found.artifact
    assert "planted" not in str(found.settings)


def test_code_that_is_too_large_is_not_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "MAX_BYTES", 3)
    found, stored = kept(home)
    assert "at most" in found.lacks
    assert not stored
