"""A workspace with a job and its streams, the command line as processes, and for ``delays`` what must come out."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.config import KafkaSettings
from anabranch.coordinator.api import token_file
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.leadership import endpoint
from anabranch.model.hashing import partition_for
from anabranch.systems.contract import System
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.kafka.system import KafkaSystem
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.testing import broker
from tests.acceptance.processes import Process
from tests.support import jvm, kafka_peers

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "delays.py"
ANABRANCH = Path(sys.executable).parent / "anabranch"
JOB = "delays"
INPUT, LATE, TABLE = "flights", "late-flights", "delay-by-destination"
PARTITIONS = 4
LATE_FROM = 15
AS_MANY = {"job__target_batch_seconds": 0}
"""Batches have as many records as they may, each time the same, however long they take here."""
PATIENCE = 400.0
MIDNIGHT = datetime(2013, 1, 1, tzinfo=UTC)

Flight = dict[str, Any]


def flights(seed: int, count: int, days: int = 1, keyless: float = 0.03) -> list[Flight]:
    """Flights in time order; some have no key. Each has an origin of its own, so that no two late ones are alike."""
    dice = random.Random(seed)
    carriers, dests = ["AA", "B6", "DL", "EV", "UA"], [f"D{number:02}" for number in range(30)]
    tails = [f"N{number:05}" for number in range(700)]
    return [
        {
            "tailnum": None if dice.random() < keyless else dice.choice(tails),
            "carrier": dice.choice(carriers),
            "origin": f"EWR-{number}",
            "dest": dice.choice(dests),
            "dep_delay": None if dice.random() < 0.03 else int(dice.gauss(8, 30)),
            "at": (MIDNIGHT + timedelta(days=days) * number / count).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        for number in range(count)
    ]


def held_back(several: Sequence[Flight], days: int, partition: int = 2) -> tuple[list[Flight], list[Flight]]:
    """Those that are there at once, and those that come later: of one partition, all but these many first days.

    All must have keys: others go anywhere, and would be there before earlier ones of their partition.
    """
    until = (MIDNIGHT + timedelta(days=days)).isoformat()

    def later(flight: Flight) -> bool:
        return flight["at"] >= until and partition_for(flight["tailnum"].encode(), PARTITIONS) == partition

    return [flight for flight in several if not later(flight)], [flight for flight in several if later(flight)]


def broken(count: int) -> list[bytes]:
    """Values that are no flights, no two alike."""
    kinds = ("{{{}", '{{"dep_delay": "{} minutes"}}', '[{}, "2013-01-01T00:00:00Z"]', '{{"at": null, "origin": "{}"}}')
    return [kinds[n % len(kinds)].format(n).encode() for n in range(count)]


def records(several: Sequence[Flight]) -> pa.RecordBatch:
    """Flights as records: the tail number is the key and not in the value."""
    keys = [None if flight["tailnum"] is None else flight["tailnum"].encode() for flight in several]
    values = [json.dumps({k: v for k, v in flight.items() if k != "tailnum"}).encode() for flight in several]
    return record_batch(keys, values)


def record_batch(keys: Sequence[bytes | None], values: Sequence[bytes]) -> pa.RecordBatch:
    at = [MIDNIGHT] * len(values)
    return pa.record_batch(
        [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.nulls(len(at), RECORD_SCHEMA[2].type), at],
        schema=RECORD_SCHEMA,
    )


@dataclass(frozen=True)
class LaneProgress:
    """What a lane's folder says: its last committed and planned batch, and the positions after the committed one."""

    committed: int
    planned: int
    positions: Mapping[str, Mapping[int, int]]

    @property
    def read(self) -> int:
        """Records read and committed, of all its inputs."""
        return sum(sum(each.values()) for each in self.positions.values())


class Workspace:
    """A folder with a job file, where verbs run. Settings are given by ``SECTION__NAME``.

    Its streams are in the embedded log, or in Kafka if there is a ``cluster``: one that has none but these, as all that
    stands there is deleted. ``twin``: another workspace, whose streams these are, and nothing is deleted.
    ``kafka``: the login of the test at a cluster that needs one, and is new. ``patience``: seconds that a process may
    take. ``program``: the command line's program (default: ``anabranch``).
    """

    def __init__(
        self,
        folder: Path,
        cluster: broker.Cluster | None = None,
        job: Path = EXAMPLE,
        twin: Workspace | None = None,
        patience: float = PATIENCE,
        program: Sequence[str] | None = None,
        kafka: KafkaSettings | None = None,
        **settings: object,
    ) -> None:
        self.folder = folder
        self.cluster = cluster
        self.patience = patience
        self.program = program or [str(ANABRANCH)]
        self.job = job.stem
        self.system: System = EmbeddedSystem(folder / ".anabranch" / "streams")
        bound: dict[str, object] = {}
        if cluster is not None:
            if twin is None and kafka is None:
                kafka_peers.clear(cluster.bootstrap_servers)
            self.kafka = kafka or KafkaSettings(bootstrap_servers=cluster.bootstrap_servers)
            self.system = KafkaSystem(self.kafka)
            bound = {"systems__default": "kafka", "systems__kafka__bootstrap_servers": cluster.bootstrap_servers}
        self.settings = {"job__state_partitions": 2, "job__max_rows_per_batch": 2500, **AS_MANY, **bound, **settings}
        self.environment: dict[str, str] = {}
        """Of all processes that are started."""
        self._processes: list[Process] = []
        shutil.copy(job, folder / job.name)

    @cached_property
    def lanes(self) -> Path:
        return self.folder / ".anabranch" / "lanes" / self.job

    def put(self, several: Sequence[Flight], pieces: int = 1) -> None:
        """Add flights to the input, each piece as segments of its own; the first time, make it."""
        if INPUT not in self.system.streams():
            self.system.create(INPUT, PARTITIONS)
        size = -(-len(several) // pieces)
        self.append(INPUT, *(records(several[at : at + size]) for at in range(0, len(several), size)))

    def put_broken(self, values: Sequence[bytes]) -> None:
        """Add records that are no flights to the input."""
        self.append(INPUT, record_batch([f"B{n}".encode() for n in range(len(values))], values))

    def append(self, stream: str, *batches: pa.RecordBatch) -> None:
        """Add records to a stream, by one producer."""
        appender = self.system.appender(stream)
        for batch in batches:
            appender.append(batch)
        appender.close()

    def start(
        self,
        *words: str,
        hold: str = "",
        env: Mapping[str, str] | None = None,
        input: Path | None = None,
        under: Sequence[str] = (),
        **settings: Any,
    ) -> Process:
        """Start a verb. ``hold``: "<lane prefix>:<step>:<batch>", where it writes a note and stops. ``under``: a
        command that runs it."""
        number = len(self._processes)
        out, err, note = (self.folder / f"process-{number}.{name}" for name in ("out", "err", "note"))
        given = {f"ANABRANCH__{name.upper()}": str(value) for name, value in {**self.settings, **settings}.items()}
        holding = {"ANABRANCH_HOLD_AT": hold, "ANABRANCH_HOLD_NOTE": str(note)} if hold else {}
        outside = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH")}
        with open(out, "wb") as stdout, open(err, "wb") as stderr, open(input or os.devnull, "rb") as stdin:
            popen = subprocess.Popen(
                [*under, *self.program, *words],
                cwd=self.folder,
                env={**outside, **jvm.QUICK, **self.environment, **given, **holding, **(env or {})},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self._processes.append(Process(popen, out, err, note, self.patience))
        return self._processes[-1]

    def call(self, *words: str, code: int = 0, **settings: Any) -> Process:
        """Run a verb to its end, which must give this exit code and show no traceback of ours."""
        process = self.start(*words, **settings)
        ended = process.wait()
        assert ended == code, f"{' '.join(words)} ended with {ended}, not {code}:\n{process.stderr}"
        assert "Traceback" not in process.stderr, process.stderr
        return process

    def finish(self, **settings: Any) -> Process:
        """Run the job to the end of its input."""
        return self.call("run", f"{self.job}.py", "--available-now", **settings)

    def read(self, lanes: str) -> int:
        """Records read and committed by the lanes whose ids begin so; what several of them read counts once."""
        read: dict[tuple[str, int], int] = {}
        for folder in self.lanes.glob(f"{lanes}*"):
            if not any(_is_whole(each) for each in folder.glob("[0-9]*/")):
                continue  # its folder is just being made
            for stream, positions in self.lane(folder.name).positions.items():
                for partition, position in positions.items():
                    read[stream, partition] = max(position, read.get((stream, partition), 0))
        return sum(read.values())

    def lane(self, lane: str) -> LaneProgress:
        """Progress of a lane, by its id or the id's beginning, in its newest folder that is copied whole."""
        folders = [each for each in self.lanes.glob(f"{lane}*/[0-9]*/") if _is_whole(each)]
        folder = max(folders, key=lambda folder: int(folder.name))
        committed, planned = (_last(folder / name) for name in ("commits", "offsets"))
        positions = {}
        if committed >= 0:
            lines = (folder / "offsets" / str(committed)).read_text().split("\n")[2:]
            read = [_positions(json.loads(line)) for line in lines if line != "-"]
            positions = {stream: {int(p): int(o) for p, o in held.items()} for each in read for stream, held in each}
        return LaneProgress(committed, planned, positions)

    def committed(self, lane: str) -> int:
        """A lane's last committed batch, also before it has a folder."""
        return max((_last(folder / "commits") for folder in self.lanes.glob(f"{lane}*/[0-9]*/")), default=-1)

    def ends(self) -> dict[str, dict[int, int]]:
        """Where all streams end."""
        return {name: self.system.ends(name) for name in self.system.streams()}

    def whole_ends(self, *streams: str) -> dict[str, int]:
        """Where the partitions of these streams end, by the texts of their SSPs."""
        ends = ((stream, self.system.ends(stream)) for stream in streams)
        return {f"{self.system.name}/{stream}/{n}": end for stream, held in ends for n, end in held.items()}

    def contents(self, stream: str) -> Iterator[tuple[bytes | None, Any]]:
        """All records, partition by partition in order: key and parsed value."""
        for number, end in self.system.ends(stream).items():
            for _, batch in self.system.read(stream, number, [(0, end)]):
                for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
                    yield key, json.loads(value)

    def check_outputs(self, several: Sequence[Flight]) -> None:
        """The outputs of a job that has read these flights, each exactly once."""
        check_late(list(self.contents(LATE)), several)
        check_table(list(self.contents(TABLE)), several, self.watermark("1"))

    def check_dead_letters(self, values: Sequence[bytes]) -> None:
        """Each of these is there once, in the partition and from the offset where it was put; status counts them."""
        put = {value: (p, o) for p, o, value, _ in self.raw(INPUT) if value in set(values)}
        found = list(self.raw(f"{INPUT}-dead-letters"))
        assert Counter(value for _, _, value, _ in found) == Counter(values)
        for partition, _, value, headers in found:
            assert (partition, int(headers["anabranch.partition"])) == (put[value][0], put[value][0])
            assert int(headers["anabranch.offset"]) == put[value][1]
            assert headers["anabranch.error"]
        assert sum(lane["lane"]["putAside"] for lane in self.status()["lanes"]) == len(values)

    def raw(self, stream: str) -> Iterator[tuple[int, int, bytes, dict[str, bytes]]]:
        """All records: partition, offset, value and headers."""
        for number, end in self.system.ends(stream).items():
            for offsets, batch in self.system.read(stream, number, [(0, end)]):
                for offset, row in zip(offsets.tolist(), batch.to_pylist(), strict=True):
                    yield number, offset, row["value"], {each["key"]: each["value"] for each in row["headers"] or ()}

    def watermark(self, stage: str) -> datetime:
        """The watermark of a stage's lanes when they were stopped: that of the slowest. A running count has none."""
        lanes = [lane["lane"] for lane in self.status()["lanes"] if lane["lane"]["stage"] == stage]
        return datetime.fromtimestamp(min(w for lane in lanes if (w := lane["watermark"]) is not None) / 1000, UTC)

    @property
    def url(self) -> str:
        """Where the process answers that runs the job."""
        return endpoint.find(f"sqlite:///{self.folder}/.anabranch/coordinator.db")[self.job]

    def client(self, url: str) -> Client:
        """A client of a coordinator that was started here, with the token that it has made."""
        named = self.settings.get("coordinator__token_file")
        home = self.folder / ".anabranch"
        files = [Path(str(named))] if named else [home / "coordinator.db.token", home / "coordinator.token"]
        return Client(url, token=lambda: next(filter(None, map(token_file.read, files)), None))

    def status(self) -> Any:
        """What ``status --json`` says."""
        return json.loads(self.call("status", self.job, "--json").stdout)

    def close(self) -> None:
        for process in self._processes:
            process.clear_away()


def check_late(found: Sequence[tuple[bytes | None, Any]], several: Iterable[Flight]) -> None:
    """Every late flight once, under its key; those of one key in the order of the input."""
    wanted = [flight for flight in several if flight["dep_delay"] is not None and flight["dep_delay"] >= LATE_FROM]
    seen = Counter(value["origin"] for _, value in found)
    twice = [origin for origin, times in seen.items() if times > 1]
    lost = {flight["origin"] for flight in wanted} - set(seen)
    assert not twice, f"{len(twice)} late flights came out more than once, as {twice[0]}"
    assert not lost, f"{len(lost)} late flights are lost, as {min(lost)}"
    by_key: dict[bytes | None, list[Any]] = defaultdict(list)
    for key, value in found:
        by_key[key].append(value)
    expected: dict[bytes | None, list[Any]] = defaultdict(list)
    for flight in wanted:
        key = None if flight["tailnum"] is None else flight["tailnum"].encode()
        expected[key].append({name: value for name, value in flight.items() if value is not None})
    for each in (by_key, expected):  # those without a key go to any partition: they have no order
        each[None].sort(key=lambda value: str(value["origin"]))
    assert by_key == expected


def check_table(found: Sequence[tuple[bytes | None, Any]], several: Iterable[Flight], watermark: datetime) -> None:
    """Every hour of a destination that ends by the watermark is there once and is the direct computation; no other."""
    counts: Counter[tuple[str, str]] = Counter()
    delays: dict[tuple[str, str], list[int]] = defaultdict(list)
    for flight in several:
        place = flight["dest"], flight["at"][:13]
        counts[place] += 1
        delays[place] += [] if flight["dep_delay"] is None else [flight["dep_delay"]]
    rows = [((value["dest"], value["window_start"][:13]), value) for _, value in found]
    assert len(rows) == len(dict(rows)), "a window came out twice"
    assert all(key == value["dest"].encode() for key, value in found)
    means = {place: sum(each) / len(each) if each else None for place, each in delays.items()}
    due = {place for place in counts if _end_of_hour(place[1]) <= watermark}
    assert {place: (value["flights"], value.get("mean_delay")) for place, value in rows} == {
        place: (counts[place], means[place]) for place in due
    }
    assert sum(counts[place] for place in due) >= counts.total() // 2, f"few windows end by {watermark}"


def _end_of_hour(hour: str) -> datetime:
    return datetime.fromisoformat(f"{hour}:00:00+00:00") + timedelta(hours=1)


def _positions(offset: dict[str, Any]) -> list[tuple[str, dict[str, int]]]:
    """The stream and its positions of one source, as the offset log has them; none for event time.

    Of the embedded log they are ``{"stream": …, "positions": …}``, of Kafka ``{topic: positions}``.
    """
    if "stream" in offset:
        return [(offset["stream"], offset["positions"])]
    return [] if "source" in offset else list(offset.items())


def _is_whole(folder: Path) -> bool:
    """Whether each batch that was committed was planned: in a copy, that comes later."""
    return _last(folder / "offsets") >= _last(folder / "commits")


def _last(folder: Path) -> int:
    """The highest batch in a folder of the checkpoint."""
    return max((int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()), default=-1)


NARROW = json.dumps({"spark.sql.execution.arrow.maxRecordsPerBatch": "50"})
"""So that a function fails a task that has written already."""
