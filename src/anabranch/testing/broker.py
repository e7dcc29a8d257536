"""Runs a small Kafka cluster on this machine, for the tour and for tests. It uses KRaft, listens on the loopback
address, and keeps its data in a folder."""

from __future__ import annotations

import base64
import json
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from anabranch.deadlines import wait_until
from anabranch.errors import AnabranchError, NotFoundError
from anabranch.testing.broker_properties import ADDRESS, SCRAM, Ports, Tls, login, of_broker

__all__ = ["ADDRESS", "QUICK", "SCRAM", "Cluster", "Tls", "start"]

PORTS = range(20_000, 32_000)
"""The ports that brokers can get. The range is below the ports that Linux and macOS use for outgoing connections. So no
outgoing connection takes a broker's port while the broker is down.
"""

READY_SECONDS = 120.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.5
ATTEMPTS = 5
IN_USE = "Address already in use"

QUICK = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""Java options that let a broker start in 3 s instead of 4 s. The options turn off the optimizing compiler and the
verification of classes. (The jars are pinned, so their classes needn't be verified.)"""

LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
"""

# Runs "$@", prints the process id, and kills the process when the other end of standard input closes. Only our own
# process has this other end open, so the end closes when our process ends for any reason.
WATCH = """\
exec 3<&0 </dev/null
"$@" >&2 3<&- &
broker=$!
echo "$broker"
{ read -r _ <&3; kill -9 "$broker"; } >/dev/null &
watcher=$!
wait "$broker"
code=$?
kill "$watcher"
exit "$code"
"""


class _AddressInUseError(AnabranchError):
    """Another process took the chosen port before the broker started."""


class Cluster:
    """Running brokers. They are killed by :meth:`close`, or when the process that started them ends. Not thread-safe.

    A broker's index is also its node id in Kafka. All brokers are also controllers, so the cluster works only
    while more than half of them run.
    """

    def __init__(
        self,
        folder: Path,
        jars: Path,
        count: int,
        racks: Sequence[str],
        properties: Mapping[str, str],
        sasl: Mapping[str, str] | None,
        flags: Sequence[str],
        tls: Tls | None,
    ) -> None:
        ports = free_ports(count)
        self.bootstrap_servers = ",".join(f"{ADDRESS}:{port.client}" for port in ports)
        self._brokers: list[_Broker] = []
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log4j2.properties").write_text(LOGGING)
        for index in range(count):
            client = {"bootstrap.servers": f"{ADDRESS}:{ports[index].client}", **login(sasl, tls)}
            broker = _Broker(folder.resolve() / f"broker-{index}", jars.resolve(), index, client, flags)
            broker.configure({**of_broker(index, ports, racks, sasl, tls), **properties})
            self._brokers.append(broker)
        _format(self._brokers, sasl or {})
        try:
            for broker in self._brokers:
                broker.launch()
            for broker in self._brokers:
                _wait(broker, self._brokers)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pid(self, index: int = 0) -> int:
        """The process id of a broker's JVM."""
        return self._brokers[index].pid

    def log(self, index: int = 0) -> Path:
        """The log file of a broker's JVM."""
        return self._brokers[index].log

    def stop(self, index: int = 0) -> None:
        """Shut a broker down cleanly, with SIGTERM. Its data is kept.

        Raises:
            AnabranchError: the broker didn't end within a minute, for example because too few controllers are left.
        """
        self._brokers[index].end(signal.SIGTERM)

    def kill(self, index: int = 0) -> None:
        """Kill a broker with SIGKILL. Its data is left as it is at that moment."""
        self._brokers[index].end(signal.SIGKILL)

    def start_again(self, index: int = 0) -> None:
        """Start a stopped or killed broker again, with its former ports and data. Wait until the broker serves
        requests. Raises AnabranchError if the broker is already running, ends during its start, or takes too long."""
        broker = self._brokers[index]
        if broker.runs:
            raise AnabranchError(f"broker {index} runs already", "stop or kill it first")
        broker.launch()
        _wait(broker, [broker])

    def close(self) -> None:
        """Kill all brokers with SIGKILL. Acknowledged data stays in the folder, for a later :func:`start`."""
        with ExitStack() as stack:
            for broker in self._brokers:
                stack.callback(broker.end, signal.SIGKILL)


def start(
    folder: Path,
    jars: Path,
    count: int = 1,
    racks: Sequence[str] = (),
    properties: Mapping[str, str] = {},
    sasl: Mapping[str, str] | None = None,
    flags: Sequence[str] = QUICK,
    tls: Tls | None = None,
) -> Cluster:
    """Start brokers on free ports of the loopback address, and return when all of them serve requests. Use the result
    in ``with``.

    Args:
        folder: the folder for the brokers' data and logs. A new cluster continues with the data of an earlier cluster
            with the same number of brokers.
        jars: the folder with the broker's jars, as returned by :func:`anabranch.systems.kafka.jars.broker_folder`.
        count: the number of brokers. With 3 or more, the cluster survives the loss of one broker.
        racks: the ``broker.rack`` of each broker. If there are fewer racks than brokers, the list is repeated. If the
            list is empty, the brokers have no racks.
        properties: settings for all brokers. They override the cluster's own settings, except ``log.dirs``, which can't
            be overridden.
        sasl: passwords by user. If there are users, clients must log in with PLAIN or SCRAM-SHA-512.
        flags: Java options. With the default options, brokers start quickly, but run slowly.
        tls: the brokers' certificate. If it is given, the traffic between clients and brokers is encrypted.

    Raises:
        NotFoundError: Java isn't installed.
        AnabranchError: there aren't enough free ports, a broker's data folder can't be formatted, or a broker ended
            during its start or took too long. Except in the first case, the message contains the end of a broker's log.
    """
    for _ in range(ATTEMPTS - 1):
        with suppress(_AddressInUseError):
            return Cluster(folder, jars, count, racks, properties, sasl, flags, tls)
    return Cluster(folder, jars, count, racks, properties, sasl, flags, tls)


class _Broker:
    """A broker of the cluster: its folder and, while the broker runs, its process."""

    def __init__(self, folder: Path, jars: Path, index: int, client: Mapping[str, str], flags: Sequence[str]) -> None:
        self.folder = folder
        self.index = index
        self.client = client
        self.log = folder / "broker.log"
        self.pid = 0
        logging_file = folder.parent / "log4j2.properties"
        self._java = (_java(), *flags, f"-Dlog4j2.configurationFile={logging_file}", "-cp", f"{jars}/*")
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _meta(self) -> Path:
        return self.folder / "data" / "meta.properties"

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def configure(self, properties: Mapping[str, str]) -> None:
        self.folder.mkdir(exist_ok=True)
        lines = {**properties, "log.dirs": str(self.folder / "data")}
        self.config.write_text("".join(f"{name}={json.dumps(value)[1:-1]}\n" for name, value in lines.items()))

    def is_of(self, cluster_id: str) -> bool:
        """Whether the data folder belongs to the cluster ``cluster_id``, which is the id that was reported on this
        broker's port. If not, a broker of another cluster is listening on the port.
        """
        return f"cluster.id={cluster_id}\n" in self._meta.read_text()

    def format(self, cluster_id: str, sasl: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
        """Start a process that formats the data folder, and return the process. If an earlier start has formatted the
        folder, return None. ``sasl`` has the passwords of the cluster's users.
        """
        if self._meta.exists():
            return None
        # The option and its value are a single argument, with "=", because an id may begin with a dash.
        command = [*self._java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}"]
        for name, password in sasl.items():
            command.append(f'--add-scram={SCRAM}=[name={name},password="{password}"]')
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*command, "-c", str(self.config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def launch(self) -> None:
        command = ["sh", "-c", WATCH, "sh", *self._java, "kafka.Kafka", str(self.config)]
        with self.log.open("ab") as log:
            self._log_start = log.seek(0, os.SEEK_END)
            # In its own session, so that Ctrl-C reaches only our process, which then ends the brokers.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert self._process.stdout is not None
        with self._process.stdout as said:
            line = said.readline()
        if not line:
            self._process = None
            raise AnabranchError(f"broker {self.index} could not be started:\n{self.tail()}", "fix what it names")
        self.pid = int(line)

    def end(self, by: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            try:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, by)
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired as error:
                raise AnabranchError(
                    f"broker {self.index} did not end within {STOP_SECONDS:.0f} s of {by.name}\n{self.tail()}",
                    "kill it; a broker can end in good order only while most of the brokers run",
                ) from error
        assert process.stdin is not None
        process.stdin.close()
        self._process = None

    def tail(self) -> str:
        """The last lines of the log since the broker's last start, without Java's stack frames."""
        lines = [line for line in self._said().splitlines() if not line.startswith("\tat ")]
        return "\n".join(lines[-15:])

    def said(self, text: str) -> bool:
        return text in self._said()

    def _said(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")


def _format(brokers: Iterable[_Broker], sasl: Mapping[str, str]) -> None:
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    formatting = [(broker, broker.format(cluster_id, sasl)) for broker in brokers]
    codes = [(broker, process.wait()) for broker, process in formatting if process is not None]
    for broker, code in codes:
        if code != 0:
            raise AnabranchError(
                f"the data folder of broker {broker.index} could not be made:\n{broker.tail()}",
                f"fix what it names; all of it is in {broker.log}",
            )


def _wait(witness: _Broker, wanted: Sequence[_Broker]) -> None:
    """Return when the broker ``witness`` reports all ``wanted`` brokers as members."""
    admin = AdminClient(
        {**witness.client, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100},
        logger=logging.Logger("quiet", logging.CRITICAL),
    )
    missing = {broker.index for broker in wanted}

    def look() -> bool | None:
        for broker in wanted:
            if not broker.runs:
                raise (_AddressInUseError if broker.said(IN_USE) else AnabranchError)(
                    f"broker {broker.index} ended while it started:\n{broker.tail()}",
                    f"fix what it names; all of it is in {broker.log}",
                )
        with suppress(KafkaException):
            found = admin.list_topics(timeout=POLL_SECONDS)  # describe_cluster can abort: see systems.kafka.cluster
            if witness.is_of(str(found.cluster_id)):
                missing.difference_update(found.brokers)
        return None if missing else True

    def late() -> AnabranchError:
        return AnabranchError(
            f"brokers {sorted(missing)} did not serve within {READY_SECONDS:.0f} s:\n{witness.tail()}",
            f"see {', '.join(str(broker.log) for broker in wanted)}",
        )

    wait_until(look, READY_SECONDS, late, POLL_SECONDS / 10)


def free_ports(count: int) -> list[Ports]:
    with ExitStack() as held:
        free: list[int] = []
        for port in random.SystemRandom().sample(PORTS, len(PORTS)):
            listener = held.enter_context(socket.socket())
            try:
                listener.bind((ADDRESS, port))
            except OSError:
                continue
            free.append(port)
            if len(free) == 2 * count:
                return [Ports(*free[at : at + 2]) for at in range(0, len(free), 2)]
    raise AnabranchError(
        f"{2 * count} free ports between {PORTS.start} and {PORTS.stop} are needed, found {len(free)}",
        "end what holds them",
    )


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    if java is None:
        raise NotFoundError(
            f"a broker needs Java 17 or newer, found none{f' in JAVA_HOME={home}' if home else ''}",
            "install it, or let JAVA_HOME name its folder",
        )
    return java
