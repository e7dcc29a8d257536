"""The daemon from which the workers of Spark tasks are forked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FORKS = """
import os, runpy
import pyspark.daemon

def manager():  # forks workers without Spark's asking for them
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            import random, numpy
            print(numpy.random.randint(2**62), random.getrandbits(62), flush=True)
            numpy.random.seed(1)
            again = os.fork()
            if again == 0:
                print(numpy.random.randint(2**62), flush=True)
            else:
                os.waitpid(again, 0)
            os._exit(0)
        os.waitpid(pid, 0)

pyspark.daemon.manager = manager
runpy.run_module("anabranch.spark.internals.worker_daemon", run_name="__main__")
"""


def test_each_worker_has_its_own_random_numbers_and_what_it_forks_has_those_that_it_seeds(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKS]
    printed = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout
    first, of_first, second, of_second = printed.splitlines()
    assert set(first.split()).isdisjoint(second.split())
    assert of_first == of_second
