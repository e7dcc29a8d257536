"""Races for folders: ``python -m tests.soak.claim_races s3|hdfs [RACES]``.

Two processes with sessions of their own take the same folders at the same moments. Of each, one of them must have it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from anabranch.config import Settings, SparkSettings, StorageSettings
from anabranch.container.checkpoint.folder import Folder
from anabranch.errors import ConflictError
from anabranch.spark.session import session
from tests.support import hdfs, s3
from tests.support.interruption import interruptible

APART = 0.5
"""Seconds between two races."""
READY = "ready"


def main(kind: str, races: int) -> str:
    """What came of it, in one line; '' at its end if all is right."""
    interruptible()
    with tempfile.TemporaryDirectory(prefix="claim-races-") as name, ExitStack() as stack:
        folder, environment = Path(name), dict(os.environ)
        if kind == "s3":
            server = stack.enter_context(s3.serving(folder))
            root, conf = f"s3a://{s3.BUCKET}/root", server.conf()
        else:
            where = stack.enter_context(hdfs.serving(folder / "hdfs"))
            root, conf, environment["HADOOP_CONF_DIR"] = "hdfs:///root", {}, str(where.conf)
        command = [sys.executable, "-m", "tests.soak.claim_races", "take", root, json.dumps(conf), str(races)]
        both = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
            for _ in range(2)
        ]
        for each in both:
            assert each.stdout is not None
            assert each.stdout.readline().strip() == READY
        begin = time.time() + 1.0
        for each in both:
            assert each.stdin is not None
            each.stdin.write(f"{begin}\n")
            each.stdin.flush()
        # both are heard before either ends: what one has is free then, and the other would take it
        won = [json.loads(each.stdout.readline()) for each in both if each.stdout is not None]
        for each in both:
            each.communicate()
    several = sum(number in won[1] for number in won[0])
    none = races - len({*won[0], *won[1]})
    return f"{races} races on {kind}: {len(won[0])} and {len(won[1])} won, {several} by both, {none} by none"


def take(root: str, conf: dict[str, str], races: int) -> list[int]:
    """The folders that this process got."""
    spark = session.start(
        Settings(storage=StorageSettings(root=root), spark=SparkSettings(master="local[1]", memory="512m", conf=conf)),
        output=Path(os.devnull),
    )
    print(READY, flush=True)
    begin, won = float(sys.stdin.readline()), []
    for number in range(races):
        time.sleep(max(0.0, begin + number * APART - time.time()))
        try:
            # whoever comes second doesn't wait for a sign of life of the first: it would miss the next races
            Folder(spark, f"{root}/job/lane-{number}/1").lock(unless=lambda: True)
            won.append(number)
        except ConflictError:
            continue
    print(json.dumps(won), flush=True)
    sys.stdin.readline()
    session.stop(spark)
    return won


if __name__ == "__main__":
    if sys.argv[1] == "take":
        take(sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]))
    else:
        print(main(sys.argv[1], int((sys.argv[2:] or ["200"])[0])))
