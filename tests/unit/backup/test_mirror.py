"""The copy of a lane's folder in a backup."""

from __future__ import annotations

from pathlib import Path

from anabranch.backup.mirror import Mirror
from anabranch.container.checkpoint import copying
from tests.unit.backup.trees import OnDisk


def test_the_copy_has_what_successors_need_and_what_is_gone_goes(tmp_path: Path) -> None:
    """Without ``broken.json``, the successor of a closed lane would begin with state of a batch that was broken off."""
    source, target = OnDisk(tmp_path / "source"), OnDisk(tmp_path / "target")
    needed = ["broken.json", "commits/0", "metadata", "offsets/0", "progress.json", "state/0/0/1.changelog"]
    for name in (*needed, "claim.json", f"offsets/.1.{'a' * 32}.part"):
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    mirror = Mirror(source, target, copying.WHOLE)
    mirror.refresh()
    assert sorted(target.files("")) == needed
    (tmp_path / "source" / "broken.json").unlink()
    mirror.refresh()
    assert sorted(target.files("")) == needed[1:]
