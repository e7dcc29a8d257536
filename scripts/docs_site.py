"""Hooks of MkDocs: files from outside of docs/ that pages link to, and the parts of the reference that come from code.

A line ``<!-- generated: NAME -->`` of a page is replaced by what the function of that name in ``GENERATED`` gives.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "CONTRIBUTING.md": "contributing/how-to-contribute.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "bench/README.md": "contributing/benchmarks.md",
}
"""Pages of the site that stand elsewhere in the repository, where GitHub looks for them."""
WORKER = "assets/search-worker.js"
LINK = re.compile(r"(?<!!)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
ROLE = re.compile(r":(?:class|func|meth|mod):`~?(?:[\w.]*\.)?(\w+)`")
MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Take the navigation from the index, docs/README.md: its headings and lists."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    nav: list[Any] = [{"Home": "README.md"}]
    places = {2: nav, 3: nav}
    for line in index.splitlines():
        heading, item = re.match(r"(##+) (.+)", line), re.match(r"- \[(.+?)\]\(([^)#]+\.md)\)", line)
        if heading:
            level, section = len(heading[1]), []
            places[level].append({heading[2]: section})
            places |= dict.fromkeys(range(level + 1, 5), section)
        elif item:
            target = os.path.normpath(os.path.join("docs", item[2]))
            page = PAGES.get(target, target.removeprefix("docs/"))
            places[4].append({item[1].replace("`", ""): page})
    config.nav = nav
    config.extra["polyfills"] = [WORKER]  # in place of one that the theme would load from a CDN
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages, and the files that pages link to, that don't stand in docs/."""
    for path, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    for path in sorted(set(_linked_files())):
        source = str(ROOT / path)
        files.append(File.generated(config, _shown(path), abs_src_path=source))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with links that hold in the site, and with what is generated."""
    written = MARK.sub(lambda mark: GENERATED[mark.group(1)](), markdown)
    where = next((path for path, name in PAGES.items() if name == page.file.src_uri), f"docs/{page.file.src_uri}")
    return _outside_fences(
        written, lambda prose: LINK.sub(lambda link: _relinked(link, where, page.file.src_uri), prose)
    )


def _relinked(link: re.Match[str], where: str, page: str) -> str:
    text, target = link.groups()
    if re.match(r"[a-z]+:|#", target):
        return link.group(0)
    path, _, anchor = target.partition("#")
    path = os.path.normpath(os.path.join(os.path.dirname(where), path))
    if path.startswith("docs/"):
        inside = path.removeprefix("docs/")
    elif path == "README.md":
        inside = "README.md"
    elif path in PAGES:
        inside = PAGES[path]
    elif (ROOT / path).is_file():
        inside = _shown(path)
    elif (ROOT / path).is_dir():  # a folder: its files are named on the page
        return text
    else:
        return link.group(0)  # leads nowhere, which MkDocs says
    relative = os.path.relpath(inside, os.path.dirname(page) or ".")
    return f"[{text}]({relative}{'#' + anchor if anchor else ''})"


def _linked_files() -> Iterator[str]:
    """Files of the repository that pages link to and that are no pages."""
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / path for path in PAGES)]
    for page in pages:
        for _, target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            path = (page.parent / target.partition("#")[0]).resolve()
            if path.is_file() and path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "docs"):
                relative = path.relative_to(ROOT).as_posix()
                if relative not in PAGES and relative != "README.md":
                    yield relative


def _shown(path: str) -> str:
    """Where the site has a file of the repository: as text, so that a browser shows it."""
    return f"repository/{path}.txt"


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    parts: list[str] = []
    end = 0
    for fence in FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence.group(0)]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def commands() -> str:
    """The command line, from Typer: each verb with its arguments and options."""
    import typer.main

    from anabranch.cli.main import app

    group = typer.main.get_command(app)
    context = group.make_context("anabranch", [], resilient_parsing=True)
    return "\n\n".join(part for name in group.list_commands(context) for part in _command(group, context, [name]))


def _command(group: Any, context: Any, names: list[str]) -> Iterator[str]:
    command = group.get_command(context, names[-1])
    shown = command.make_context(names[-1], [], parent=context, resilient_parsing=True)
    path = " ".join(["anabranch", *names])
    usage = " ".join(
        piece.strip("{}").upper() if piece != "[OPTIONS]" else piece for piece in command.collect_usage_pieces(shown)
    )
    yield f"{'#' * (len(names) + 1)} `{path}`"
    if command.help:
        yield _plain(command.help)
    yield f"```sh\n{path} {usage}\n```"
    rows = [row for parameter in command.get_params(shown) if (row := _parameter(parameter, shown))]
    if rows:
        yield "\n".join(["| argument or option | default | meaning |", "| --- | --- | --- |", *rows])
    for name in getattr(command, "commands", {}):
        yield from _command(command, shown, [*names, name])


def _parameter(parameter: Any, context: Any) -> str:
    if parameter.name == "help" or getattr(parameter, "hidden", False):
        return ""
    argument = parameter.param_type_name == "argument"
    name = parameter.name.upper() if argument else parameter.get_help_record(context)[0]
    default = parameter.default
    shown = "" if default in (None, False, (), "") or callable(default) else f"`{default}`"
    if parameter.required:
        shown = "must be given"
    meaning = _plain(getattr(parameter, "help", None) or "")
    return f"| `{name.replace('|', ' or ')}` | {shown} | {meaning} |"


def _plain(text: str) -> str:
    plain = text.replace("\\[", "[").replace("``", "`").replace("|", "\\|")
    return re.sub(r"\s*\n\s*", " ", ROLE.sub(r"`\1`", plain)).strip()


def operations() -> str:
    """The coordinator's routes, from its OpenAPI document: method, path, role, parameters, body and result."""
    from anabranch.coordinator.api import operations as table
    from anabranch.coordinator.api.openapi import described

    document = described(list(table.OPERATIONS), "")
    parts = []
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            parts += _route(path, method.upper(), route)
    schemas = document["components"]["schemas"]
    parts.append("## Documents")
    for name, schema in sorted(schemas.items()):
        parts += _schema(name, schema)
    return "\n\n".join(parts)


def _route(path: str, method: str, route: dict[str, Any]) -> Iterator[str]:
    yield f"### `{method} {path}`"
    yield route["summary"]
    roles = [role for each in route["security"] for role in each["token"]]
    yield f"Token: {', '.join(f'`{role}`' for role in roles) or 'none'}"
    rows = [f"| `{p['name']}` | {p['in']} | {_type(p['schema'])} |" for p in route["parameters"]]
    if rows:
        yield "\n".join(["| parameter | in | type |", "| --- | --- | --- |", *rows])
    body = route.get("requestBody")
    if body:
        yield f"Body: {_content(body['content'])}"
    yield f"Answer: {_content(route['responses']['200']['content'])}"


@cache
def _documented() -> dict[str, dict[str, str]]:
    """The docstrings below the fields of documents, by class and by the field's name in JSON."""
    found: dict[str, dict[str, str]] = {}
    for module in sorted((ROOT / "src" / "anabranch").rglob("*.py")):
        if {"protocol", "views", "model"}.isdisjoint(module.parts):
            continue
        for kind in ast.parse(module.read_text(encoding="utf-8")).body:
            if isinstance(kind, ast.ClassDef):
                for field, text in pairwise(kind.body):
                    match field, text:
                        case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                            camel = re.sub(r"_(\w)", lambda letter: letter[1].upper(), name)
                            found.setdefault(kind.name, {})[camel] = said
    return found


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    if schema.get("description"):
        yield _plain(schema["description"])
    needed, says = schema.get("required", ()), _documented().get(name, {})
    rows = [
        f"| `{field}` | {_type(kind)} | {'yes' if field in needed else ''} | {_plain(says.get(field, ''))} |"
        for field, kind in schema.get("properties", {}).items()
    ]
    if rows:
        yield "\n".join(["| field | type | required | meaning |", "| --- | --- | --- | --- |", *rows])


def _content(content: dict[str, Any]) -> str:
    return (
        ", ".join(f"{_type(kind.get('schema', {})) or 'any'} (`{media}`)" for media, kind in content.items()) or "none"
    )


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(filter(None, map(_type, schema["anyOf"])))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "prefixItems" in schema:
        kinds = [_type(kind) or "any" for kind in schema["prefixItems"]]
        return f"array of {len(kinds)}: {', '.join(kinds)}"
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {})) or 'any'}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties']) or 'any'}"
    return str(schema.get("type", ""))


GENERATED: dict[str, Callable[[], str]] = {"commands": commands, "operations": operations}
