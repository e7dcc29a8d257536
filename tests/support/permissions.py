"""What of a folder is open to other users."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

NOBODY = 65_534


def open_to_others(folder: Path) -> list[str]:
    """What lies below a folder and lets others read or write it, by the modes of all folders on the way. Where that
    can be, another user tries it, too."""
    found = []
    for path in sorted(folder.rglob("*")):
        way = [each for each in path.parents if each.is_relative_to(folder) and each != folder]
        if path.stat().st_mode & 0o066 and all(each.stat().st_mode & 0o011 for each in way):
            found.append(str(path.relative_to(folder)))
    if os.geteuid() == 0:
        question = ["find", str(folder), "-mindepth", "1", "(", "-readable", "-o", "-writable", ")"]
        tried = subprocess.run(question, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True)
        assert sorted(str(Path(line).relative_to(folder)) for line in tried.stdout.splitlines()) == sorted(found)
    return found
