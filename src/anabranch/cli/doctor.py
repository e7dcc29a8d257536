"""``anabranch doctor``: checks whether a machine has what a job needs, such as Java, Python and Spark, and prints a
line for each check."""

from __future__ import annotations

import contextlib
import itertools
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Annotated

import msgspec
import typer

from anabranch import config as configuration
from anabranch.cli import archiving, options, progress
from anabranch.config import Settings
from anabranch.config.secrets import without_passwords
from anabranch.config.storage import local_folder
from anabranch.coordinator.store import address
from anabranch.coordinator.store.store import Store
from anabranch.deadlines import run_within
from anabranch.errors import AnabranchError, ConfigError, NotFoundError
from anabranch.formats import modules
from anabranch.formats.registry import Registry
from anabranch.jars import fetching, repository
from anabranch.jars.pinned import SETS, jar_set
from anabranch.systems.contract import System
from anabranch.systems.folders import can_be_written
from anabranch.systems.systems import Systems

MAVEN_ENDS_WITHIN = 300.0
"""How many seconds to wait for Maven's answer. Maven can hang, for example, if a proxy doesn't answer."""
_UNCHECKED = " (not checked: mvn is missing, or doesn't answer)"
_MAVEN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_ERROR_OF_MAVEN = re.compile(r"\[ERROR\] (.+?)(?: -> \[Help \d+\])?$", re.MULTILINE)

_Result = tuple[str, bool, str]
"""A check's name, whether it passed, and a message."""


def doctor(
    config: options.Config = None,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix", help="First fetch the jars that a job needs, and archive Spark's classes for quick starts."
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Check whether this machine has what a job needs. Exits with 1 if something is missing."""
    settings = configuration.load(config)
    results = []
    for name, ok, found in itertools.chain(_fix(settings) if fix else (), _results(settings)):
        results.append((name, ok, found))
        if not json:
            typer.echo(f"{'ok  ' if ok else 'FAIL'} {name}: {found}")
    if json:
        typer.echo(msgspec.json.encode([{"check": n, "ok": ok, "found": f} for n, ok, f in results]).decode())
    if not all(ok for _, ok, _ in results):
        raise AnabranchError(
            "some checks failed", "fix what is marked FAIL" + ("" if fix else "; anabranch doctor --fix fetches jars")
        )


def _fix(settings: Settings) -> Iterator[_Result]:
    """Archive Spark's classes. Also fetch the jars that the systems and formats in use need; otherwise, Spark would
    look for these jars in a Maven repository. There is a failed result for each set of jars that can't be fetched."""
    for name in _wanted_jars(settings):
        try:
            folder = fetching.fetch(jar_set(name), repository.chosen(), progress.say)
        except AnabranchError as error:
            yield f"{name} jars", False, str(error)
        else:
            progress.say(f"{name} jars: {folder}")
    try:
        archiving.make(progress.say)
    except (AnabranchError, OSError) as error:  # the checks that follow say what is missing
        progress.say(f"no archive of Spark's classes: {error}")


def _wanted_jars(settings: Settings) -> list[str]:
    """The names of the sets of jars to fetch."""
    systems = Systems(settings)
    wanted = []
    for system in systems.all:
        if _is_wanted(system, systems, settings):
            with contextlib.suppress(ConfigError):  # the check of the system's connector says what is wrong
                wanted.append(system.session_needs().jars)
    wanted += [modules.jars(settings.formats, module) for module in modules.needed(settings)]
    return [name for name in wanted if name]


def _results(settings: Settings) -> Iterator[_Result]:
    checks: dict[str, Callable[[Settings], str]] = {
        "python": lambda _: platform.python_version(),
        "java": _java,
        "spark": _spark,
        "storage root": _storage,
        "store": _store,
        **_of_systems(settings),
        **{module: partial(_module, module) for module in modules.needed(settings)},
        **({"schema registry": _registry} if settings.formats.registry is not None else {}),
    }
    failed = set()
    for name, check in checks.items():
        result = _result(name, partial(check, settings))
        if not result[1]:
            failed.add(name)
        yield result
    if "java" not in failed:
        yield _result("class archive", _class_archive)
        yield from _internals(settings)


def _result(name: str, check: Callable[[], str]) -> _Result:
    try:
        return name, True, check()
    except AnabranchError as error:
        return name, False, str(error)


def _java(_: Settings) -> str:
    from anabranch.spark.session import java_program

    java = java_program.resolve()
    return f"{java.version} ({java.path})"


def _spark(_: Settings) -> str:
    import importlib.metadata

    return importlib.metadata.version("pyspark")


def _class_archive() -> str:
    """The path of the archive from which JVMs load Spark's classes or, if they don't use an archive, the reason, as
    text. Jobs also run without an archive.
    """
    from anabranch.spark.session import class_archive, java_program

    java = java_program.resolve()
    archive = class_archive.path(java)
    cure = "anabranch doctor --fix makes one, and then jobs start sooner"
    if not archive.is_file():
        return f"none; {cure}"
    return str(archive) if class_archive.is_accepted(java) else f"{archive}, which Java doesn't accept; {cure}"


def _internals(settings: Settings) -> Iterator[_Result]:
    """One result for all probes of Spark's private surface together, and one more for each probe that fails. If Spark
    doesn't start, a single failed result says why."""
    from anabranch.spark.session import session

    progress.say("starting Spark to check it ...")
    try:
        probes = session.probed(settings)
    except AnabranchError as error:
        yield "spark internals", False, str(error)
        return
    lost = [probe for probe in probes if not probe.works]
    refused = [probe for probe in lost if not probe.surface.otherwise]
    yield "spark internals", not refused, f"{len(probes) - len(lost)} of {len(probes)} private surfaces are there"
    for probe in lost:
        yield f"spark internals: {probe.surface.name}", bool(probe.surface.otherwise), probe.summary


def _storage(settings: Settings) -> str:
    root = settings.storage.root
    folder = local_folder(root)
    if folder is None:
        return f"{root} (checked when a container starts)"
    can_be_written(folder, "storage root")
    return root


def _store(settings: Settings) -> str:
    try:
        store = Store.open_existing(settings.coordinator.store)
    except NotFoundError:
        return f"{address.shown(settings.coordinator.store)} (none yet; made by the first run)"
    try:
        return f"{store.url}, {len(store.jobs())} job(s)"
    finally:
        store.close()


def _of_systems(settings: Settings) -> dict[str, Callable[[Settings], str]]:
    """The checks of all systems, by name: each system's own checks, and a check of its Spark connector if it has one.

    A system is *wanted* if it has settings, or if a stream uses it. Only the connector of a wanted system is looked up
    in a Maven repository. If a system isn't wanted, its own checks are made only if the system needs folders.
    """
    found: dict[str, Callable[[Settings], str]] = {}
    systems = Systems(settings)
    for system in systems.all:
        wanted = _is_wanted(system, systems, settings)
        if system.connector:
            found[f"{system.name} connector"] = partial(_connector, system, wanted)
        if wanted or system.folders():
            found |= {name: partial(_checked, check) for name, check in system.checks().items()}
    return found


def _is_wanted(system: System, systems: Systems, settings: Settings) -> bool:
    """Whether a system has settings, or a stream uses it."""
    used = {each.name for each in systems.used}
    return system.name in used or bool(settings.systems.sections[system.name].model_fields_set)


def _checked(check: Callable[[], str], _: Settings) -> str:
    return check()


def _connector(system: System, wanted: bool, _: Settings) -> str:
    """Where a system's Spark connector comes from. If the connector is ``wanted``, raises AnabranchError in two cases:
    the connector's jars in the cache are damaged, or the connector must come from a Maven repository, and ``mvn`` can't
    fetch it. (If ``mvn`` gives no answer, the repository isn't checked.)
    """
    needs = system.session_needs()
    if not wanted:
        return needs.origin
    _check_cached([Path(each) for each in needs.conf.get("spark.jars", "").split(",")])
    packages = needs.conf.get("spark.jars.packages", "")
    refusals = {each: _refusal(each) for each in packages.split(",") if each}
    for each, why in refusals.items():
        if why:
            named = f", {needs.summary}," if needs.summary else ""
            raise AnabranchError(f"{each}{named} {why}", needs.cure)
    return f"{needs.origin}{_UNCHECKED if None in refusals.values() else ''}"


def _module(module: str, settings: Settings) -> str:
    """Where a format's Spark module comes from. Raises AnabranchError if the module's jar in the cache is damaged, or
    if the module must come from a Maven repository, and ``mvn`` can't fetch it. (If ``mvn`` gives no answer, the
    repository isn't checked.)
    """
    where = modules.found(settings.formats, module)
    if isinstance(where, Path):
        _check_cached([where])
        return str(where)
    why = _refusal(where)
    if why:
        raise AnabranchError(
            f"{where} {why}",
            "name an available package in [formats], or a folder with the module's jar in [formats] jars",
        )
    return f"{where}, which Spark gets from a Maven repository{_UNCHECKED if why is None else ''}"


def _check_cached(paths: Sequence[Path]) -> None:
    """Raise AnabranchError if some of the jars in ``paths`` are in the cache, but the cache lacks another jar of the
    same set, or contains a jar of the set with a wrong checksum. (Sessions don't check the jars, because the check
    would slow down each start.)
    """
    folders = {path.parent for path in paths}
    for each in (jar_set(name) for name in SETS):
        if each.folder not in folders:
            continue
        cure = f"fetch them again: anabranch doctor --fix, or anabranch jars fetch {each.name}"
        try:
            there = each.is_there
        except OSError as error:
            raise AnabranchError(f"the jars in {each.folder} can't be read: {error.strerror or error}", cure) from error
        if not there:
            raise AnabranchError(f"jars in {each.folder} are missing or damaged", cure)


def _refusal(package: str) -> str | None:
    """Why ``mvn`` can't fetch the package, as the end of a sentence about the package; empty if ``mvn`` can fetch it.
    None if this machine has no ``mvn``, or ``mvn`` doesn't end in time."""
    maven = shutil.which("mvn")
    if maven is None:
        return None
    progress.say(f"asking Maven for {package} ...")
    command = [maven, "-q", "-B", f"{_MAVEN}:get", f"-Dartifact={package}", "-Dtransitive=false"]
    with tempfile.TemporaryFile() as output:
        try:
            code = run_within(command, MAVEN_ENDS_WITHIN, TimeoutError, output=output)
        except TimeoutError:
            progress.say(f"Maven didn't answer within {MAVEN_ENDS_WITHIN:g} s")
            return None
        except OSError as error:
            return f"can't be fetched, because {maven} can't be run: {error.strerror or error}"
        return _mavens_reason(package, output) if code else ""


def _mavens_reason(package: str, output: IO[bytes]) -> str:
    """Why ``mvn`` has failed, according to its output, as the end of a sentence about the package."""
    from anabranch.spark.session.printed import last_lines

    output.seek(0)
    printed = output.read().decode(errors="replace")
    *names, version = map(re.escape, package.split(":"))
    artifact = rf"{':'.join(names)}:[\w.-]+:{version}"  # with its type
    if re.search(rf"(?:Could not find artifact|Failure to find) {artifact}\s|\b{artifact} was not found in ", printed):
        return "isn't available from the Maven repository here"
    output.seek(0)
    error = _ERROR_OF_MAVEN.search(printed)
    return f"can't be fetched with mvn: {without_passwords(error[1] if error else last_lines(output))}"


def _registry(settings: Settings) -> str:
    with Registry(settings.formats) as registry:
        return f"{without_passwords(settings.formats.registry or '')}, {len(registry.subjects())} subject(s)"
