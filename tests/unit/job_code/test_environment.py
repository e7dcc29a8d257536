"""Workers follow a test process that changes its environment or reloads a module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

JOB = """
import os
from anabranch import Job
import beside
from folder import deep
URL = os.environ.get("URL")
job = Job("made")
job.read("rows", schema="n int").map(lambda m: (URL, beside.URL, deep.URL, os.environ.get("URL"))).write("out")
"""
BESIDE = "import os\nURL = os.environ.get('URL')\n"

CATCHING = """
import os
from anabranch import Job
import shop.errors
URL = os.environ.get("URL")
def asked(message):
    try:
        shop.buy()
    except shop.errors.Gone:
        return URL, shop.errors.URL
job = Job("catching")
job.read("rows", schema="n int").map(asked).write("out")
"""
SHOP = {
    "__init__.py": "from shop import buying\ndef buy():\n    buying.buy()\n",
    "buying.py": "from shop.errors import Gone\ndef buy():\n    raise Gone\n",
    "errors.py": f"{BESIDE}class Gone(Exception): pass\n",
}
"""A package in which a class would be there twice if only some modules were imported again."""

WORKER = """
import pickle, sys
while True:
    try:
        (function,) = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    again = pickle.loads(pickle.dumps(function))
    print([function.value({}), again.value({})], flush=True)
"""

BEGIN = f"""
import importlib, os, subprocess, sys
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
    print([*eval(worker.stdout.readline()), *(function({{}}) for function in file.functions.values())])

def load():
    return loading.load(Path(sys.argv[1], "job.py"))
"""


def written(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def said(tmp_path: Path, text: str, more: str = "", **env: str) -> list[str]:
    """What a test process prints that begins with ``BEGIN``. It also imports modules from the folder ``more``."""
    path = os.pathsep.join([*filter(None, [more]), *(path for path in sys.path if path)])
    known = {"PYTHONPATH": path, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **env}
    words = [sys.executable, "-P", "-c", f"{BEGIN}\n{text}\nworker.stdin.close()", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, env=known, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def everywhere(*results: Any) -> list[str]:
    """What :func:`said` gives if a worker, the same worker again, and the process itself all give each result."""
    return [str([result] * 3) for result in results]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    written(tmp_path, {"job.py": JOB, "beside.py": BESIDE})
    written(tmp_path / "folder", {"deep.py": BESIDE})
    return tmp_path


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
def test_a_job_is_imported_with_the_present_environment(
    home: Path, first: str | None, changes: list[str], results: list[str | None]
) -> None:
    text = "\n".join(f"{change}\ncalled(load())" for change in changes)
    env = {"URL": first} if first else {}
    # In the process itself, the modules that the job file imports keep what they have read at first.
    first_read = results[0]
    expected = [str([(each,) * 4, (each,) * 4, (each, first_read, first_read, each)]) for each in results]
    assert said(home, f"environment.follow()\n{text}", **env) == expected


@pytest.mark.parametrize(("place", "then"), [(".venv/lib/python3.11/site-packages", "a"), ("src", "a"), ("", "b")])
def test_of_a_package_either_all_modules_are_imported_again_or_none(tmp_path: Path, place: str, then: str) -> None:
    written(tmp_path, {"job.py": CATCHING})
    written(tmp_path / place / "shop", SHOP)
    text = "environment.follow()\ncalled(load())\nos.environ['URL'] = 'b'\ncalled(load())\ncalled(load())"
    after = str([("b", then), ("b", then), ("b", "a")])
    assert said(tmp_path, text, str(tmp_path / place), URL="a") == [*everywhere(("a", "a")), after, after]


def test_a_package_that_the_test_has_imported_itself_stays_as_it_is(tmp_path: Path) -> None:
    written(tmp_path, {"job.py": CATCHING})
    written(tmp_path / "shop", SHOP | {"__init__.py": "def buy():\n    from shop import buying\n    buying.buy()\n"})
    text = "import shop\nenvironment.follow()\ncalled(load())\nos.environ['URL'] = 'b'\ncalled(load())"
    expected = [*everywhere(("a", "a")), str([("b", "b"), ("b", "b"), ("b", "a")])]
    assert said(tmp_path, text, str(tmp_path), URL="a") == expected


def test_modules_that_a_copied_function_uses_are_imported_again_in_each_worker(tmp_path: Path) -> None:
    """As in a notebook, whose folder workers know. One worker lives through the change, and another begins after it."""
    written(tmp_path, {"beside.py": BESIDE})
    text = f"""
from anabranch import Job
from anabranch.job_code import job_modules
sys.path.insert(0, sys.argv[1])
import beside
WORKER = "from anabranch.job_code import job_modules\\njob_modules.enter_from_environment()\\n" + {WORKER!r}
known = {{**os.environ, job_modules.VARIABLE: job_modules.code_in(sys.argv[1]).on_this_machine().dumped()}}
environment.follow()
job = Job("copied")
job.read("rows", schema="n int").map(lambda m: (beside.URL, os.environ.get("URL"))).write("out")
def begun():
    words, pipe = [sys.executable, "-P", "-c", WORKER], subprocess.PIPE
    return subprocess.Popen(words, env=known, stdin=pipe, stdout=pipe)
worker = begun()
called(loading.of(job))
os.environ["URL"] = "b"
called(loading.of(job))
worker = begun()
called(loading.of(job))
"""
    after = str([("b", "b"), ("b", "b"), ("a", "b")])
    assert said(tmp_path, text, URL="a") == [*everywhere(("a", "a")), after, after]


def test_a_job_in_an_installed_package_is_imported_again_but_no_other_package(tmp_path: Path) -> None:
    site = tmp_path / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    written(site / "shop", SHOP)
    written(site / "jobs", {"__init__.py": "", "catching.py": CATCHING})
    text = """
from jobs.catching import job
environment.follow()
file = loading.of(job)
print(file.path.relative_to(sys.argv[1]).name)
called(file)
os.environ["URL"] = "b"
importlib.reload(sys.modules["jobs.catching"])
called(loading.of(sys.modules["jobs.catching"].job))
"""
    known = {"PYTHONUSERBASE": str(tmp_path), "URL": "a"}
    assert said(tmp_path, text, str(site), **known) == ["catching.py", *everywhere(("a", "a"), ("b", "a"))]


RELOADED = """
import my_job, beside
called(loading.of(my_job.job))
Path(beside.__file__).write_text("URL = 'second'")
importlib.reload(beside)
importlib.reload(my_job)
called(loading.of(my_job.job))
"""


@pytest.mark.parametrize("entered", [False, True])
def test_a_worker_follows_when_a_helper_is_reloaded_with_the_job(tmp_path: Path, entered: bool) -> None:
    job = "from anabranch import Job\nimport beside\njob = Job('made')\n"
    job += "job.read('rows', schema='n int').map(lambda m: beside.URL).write('out')\n"
    written(tmp_path, {"job.py": job, "my_job.py": job, "beside.py": "URL = 'first'"})
    before = "called(load())\n" if entered else ""
    expected = everywhere("first", "first", "second", "second") if entered else everywhere("first", "second")
    assert said(tmp_path, f"{before}{RELOADED}{before}", str(tmp_path)) == expected


def test_a_function_that_was_copied_sees_the_present_environment(tmp_path: Path) -> None:
    text = """
from anabranch import Job
environment.follow()
environment.follow()
job = Job("copied")
job.read("rows", schema="n int").map(lambda m: os.environ.get("URL")).write("out")
os.environ["URL"] = "fake"
called(loading.of(job))
os.environ["URL"] = "real"
called(loading.of(job))
"""
    assert said(tmp_path, text, URL="real") == everywhere("fake", "real")


def test_the_environment_of_workers_stays_as_it_is_where_no_test_or_notebook_runs(home: Path) -> None:
    text = "called(load())\nos.environ['URL'] = 'fake'\nfile = load()\ncalled(file)"
    first, second = (eval(each) for each in said(home, text, URL="real"))
    assert first[:2] == second[:2] == [("real",) * 4] * 2


@pytest.mark.parametrize("under", [False, True])
def test_workers_of_a_cluster_keep_their_environment(tmp_path: Path, under: bool) -> None:
    text = f"""
from anabranch.spark.session import cluster, session
environment.follow()
cluster.is_under = lambda _: {under}
session.follow_environment(None)
os.environ["URL"] = "b"
print(environment.changes())
cluster.is_under = lambda _: False
session.follow_environment(None)
print(environment.changes())
"""
    changed = "(('URL', 'b'),)"
    assert said(tmp_path, text, URL="a") == ["()" if under else changed, changed]


def test_what_tools_set_for_themselves_isn_t_sent(tmp_path: Path) -> None:
    names = ["PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "ANABRANCH_JOB_SHELF", "PYTEST_CURRENT_TEST"]
    users = ["PYTHON_ENV", "SPARK_TOPIC", "URL"]
    text = f"environment.follow()\nos.environ |= dict.fromkeys({names + users}, '1')\nprint(environment.changes())"
    assert said(tmp_path, text) == [str(tuple((name, "1") for name in users))]
