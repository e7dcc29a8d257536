"""A collector of OpenTelemetry's, as far as tests need one: it takes OTLP over HTTP and remembers what came."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

__all__ = ["Collector", "running", "values"]


class Collector:
    """``spans`` and ``metrics``: what came; ``resources``: the attributes of those that sent it; ``lineage``: events of
    OpenLineage, which come by the same port. ``refuses``: it takes nothing, and answers 403. ``refused_jobs``: the jobs
    whose events of OpenLineage it refuses with 422.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[Span] = []
        self.metrics: list[Metric] = []
        self.resources: list[dict[str, object]] = []
        self.lineage: list[dict[str, Any]] = []
        self.refuses = False
        self.refused_jobs: set[str] = set()

    def take(self, path: str, body: bytes) -> None:
        if path == "/api/v1/lineage":
            self.lineage.append(json.loads(body))
        elif path == "/v1/traces":
            for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(values(sent.resource.attributes))
                self.spans += [span for scope in sent.scope_spans for span in scope.spans]
        else:
            for of in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.resources.append(values(of.resource.attributes))
                self.metrics += [metric for scope in of.scope_metrics for metric in scope.metrics]

    def wait(self, until: Callable[[], object], patience: float = 30.0) -> None:
        end = time.monotonic() + patience
        while not until() and time.monotonic() < end:
            time.sleep(0.05)
        assert until(), (len(self.spans), len(self.metrics))


def values(attributes: Iterable[KeyValue]) -> dict[str, object]:
    """Attributes as a dictionary."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "") for each in attributes}


@contextmanager
def running() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if collector.refuses:
                self.send_response(403)
            elif self.path == "/api/v1/lineage" and json.loads(body)["job"]["name"] in collector.refused_jobs:
                self.send_response(422)
            else:
                packed = self.headers["Content-Encoding"] == "gzip"
                collector.take(self.path, gzip.decompress(body) if packed else body)
                self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
