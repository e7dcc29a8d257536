"""Workers follow a test process that changes its environment or reloads a module, and so does the process itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

JOB = """
import os
from anabranch import Job
import beside
URL = os.environ.get("URL")
job = Job("made")
job.read("rows", schema="n int").map(lambda m: (URL, beside.URL, os.environ.get("URL"))).write("out")
"""

WORKER = """
import pickle, sys
while True:
    try:
        (function,) = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    again = pickle.loads(pickle.dumps(function))
    print(function.value({}), again.value({}) == function.value({}), flush=True)
"""

BEGIN = f"""
import os, subprocess, sys
from pathlib import Path
from pyspark import cloudpickle
from anabranch.job_code import environment
from anabranch.launch import loading
from anabranch.spark.functions import job_functions

worker = subprocess.Popen([sys.executable, "-P", "-c", {WORKER!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

def called(file):
    functions = [job_functions.of_node(file.graph[node], file.functions, file.home) for node in file.functions]
    worker.stdin.write(cloudpickle.dumps(functions))
    worker.stdin.flush()
    print(worker.stdout.readline().decode().strip())

def load():
    return loading.load(Path(sys.argv[1], "job.py"))
"""


def said(tmp_path: Path, text: str, **env: str) -> list[str]:
    """What a test process prints that begins with ``BEGIN``."""
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "beside.py").write_text("import os\nURL = os.environ.get('URL')\n")
    known = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PATH": os.environ["PATH"], **env}
    words = [sys.executable, "-P", "-c", f"{BEGIN}\n{text}\nworker.stdin.close()", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, env=known, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("first", "changes", "results"),
    [
        ("real", ["os.environ['URL'] = 'fake'"], ["fake"]),
        ("real", ["del os.environ['URL']"], [None]),
        ("real", ["os.environ['URL'] = 'a'", "os.environ['URL'] = 'b'", "os.environ['URL'] = 'real'"],
         ["a", "b", "real"]),
        (None, ["os.environ['URL'] = 'a'", "del os.environ['URL']"], ["a", None]),
        ("real", ["os.environ['PYTEST_CURRENT_TEST'] = 'b'"], ["real"]),
    ],
)  # fmt: skip
def test_a_worker_imports_a_job_with_the_present_environment(
    tmp_path: Path, first: str | None, changes: list[str], results: list[str | None]
) -> None:
    text = "\n".join(f"{change}\ncalled(load())" for change in changes)
    env = {"URL": first} if first else {}
    expected = [f"{(result, result, result)} True" for result in results]
    assert said(tmp_path, f"environment.remember()\n{text}", **env) == expected


def test_a_function_that_was_copied_sees_the_present_environment(tmp_path: Path) -> None:
    text = """
from anabranch import Job
environment.remember()
environment.remember()
job = Job("copied")
job.read("rows", schema="n int").map(lambda m: os.environ.get("URL")).write("out")
os.environ["URL"] = "fake"
called(loading.of(job))
os.environ["URL"] = "real"
called(loading.of(job))
"""
    assert said(tmp_path, text, URL="real") == ["fake True", "real True"]


def test_the_environment_stays_as_it_is_where_no_test_or_notebook_runs(tmp_path: Path) -> None:
    assert said(tmp_path, "os.environ['URL'] = 'fake'\ncalled(load())", URL="real") == [f"{('real',) * 3} True"]


def test_what_tools_set_for_themselves_isn_t_sent(tmp_path: Path) -> None:
    names = ["PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "ANABRANCH_JOB_SHELF", "PYTEST_CURRENT_TEST", "URL"]
    text = f"environment.remember()\nos.environ |= dict.fromkeys({names}, '1')\nprint(environment.changes())"
    assert said(tmp_path, text) == ["(('URL', '1'),)"]
