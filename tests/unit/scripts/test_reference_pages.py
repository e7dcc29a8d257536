"""The reference: its tables agree with the code, and it has every public name, verb, option and metric."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from anabranch import config, errors, metrics
from anabranch.cli.main import app
from anabranch.config.section import Section
from tests.support.paths import ROOT

REFERENCE = ROOT / "docs" / "reference"
SECTIONS: dict[str, type[Section]] = {
    "`[job]`": config.JobSettings,
    "`[assignment]`": config.AssignmentSettings,
    "`[storage]`": config.StorageSettings,
    "`[coordinator]`": config.CoordinatorSettings,
    "`[systems]`": config.SystemsSettings,
    "`[systems.embedded]`": config.EmbeddedSettings,
    "`[systems.kafka]`": config.KafkaSettings,
    "`[formats]`": config.FormatsSettings,
    "`[streams.NAME]`": config.StreamSettings,
    "`[outputs.NAME]`": config.OutputSettings,
    "`[spark]`": config.SparkSettings,
}
TABLES = {"embedded", "kafka"}
"""Fields of ``[systems]`` that are sections."""
FRONT_DOORS = ("anabranch", "anabranch.errors", "anabranch.tables", "anabranch.testing")


def rows(heading: str, text: str) -> dict[str, str]:
    """The settings of a section of the page, each with its default as the page has it."""
    section = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None, f"no section {heading}"
    cells = [line.split(" | ") for line in section[1].splitlines() if line.startswith("| `")]
    return {name: cell[1].strip() for cell in cells for name in re.findall(r"`([a-z_]+)`", cell[0])}


def written(default: Any) -> str:
    """A default as the page has it."""
    if isinstance(default, str | Path):
        text = str(default)
        return f'`"{text if not isinstance(default, Path) else "./" + text}"`'
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_setting_is_on_the_page_with_its_default(heading: str) -> None:
    page = rows(heading, (REFERENCE / "configuration.md").read_text(encoding="utf-8"))
    fields = {
        field.alias or name: field
        for name, field in SECTIONS[heading].model_fields.items()
        if not (heading == "`[systems]`" and name in TABLES)
    }
    assert set(page) == set(fields)
    for name, field in fields.items():
        default = field.get_default(call_default_factory=True)
        if default is None or field.is_required() or not page[name].startswith("`"):
            continue  # said in words
        said = page[name].partition(":")[0] if page[name].endswith("default") else page[name]
        value = tomllib.loads(f"x = {said.strip('`')}")["x"]
        assert value == default or said == written(default), f"{heading} {name}: {page[name]}, not {default!r}"


def test_every_metric_is_on_the_page() -> None:
    text = (REFERENCE / "metrics.md").read_text(encoding="utf-8")
    source = Path(inspect.getfile(metrics)).read_text(encoding="utf-8")
    emitted = set(re.findall(r'"(anabranch_[a-z_]+)"', source))
    assert len(emitted) > 10
    assert {name for name in emitted if f"`{name.removesuffix('_total')}" not in text} == set()


def public() -> Iterator[str]:
    for door in FRONT_DOORS:
        for name in importlib.import_module(door).__all__:
            if name != "marks":  # a module, whose functions stand on the page
                yield f"{door}.{name}"


@pytest.mark.parametrize("name", public())
def test_every_public_name_is_in_the_python_reference(name: str) -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in REFERENCE.rglob("*.md"))
    assert f"::: {name}\n" in pages
    door, _, attribute = name.rpartition(".")
    documented(getattr(importlib.import_module(door), attribute), name)


def documented(thing: Any, name: str) -> None:
    """A class or function says what it is; its arguments, those of public methods too, are each described."""
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return  # a sentinel: its docstring stands below it
    text = inspect.getdoc(thing)
    assert text, f"{name} has no docstring"
    if inspect.isfunction(thing) and len(text.splitlines()) > 1:
        described(thing, text, name)
    if inspect.isclass(thing) and thing.__module__.startswith("anabranch.api"):
        for method, function in inspect.getmembers(thing, inspect.isfunction):
            if not method.startswith("_") and function.__module__.startswith("anabranch.api"):
                documented(function, f"{name}.{method}")


def described(function: Any, text: str, name: str) -> None:
    if "Args:" not in text:
        return
    for argument in inspect.signature(function).parameters:
        if argument not in ("self", "cls"):
            assert re.search(rf"^ +{argument}: ", text, re.MULTILINE), f"{name} doesn't say what {argument} is"


def test_every_error_has_its_exit_code() -> None:
    text = (REFERENCE / "api" / "errors.md").read_text(encoding="utf-8")
    for name in errors.__all__:
        assert f"| [`{name}`](#anabranch.errors.{name}) | {getattr(errors, name).exit_code} |" in text


def test_every_error_of_the_module_is_public() -> None:
    assert errors.__all__ == sorted(name for name, thing in vars(errors).items() if inspect.isclass(thing))


def commands(group: Any, context: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield f"{path} {name}", command
        if hasattr(command, "list_commands"):
            inner = command.make_context(name, [], parent=context, resilient_parsing=True)
            yield from commands(command, inner, f"{path} {name}")


def test_every_verb_and_option_has_a_help_text() -> None:
    group: Any = typer.main.get_command(app)
    context = group.make_context("anabranch", [], resilient_parsing=True)
    found = list(commands(group, context, "anabranch"))
    assert len(found) > 30
    mute = [path for path, command in found if not command.help]
    mute += [f"{path} {p.name}" for path, command in found for p in command.params if not getattr(p, "help", None)]
    assert mute == []
