"""What anabranch depends on: the licences of all of it as a table, and an SBOM of a wheel.

    python scripts/supply_chain.py licences [--check]   the table in docs/contributing/supply-chain.md
    python scripts/supply_chain.py sbom WHEEL           CycloneDX 1.6 on stdout, with the versions of the lock

Names and licences are those of the installed packages' metadata; versions and sums those of ``requirements/dev.lock``,
which ``scripts/lock`` writes.
"""

from __future__ import annotations

import argparse
import email.parser
import hashlib
import importlib.metadata
import json
import re
import sys
import uuid
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["LOCK", "PAGE", "Pin", "as_locked", "closure", "licence", "locked", "main", "sbom", "table"]

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "dev.lock"
PAGE = ROOT / "docs" / "contributing" / "supply-chain.md"
BEGIN, END = "<!-- licences -->\n", "<!-- end -->"
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\]+?))? \\$", re.MULTILINE)
_SUM = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_CLASSIFIER = "License :: OSI Approved :: "
_LONGEST = 60
_OPTIONAL = ("kafka", "delta", "registry", "iceberg")
"""The extras of users."""


@dataclass(frozen=True)
class Pin:
    """A version of a package; ``sums``: the SHA-256 of its files. ``marker``: where it is that version."""

    name: str
    version: str
    marker: str
    sums: tuple[str, ...]


def locked(text: str) -> list[Pin]:
    """The pins of a lock."""
    starts = [*_PIN.finditer(text)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    return [
        Pin(
            canonicalize_name(match["name"]),
            match["version"],
            match["marker"] or "",
            tuple(_SUM.findall(text[match.end() : end])),
        )
        for match, end in zip(starts, ends, strict=True)
    ]


def closure(wanted: Iterable[Requirement]) -> set[str]:
    """The names of what is installed for some requirements, which apply here, with all that those require."""
    due = [(canonicalize_name(each.name), frozenset(each.extras)) for each in wanted]
    seen: set[tuple[str, frozenset[str]]] = set()
    while due:
        name, extras = due.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for text in importlib.metadata.distribution(name).requires or ():
            each = Requirement(text)
            if any(_applies(each, extra) for extra in ("", *extras)):
                due.append((canonicalize_name(each.name), frozenset(each.extras)))
    return {name for name, _ in seen}


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def licence(metadata: Mapping[str, Any] | Message) -> str:
    """The licence that a package says it has, as an SPDX expression if it gives one; '' if it says none."""
    expression = metadata.get("License-Expression")
    if expression:
        return str(expression)
    listed: Sequence[str] = getattr(metadata, "get_all", lambda _: None)("Classifier") or ()
    named = [each.removeprefix(_CLASSIFIER) for each in listed if each.startswith(_CLASSIFIER)]
    if named:
        return ", ".join(sorted(named))
    text = str(metadata.get("License") or "").strip()
    return text if text and "\n" not in text and len(text) <= _LONGEST else ""


def table() -> str:
    """All dependencies with their licences: those that users install first."""
    metadata = importlib.metadata.distribution("anabranch").requires or []
    requirements = [Requirement(each) for each in metadata]
    of_all = closure(each for each in requirements if _applies(each, ""))
    of_extras = closure(each for each in requirements if any(_applies(each, extra) for extra in _OPTIONAL)) - of_all
    of_developers = closure(each for each in requirements if _applies(each, "dev")) - of_all - of_extras
    lines = ["| package | licence | for |", "| --- | --- | --- |"]
    for names, who in ((of_all, "all"), (of_extras, "extras"), (of_developers, "development")):
        lines += [f"| {name} | {licence(_metadata(name)) or 'see its files'} | {who} |" for name in sorted(names)]
    return "\n".join(lines) + "\n"


def _metadata(name: str) -> Any:
    return importlib.metadata.distribution(name).metadata


def sbom(wheel: Path, pins: Iterable[Pin]) -> dict[str, Any]:
    """A bill of materials in CycloneDX of a wheel and of what its metadata require, without extras."""
    content = wheel.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = email.parser.Parser().parsestr(archive.read(name).decode())
    required = [Requirement(each) for each in metadata.get_all("Requires-Dist") or ()]
    direct = sorted({canonicalize_name(each.name) for each in required if _applies(each, "")})
    names = sorted(closure(each for each in required if _applies(each, "")))
    by_name = {
        each.name: each for each in pins if not each.marker or Requirement(f"x ; {each.marker}").marker.evaluate()
    }  # type: ignore[union-attr]
    own = _component("application", str(metadata["Name"]), str(metadata["Version"]), licence(metadata))
    own["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]
    parts = {name: _component("library", name, by_name[name].version, licence(_metadata(name))) for name in names}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, hashlib.sha256(content).hexdigest())}",
        "version": 1,
        "metadata": {"component": own},
        "components": [parts[name] for name in names],
        "dependencies": [
            {"ref": own["bom-ref"], "dependsOn": [parts[name]["bom-ref"] for name in direct]},
            *({"ref": parts[name]["bom-ref"], "dependsOn": [*_required(name, parts)]} for name in names),
        ],
    }


def _component(kind: str, name: str, version: str, its_licence: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    found: dict[str, Any] = {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if its_licence:
        found["licenses"] = [{"license": {"name": its_licence}}]
    return found


def _required(name: str, parts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    required = (Requirement(each) for each in importlib.metadata.distribution(name).requires or ())
    names = {canonicalize_name(each.name) for each in required if _applies(each, "")}
    yield from (parts[each]["bom-ref"] for each in sorted(names) if each in parts)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("licences").add_argument("--check", action="store_true", help="only see whether it is up to date")
    verbs.add_parser("sbom").add_argument("wheel", type=Path)
    given = parser.parse_args(words)
    if given.verb == "sbom":
        json.dump(sbom(given.wheel, locked(LOCK.read_text())), sys.stdout, indent=2)
        print()
        return 0
    before = PAGE.read_text()
    head, _, rest = before.partition(BEGIN)
    listed, _, tail = rest.partition(END)
    if given.check:
        stale = differences(listed, table(), as_locked(locked(LOCK.read_text()), _installed))
        if stale:
            told = f"{PAGE.relative_to(ROOT)} is not up to date for {', '.join(stale)}"
            print(f"{told}: python scripts/supply_chain.py licences", file=sys.stderr)
        return 1 if stale else 0
    PAGE.write_text(f"{head}{BEGIN}\n{table()}\n{END}{tail}")
    return 0


def differences(page: str, present: str, as_locked: Collection[str]) -> list[str]:
    """The packages whose rows in two tables differ, of those that are installed as they are locked: what a newer
    version says of itself, or requires, is for the next lock.
    """
    ours, theirs = _rows(page), _rows(present)
    return sorted(name for name in as_locked if ours.get(name) != theirs.get(name))


def _rows(text: str) -> dict[str, str]:
    return {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}


def as_locked(pins: Collection[Pin], installed: Callable[[str], str | None]) -> set[str]:
    """The locked packages that are installed in just that version. Those that are locked in several versions, each for
    some versions of Python, are left out: the page has one row for all.

    Args:
        installed: returns the version of a package, None if it isn't installed.
    """
    names = Counter(pin.name for pin in pins)
    return {pin.name for pin in pins if names[pin.name] == 1 and installed(pin.name) == pin.version}


def _installed(name: str) -> str | None:
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


if __name__ == "__main__":
    sys.exit(main())
