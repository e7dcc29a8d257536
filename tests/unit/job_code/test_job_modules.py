"""Job files as modules: what workers import is what the user's process has run, under names that nobody else has."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from anabranch import Job, Processor
from anabranch.errors import GraphError, UsageError
from anabranch.job_code import job_modules
from anabranch.launch import loading
from anabranch.launch.loading import JobFile
from anabranch.spark.functions import job_functions
from anabranch.spark.session import cluster, session
from tests.jobs import JOBS

HELD = JOBS / "held"
BEGIN = "from anabranch import Job\njob = Job('made')\nrows = job.read('rows', schema='n int')\n"
OF_JOBS = ("beside", "helper", "parts", "one_job")
LOADED = "anabranch_job_"
CALLED = """
import pickle, sys
from tests.jobs import JOBS
functions = pickle.load(sys.stdin.buffer)
print({function.node.name: CALL for function in functions})
"""


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """What a test has loaded is gone when it ends."""
    path, finders = list(sys.path), list(sys.meta_path)
    yield
    sys.path[:], sys.meta_path[:] = path, finders
    for name in [name for name in sys.modules if name.partition(".")[0] in OF_JOBS or name.startswith(LOADED)]:
        del sys.modules[name]


def written(home: Path, text: str, name: str = "job.py") -> Path:
    home.mkdir(parents=True, exist_ok=True)
    (home / name).write_text(text)
    return home / name


def travelling(file: JobFile) -> bytes:
    """All functions of a job, as they go to workers."""
    graph = file.graph
    several = [job_functions.of_node(graph[node], file.functions, file.home) for node in file.functions]
    return bytes(cloudpickle.dumps(several))  # type: ignore[no-untyped-call]


def worker(pickled: bytes, call: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Another process gets functions, and prints what ``call`` says of each ``function``."""
    known = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PATH": os.environ["PATH"], **env}
    words = [sys.executable, "-P", "-c", CALLED.replace("CALL", call)]
    return subprocess.run(words, input=pickled, capture_output=True, env=known, cwd="/", check=False)


def said(pickled: bytes, call: str, **env: str) -> dict[str, Any]:
    done = worker(pickled, call, **env)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = eval(done.stdout)  # nothing else is there: what modules print goes to stderr
    return found


def test_workers_take_every_kind_of_function_from_the_job_file(tmp_path: Path) -> None:
    home = tmp_path / "a folder.with dots"
    shutil.copytree(HELD, home)
    file = loading.load(home / "job.py")
    made = {name: one for name, one in said(travelling(file), "repr(function.value)").items() if name != "seen"}
    assert {*file.functions} == {node.id for node in file.graph.nodes if node.name in {*made, "seen"}}
    called = "function.value({'n': 1, 'how': ''}).get('how')"
    call = f"{called} if function.node.kind == 'map' and function.node.name != 'async' else 0"
    found = {name: how for name, how in said(travelling(file), call).items() if how}
    assert found == {name: name for name in FUNCTIONS - {"async"}}


FUNCTIONS = {
    "plain", "closure", "async", "instance", "method", "static", "class", "decorated", "partial", "lambda", "cached",
    "helper", "deep",
}  # fmt: skip


def test_a_worker_runs_the_text_that_the_user_s_process_has_run(tmp_path: Path) -> None:
    written(tmp_path, "WHICH = 'first'\n", "beside.py")
    path = written(tmp_path, f"import beside\n{BEGIN}rows.map(lambda m: beside.WHICH + ' old').write('out')\n")
    pickled = travelling(loading.load(path))
    written(tmp_path, "WHICH = 'second'\n", "beside.py")
    written(tmp_path, path.read_text().replace("old", "new"))
    assert said(pickled, "function.value({})") == {"map": "first old"}
    assert said(travelling(loading.load(path)), "function.value({})") == {"map": "second new"}


def test_a_process_imports_a_job_file_once(tmp_path: Path) -> None:
    path = written(tmp_path, f"import itertools\nn = itertools.count()\n{BEGIN}"
                   "rows.map(lambda m: next(n), name='a').map(lambda m: next(n), name='b').write('out')\n")  # fmt: skip
    file = loading.load(path)
    assert said(travelling(file), "(function.value({}), function.value({}))") == {"a": (0, 1), "b": (2, 3)}


@pytest.mark.parametrize(
    "name", ["json.py", "test.py", "pandas.py", "my.job.v2.py", "with space.py", "prometheus_client.py"]
)
def test_a_job_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    text = f"import json, pandas, prometheus_client\n{BEGIN}rows.map(lambda m: json.dumps(m)).write('out')\n"
    assert said(travelling(loading.load(written(tmp_path, text, name))), "function.value({})") == {"map": "{}"}


@pytest.mark.parametrize("name", ["preview.ipynb", "job.txt", "anabranch.toml", "job", "job.pyc"])
def test_a_file_that_isn_t_python_s_is_no_job_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=rf"/{re.escape(name)} isn't a job file: its name doesn't end in \.py\n"):
        loading.load(written(tmp_path, BEGIN, name))


def test_two_job_files_of_one_name_and_their_helpers_of_one_name_are_apart(tmp_path: Path) -> None:
    functions = []
    for place in ("a", "b"):
        written(tmp_path / place, f"WHERE = '{place}'\n", "beside.py")
        path = written(
            tmp_path / place, f"import beside\n{BEGIN}rows.map(lambda m: beside.WHERE, name='{place}').write('out')\n"
        )
        file = loading.load(path)
        functions += [job_functions.of_node(file.graph[n], file.functions, file.home) for n in file.functions]
    pickled = cloudpickle.dumps([*functions, *functions])  # type: ignore[no-untyped-call]
    assert said(pickled, "function.value({})") == {"a": "a", "b": "b"}
    assert [each.value({}) for each in functions] == ["a", "b"]


def test_a_job_that_was_imported_by_a_test_is_imported_by_workers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(
        tmp_path,
        f"import threading\nLOCK = threading.Lock()\n{BEGIN}rows.map(lambda m: str(LOCK)[:9]).write('out')\n",
        "one_job.py",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("one_job")
    file = loading.of(sys.modules["one_job"].job)
    assert said(travelling(file), "function.value({})") == {"map": "<unlocked"}


def test_in_a_cluster_s_worker_the_job_is_in_another_folder(tmp_path: Path) -> None:
    path = written(tmp_path / "here", f"{BEGIN}rows.map(lambda m: __file__).write('out')\n")
    file = loading.load(path)
    pickled = travelling(file)
    there = tmp_path / "there"
    shutil.move(tmp_path / "here", there)
    code = replace(job_modules.code_in(file.home), home=str(there))
    call = "[__import__('anabranch.job_code.job_modules').job_code.job_modules.enter_from_environment()] and 0"
    assert code.name
    begin = "from anabranch.job_code import job_modules; job_modules.enter_from_environment()\n"
    words = [sys.executable, "-P", "-c", begin + CALLED.replace("CALL", "(function.value({}), function.home)")]
    env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), job_modules.VARIABLE: code.dumped()}
    done = subprocess.run(words, input=pickled, capture_output=True, env=env, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert eval(done.stdout) == {"map": (str(there / "job.py"), str(there))}, call
    (there / "job.py").write_text("another")
    done = subprocess.run(words, input=pickled, capture_output=True, env=env, check=False)
    assert b"isn't the job file that the job was started with" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\nif 'WORKER' in os.environ: raise OSError('port 80 is taken')\n",
         "can't be imported in a Python worker: OSError: port 80 is taken at job.py:2"),
        ("import os, sys\nif 'WORKER' in os.environ: sys.exit(3)\n",
         "can't be imported in a Python worker: SystemExit: 3 at job.py:2"),
        ("import os\ntry: os.environ.get('WORKER') and {}['x']\nexcept KeyError as e: raise OSError('a\\nb') from e\n",
         "Python worker: OSError: a | b at job.py:3 in <module>; caused by KeyError: 'x' at job.py:2"),
        ("import os\nfrom anabranch import Job\nif 'WORKER' in os.environ: other = Job('other')\n",
         "map 'map' (job.py:7) isn't in the job that job.py builds when a Python worker imports it"),
    ],
)  # fmt: skip
def test_a_job_file_that_workers_can_t_import_is_told(tmp_path: Path, text: str, said: str) -> None:
    pickled = travelling(loading.load(written(tmp_path, f"{text}{BEGIN}rows.map(lambda m: m).write('out')\n")))
    told = worker(pickled, "0", WORKER="1").stderr.decode()
    assert said in told
    assert re.search(r"anabranch\.errors\.(Graph|Operator)Error: ", told)


def test_the_causes_of_a_job_file_that_can_t_be_imported_are_told(tmp_path: Path) -> None:
    text = "try:\n    open('/no/config')\nexcept OSError as error:\n    raise RuntimeError('no config') from error\n"
    with pytest.raises(UsageError) as told:
        loading.load(written(tmp_path, text))
    what = told.value.what
    assert "RuntimeError: no config; caused by FileNotFoundError: " in what
    assert what.endswith("'/no/config' at job.py:2 in <module>")
    assert isinstance(told.value.__cause__, RuntimeError), "its trace is wanted, too"


def test_a_job_file_that_builds_another_job_on_workers_is_told(tmp_path: Path) -> None:
    text = (
        "import os\n"
        + BEGIN
        + "if 'WORKER' in os.environ: rows = rows.where('n > 0')\nrows.map(lambda m: m).write('out')\n"
    )
    told = worker(travelling(loading.load(written(tmp_path, text))), "0", WORKER="1").stderr.decode()
    assert "map 'map' (job.py:6) isn't in the job that job.py builds when a Python worker imports it" in told
    assert "let the file build the same job wherever it is imported" in told


@pytest.mark.parametrize(
    ("helper", "text", "fault"),
    [
        ("logging.py", "import logging\n", "job.py:1 imports 'logging', and logging.py next to the job file has"),
        ("queue.py", "from queue import mine\n", "job.py:1 imports 'queue', and queue.py next to the job file"),
        ("numpy.py", "\n\nimport numpy as np\n", "job.py:3 imports 'numpy', and numpy.py next to the job file"),
        ("json/__init__.py", "import json.mine\n", "job.py:1 imports 'json', and json next to the job file"),
    ],
)  # fmt: skip
def test_a_module_that_can_t_be_told_from_python_s_own_is_refused(
    tmp_path: Path, helper: str, text: str, fault: str
) -> None:
    (tmp_path / helper).parent.mkdir(exist_ok=True)
    (tmp_path / helper).write_text("mine = 1\n")
    with pytest.raises(UsageError) as told:
        loading.load(written(tmp_path, text + BEGIN))
    assert str(told.value).startswith(fault)


@pytest.mark.parametrize("name", ["logging.py", "calendar.py", "test/__init__.py"])
def test_a_module_that_the_job_doesn_t_import_may_have_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("raise RuntimeError('nobody imports this')\n")
    text = f"{BEGIN}rows.map(lambda m: __import__('calendar').isleap(2000)).write('out')\n"
    assert said(travelling(loading.load(written(tmp_path, text))), "function.value({})") == {"map": True}


def test_a_job_file_of_another_text_is_another_module(tmp_path: Path) -> None:
    path = written(tmp_path, BEGIN)
    first, again = loading.load(path), loading.load(path)
    before = job_modules.code_in(first.home)
    assert again.graph == first.graph
    written(tmp_path, BEGIN + "\n")
    loading.load(path)
    assert job_modules.code_in(first.home).name != before.name
    assert job_modules.new_code(path).name == job_modules.code_in(first.home).name


def test_what_a_job_file_prints_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loading.load(written(tmp_path, f"print('hello')\n{BEGIN}"))
    assert capsys.readouterr() == ("", "hello\n")


def test_no_compiled_file_is_left_beside_a_job(tmp_path: Path) -> None:
    written(tmp_path, "X = 1\n", "beside.py")
    loading.load(written(tmp_path, f"import beside\n{BEGIN}"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside.py", "job.py"]


LOCK = threading.Lock()


class Client:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def call(self, message: Any) -> Any:
        return message


class Holding(Processor):
    def __init__(self) -> None:
        self.client = Client()


def around(lock: Any) -> Callable[[Any], Any]:
    return lambda message: (lock, message)[1]


def deeper(client: Client) -> Callable[[Any], Any]:
    def inner(message: Any) -> Any:
        return client.call(message)

    return lambda message: [inner(message)]


def using_global(message: Any) -> Any:
    return LOCK, message


def with_default(message: Any, lock: Any = threading.Lock()) -> Any:  # noqa: B008
    return lock, message


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (around(threading.Lock()), "the variable 'lock' around around.<locals>.<lambda> (test_job_modules.py:"),
        (deeper(Client()), "the attribute 'lock' of a Client of the variable 'client' around deeper.<locals>.inner"),
        (Client().call, "the attribute 'lock' of a Client"),
        (partial(lambda lock, message: message, threading.Lock()), "an argument of functools.partial is a "),
        (using_global, "the module's variable 'LOCK', which using_global (test_job_modules.py:"),
        (with_default, "a default of with_default (test_job_modules.py:"),
        (around({"here": [threading.Lock()]}), "an element of the entry 'here' of the variable 'lock' around"),
        (Holding(), "the attribute 'lock' of a Client of the attribute 'client' of a Holding is a _thread.lock"),
    ],
)  # fmt: skip
def test_what_can_t_be_copied_is_named(function: Any, fault: str) -> None:
    job = Job("made")
    rows = job.read("rows", key="k string", schema="n int")
    stream = rows.process(function) if isinstance(function, Processor) else rows.map(function)
    stream.write("out")
    session.carry(job.functions)
    try:
        with pytest.raises(GraphError) as told:
            job_functions.of_node(job.graph[1], job.functions, "")
    finally:
        for module in cloudpickle.list_registry_pickle_by_value():  # type: ignore[no-untyped-call]
            cloudpickle.unregister_pickle_by_value(sys.modules[module])  # type: ignore[no-untyped-call]
    kind = job.graph[1].kind
    assert str(told.value).startswith(f"{kind} '{kind}' (test_job_modules.py:")
    assert f"can't be copied to Python workers: {fault}" in str(told.value)
    assert "_thread.lock" in str(told.value)
    assert "make it inside the function" in str(told.value)


def test_executors_are_told_which_job_file_is_theirs(tmp_path: Path) -> None:
    file = loading.load(written(tmp_path, BEGIN))
    code = json.loads(cluster.shipped({}, file.home)[f"spark.executorEnv.{job_modules.VARIABLE}"])
    assert (code["home"], code["file"], code["sources"]) == ("anabranch-job", "job.py", "")
    assert code["name"] == job_modules.code_in(file.home).name


def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> Any:
    """A module with a job that can't be copied, imported or, if this process has it already, reloaded."""
    text = f"import threading\nLOCK = threading.Lock()\n{BEGIN}rows.map(lambda m: (LOCK, {answer!r})[1]).write('out')\n"
    path = written(tmp_path, text, "one_job.py")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    if "one_job" in sys.modules:
        return importlib.reload(sys.modules["one_job"])
    monkeypatch.syspath_prepend(str(path.parent))
    return importlib.import_module("one_job")


def test_a_job_whose_module_was_reloaded_is_imported_by_workers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []
    for answer in ("first", "second", "second", "third"):
        module = imported(tmp_path, monkeypatch, answer)
        once, again = (travelling(loading.of(module.job)) for _ in range(2))
        assert once == again
        assert once not in sent
        sent.append(once)
        assert said(once, "function.value({})") == {"map": answer}


def test_a_worker_that_was_told_the_job_s_code_follows_when_its_module_is_reloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading.of(imported(tmp_path, monkeypatch, "first").job)
    env = {job_modules.VARIABLE: job_modules.code_in(str(tmp_path)).dumped()}
    pickled = travelling(loading.of(imported(tmp_path, monkeypatch, "second").job))
    call = "function.value({}), function.home"
    begin = "from anabranch.job_code import job_modules; job_modules.enter_from_environment()\n"
    words = [sys.executable, "-P", "-c", begin + CALLED.replace("CALL", f"({call})")]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(words, input=pickled, capture_output=True, env=env, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert eval(done.stdout) == {"map": ("second", str(tmp_path))}


def test_a_reloaded_module_next_to_a_loaded_job_file_has_its_new_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading.load(written(tmp_path, BEGIN))
    assert said(travelling(loading.of(imported(tmp_path, monkeypatch, "first").job)), "function.value({})") == {
        "map": "first"
    }
    text = (tmp_path / "one_job.py").read_text()
    written(tmp_path, text.replace("first", "second"), "one_job.py")
    with pytest.raises(UsageError, match=r"one_job\.py has changed since this process imported it"):
        loading.of(sys.modules["one_job"].job)
    del sys.modules["one_job"]
    with pytest.raises(UsageError, match=r"one_job\.py has changed since this process imported it"):
        loading.of(importlib.import_module("one_job").job)
    job = importlib.reload(sys.modules["one_job"]).job
    assert job.functions[1]({}) == "second"
    assert said(travelling(loading.of(job)), "function.value({})") == {"map": "second"}


def test_a_job_whose_file_can_t_be_read_has_no_hash(tmp_path: Path) -> None:
    class Unreadable:
        def get_data(self, path: str) -> bytes:
            raise PermissionError(path)

    names = {"__name__": "made", "__file__": str(written(tmp_path, BEGIN)), "__loader__": Unreadable()}
    exec(BEGIN, names)
    made = names["job"]
    assert isinstance(made, Job)
    assert made.sha256 == ""
    del names["__loader__"]
    exec(BEGIN, names)
    assert isinstance(names["job"], Job)
    assert names["job"].sha256 != ""


@pytest.mark.parametrize("seen", [False, True])
def test_a_job_whose_file_has_changed_since_its_import_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    module = imported(tmp_path, monkeypatch, "first")
    if seen:
        loading.of(module.job)
    path = tmp_path / "one_job.py"
    text = path.read_text()
    written(tmp_path, text.replace("first", "second"), path.name)
    with pytest.raises(
        UsageError, match=r"one_job\.py has changed since this process imported it\n.*reload\(one_job\)"
    ):
        loading.of(module.job)
    written(tmp_path, text, path.name)
    assert said(travelling(loading.of(module.job)), "function.value({})") == {"map": "first"}
