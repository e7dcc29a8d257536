"""``anabranch doctor``: checks Java, Python, Spark and every place that a job needs, one line each."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from anabranch import config as configuration
from anabranch.cli import preparation
from anabranch.config import Settings
from anabranch.coordinator.store.store import Store
from anabranch.errors import AnabranchError, NotFoundError
from anabranch.systems.embedded import EmbeddedSystem


def doctor(
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check what a job needs here; exits 1 if something is missing."""
    results = list(_results(configuration.load(config)))
    if json:
        typer.echo(msgspec.json.encode([{"check": n, "ok": ok, "found": f} for n, ok, f in results]).decode())
    else:
        for name, ok, found in results:
            typer.echo(f"{'ok  ' if ok else 'FAIL'} {name}: {found}")
    if not all(ok for _, ok, _ in results):
        raise AnabranchError("some checks failed", "mend what is marked FAIL")


def _results(settings: Settings) -> Iterator[tuple[str, bool, str]]:
    checks: dict[str, Callable[[Settings], str]] = {
        "python": lambda _: platform.python_version(),
        "java": _java,
        "spark": _spark,
        "storage root": _storage,
        "embedded root": _embedded,
        "store": _store,
    }
    for name, check in checks.items():
        try:
            yield name, True, check(settings)
        except AnabranchError as error:
            yield name, False, str(error)


def _java(_: Settings) -> str:
    from anabranch.spark import session

    path, version = session.java_version()
    return f"{version} ({path})"


def _spark(_: Settings) -> str:
    import importlib.metadata

    return importlib.metadata.version("pyspark")


def _storage(settings: Settings) -> str:
    root = settings.storage.root
    if "://" in root:
        return f"{root} (checked when a container starts)"
    preparation.writable(Path(root), "storage root")
    return root


def _embedded(settings: Settings) -> str:
    root = settings.systems.embedded.root
    preparation.writable(root, "embedded root")
    system = EmbeddedSystem(root)
    return f"{root}, {len(system.streams())} stream(s)"


def _store(settings: Settings) -> str:
    try:
        store = Store.open_existing(settings.coordinator.store)
    except NotFoundError:
        return f"{settings.coordinator.store} (none yet; made by the first run)"
    try:
        return f"{settings.coordinator.store}, {len(store.jobs())} job(s)"
    finally:
        store.close()
