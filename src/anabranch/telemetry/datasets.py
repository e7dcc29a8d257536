"""Names the inputs and outputs of a job as OpenLineage requires: https://openlineage.io/docs/spec/naming/."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qs, urlsplit

from anabranch.config import OutputSettings, Settings
from anabranch.config.secrets import hidden, put_back, resolved
from anabranch.model.graph import Graph
from anabranch.planning import stages
from anabranch.systems.systems import Systems

__all__ = ["Dataset", "Datasets", "of_job"]

_PORT = 5432


@dataclass(frozen=True, order=True)
class Dataset:
    """The OpenLineage name of a stream or a table."""

    namespace: str
    name: str


@dataclass(frozen=True)
class Datasets:
    """The inputs and outputs of a job. Inputs are the streams that the job reads. (Tables of ``join_table`` are left
    out.) Outputs are the streams and tables that the job writes. The job's own intermediate streams and dead-letter
    streams are left out.
    """

    inputs: tuple[Dataset, ...]
    outputs: tuple[Dataset, ...]


def of_job(graph: Graph, settings: Settings, seen: Iterable[str] = ()) -> Datasets:
    """The datasets of a job. ``seen`` contains the streams that the job is known to read, as ``system/stream``,
    including those that match the patterns of its inputs.

    Raises:
        ConfigError: a reference in the address of a system or a table can't be resolved.
    """
    systems = Systems(settings, graph.job)
    of = stages.systems(graph, systems.bound(), settings.systems.default)
    own = stages.intermediate_streams(graph)
    read = {node.args["stream"] for node in graph.nodes if node.kind == "read"} - settings.patterns.keys()
    inputs = {systems.named(of[stream]).dataset(stream) for stream in read}
    for each in seen:
        system, _, stream = each.partition("/")
        if stream not in own:
            inputs.add(systems.named(system).dataset(stream))
    outputs = set()
    for stream in (node.args["stream"] for node in graph.nodes if node.kind == "write"):
        if systems.is_table(stream):
            outputs.add(_table(stream, settings.outputs[stream]))
        else:
            outputs.add(systems.named(of[stream]).dataset(stream))
    return Datasets(_sorted(inputs), _sorted(outputs))


def _sorted(names: Iterable[tuple[str, str]]) -> tuple[Dataset, ...]:
    return tuple(sorted(Dataset(*each) for each in names))


def _table(output: str, settings: OutputSettings) -> tuple[str, str]:
    options = settings.options
    if "path" in options:
        return _file(str(options["path"]))
    table = str(options.get("table", output))
    if settings.to == "postgresql":
        schema = table if "." in table else f"public.{table}"
        server, database = _postgresql(f"outputs.{output}.url", str(options["url"]))
        return server, f"{database}.{schema}"
    if "uri" in (catalog := dict(options.get("catalog", {}))):
        return _public(f"outputs.{output}.catalog.uri", str(catalog["uri"])).geturl(), table
    return settings.to, table


def _postgresql(setting: str, uri: str) -> tuple[str, str]:
    """The server and the database of a libpq URL. If the URL names several servers, the first server."""
    text, references = hidden(uri)
    given = parse_qs(urlsplit(text).query)

    def parameter(name: str) -> str:
        return resolved(setting, put_back(",".join(given.get(name, ())), references)).partition(",")[0]

    url = _public(setting, uri)
    server = urlsplit("//" + url.netloc.partition(",")[0])
    host = server.hostname or parameter("host") or "localhost"
    return f"postgres://{host}:{server.port or parameter('port') or _PORT}", url.path.strip("/")


def _file(path: str) -> tuple[str, str]:
    url = urlsplit(path)
    if not url.scheme or url.scheme == "file":
        return "file", url.path or path
    scheme = "s3" if url.scheme in ("s3a", "s3n") else url.scheme
    return f"{scheme}://{url.netloc}", url.path.strip("/") if scheme == "s3" else url.path


def _public(setting: str, uri: str) -> SplitResult:
    """A URI without the parts that may be secret (login, query and fragment). References in other parts are
    resolved."""
    text, references = hidden(uri)
    text = put_back(_without_secrets(urlsplit(text)).geturl(), references)
    return _without_secrets(urlsplit(resolved(setting, text)))  # a reference can stand for a login, too


def _without_secrets(url: SplitResult) -> SplitResult:
    return url._replace(netloc=url.netloc.rpartition("@")[2], query="", fragment="")
