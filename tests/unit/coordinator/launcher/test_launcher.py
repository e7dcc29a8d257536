"""The local launcher with small processes: they live on, are found again, are ended, and what fails is told."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from anabranch.cli import coordinator as verb
from anabranch.cli import progress, waiting
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.launcher.launch_policy import LIMIT, LONGEST_PAUSE, Crew, ProcessEnd
from anabranch.coordinator.launcher.launcher import Launcher
from anabranch.coordinator.launcher.processes import Processes
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, ConflictError, StoreUnavailableError
from anabranch.model.document import compact
from anabranch.protocol.container import Registration
from tests.unit.coordinator.helpers import Clock, lane, plan
from tests.unit.coordinator.programs import PROGRAM

JOB = "delays"
RESTS = "import time; time.sleep(60)"
FAILS = "import sys; sys.exit('chatter\\nerror: there is no Java\\n  install one')"
WARM = msgspec.structs.replace(PROGRAM, settings={"job": {"warm_containers": 1}})


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Processes]]:
    made: list[Processes] = []

    def processes(code: str) -> Processes:
        made.append(Processes(tmp_path, lambda job: [sys.executable, "-c", code, job], dict(os.environ)))
        return made[-1]

    yield processes
    for lock in tmp_path.glob("*/*.lock"):
        for one in made:
            one.kill(lock.parent.name, lock.stem)
            until(lambda one=one, lock=lock: one.ended(lock.parent.name, lock.stem))  # type: ignore[misc]


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def pid_of(processes: Processes, execution: str) -> int:
    pid = processes.pid(JOB, execution)
    assert pid is not None
    return pid


def test_a_process_knows_its_execution_and_what_it_says_is_kept(make: Callable[[str], Processes]) -> None:
    code = "import os, sys; print(os.environ['EXECUTION_ENV_CONTAINER_ID'], sys.argv[1], flush=True); sys.exit(4)"
    processes = make(code)
    one, other = processes.start(JOB), processes.start(JOB)
    assert one != other
    until(lambda: processes.log_of(JOB, one).read_text())
    assert processes.log_of(JOB, one).read_text() == f"{one} {JOB}\n"
    assert processes.log_of(JOB, one).stat().st_mode & 0o077 == 0
    endings: list[ProcessEnd | None] = []
    until(lambda: endings.append(processes.ended(JOB, one)) or endings[-1])
    assert endings[-1] == ProcessEnd(4, f"{one} {JOB}")


def test_its_error_is_told_without_what_it_said_before(make: Callable[[str], Processes]) -> None:
    processes = make(FAILS)
    execution = processes.start(JOB)
    endings: list[ProcessEnd | None] = []
    until(lambda: endings.append(processes.ended(JOB, execution)) or endings[-1])
    assert endings[-1] == ProcessEnd(1, "there is no Java | install one")


def test_a_process_is_beyond_the_reach_of_ctrl_c_and_ends_at_sigterm(make: Callable[[str], Processes]) -> None:
    processes = make(RESTS)
    execution = processes.start(JOB)
    pid = pid_of(processes, execution)
    assert os.getsid(pid) == os.getpgid(pid) == pid
    assert processes.ended(JOB, execution) is None
    processes.end(JOB, execution)
    until(lambda: processes.ended(JOB, execution) == ProcessEnd(-signal.SIGTERM))


STARTER = """
import os, sys
from pathlib import Path
from anabranch.coordinator.launcher.processes import Processes
processes = Processes(Path(sys.argv[1]), lambda job: [sys.executable, "-c", sys.argv[2]], dict(os.environ))
print(processes.start("delays"), flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_process_outlives_a_launcher_that_is_killed_and_is_found_by_the_next(
    make: Callable[[str], Processes], tmp_path: Path
) -> None:
    starter = subprocess.run([sys.executable, "-c", STARTER, str(tmp_path), RESTS], capture_output=True, text=True)
    assert starter.returncode == -signal.SIGKILL, starter.stderr
    execution = starter.stdout.strip()
    processes = make(RESTS)
    assert processes.found() == {JOB: {execution: True}}
    processes.end(JOB, execution)
    until(lambda: processes.ended(JOB, execution) is not None)
    assert processes.found() == {JOB: {execution: False}}
    assert processes.ended(JOB, execution) == ProcessEnd(None)


def test_a_lock_that_a_child_has_inherited_says_nothing_once_the_process_is_gone(
    make: Callable[[str], Processes], tmp_path: Path
) -> None:
    careless = "import os, time; pid = os.fork(); time.sleep(60) if pid == 0 else print(pid, flush=True)"
    processes = make(careless)
    execution = processes.start(JOB)
    until(lambda: processes.log_of(JOB, execution).read_text().endswith("\n"))
    until(
        lambda: processes.ended(JOB, execution) == ProcessEnd(0, processes.log_of(JOB, execution).read_text().strip())
    )
    assert not make(RESTS).lives(JOB, execution)
    os.kill(int(processes.log_of(JOB, execution).read_text()), signal.SIGKILL)


def test_a_process_is_killed_with_its_children(make: Callable[[str], Processes]) -> None:
    code = "import subprocess; child = subprocess.Popen(['sleep', '60']); print(child.pid, flush=True); child.wait()"
    processes = make(code)
    execution = processes.start(JOB)
    until(lambda: processes.log_of(JOB, execution).read_text().endswith("\n"))
    child = int(processes.log_of(JOB, execution).read_text())
    processes.kill(JOB, execution)
    until(lambda: processes.ended(JOB, execution) is not None)
    until(lambda: _is_gone(child))


def test_a_process_of_another_machine_is_not_signalled(make: Callable[[str], Processes], tmp_path: Path) -> None:
    processes = make(RESTS)
    execution = processes.start(JOB)
    pid = pid_of(processes, execution)
    processes.log_of(JOB, execution).with_suffix(".lock").write_text(f"{pid} elsewhere\n")
    other = make(RESTS)
    other.kill(JOB, execution)
    assert other.found() == {JOB: {execution: True}}
    time.sleep(0.3)
    assert processes.ended(JOB, execution) is None


def _not_permitted(pid: int, number: int) -> None:
    if number:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def _no_more_files(*_: object, **__: object) -> str:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize(
    ("where", "name", "broken", "number"),
    [(os, "kill", _not_permitted, errno.EPERM), (Path, "read_text", _no_more_files, errno.EMFILE)],
)
def test_a_signal_that_cannot_be_sent_does_not_count_as_sent(
    make: Callable[[str], Processes],
    monkeypatch: pytest.MonkeyPatch,
    where: object,
    name: str,
    broken: Callable[..., object],
    number: int,
) -> None:
    execution = make(RESTS).start(JOB)
    restarted = make(RESTS)  # it has to look up the process's id
    with monkeypatch.context() as patched:
        patched.setattr(where, name, broken)
        with pytest.raises(OSError, match=os.strerror(number)) as caught:
            restarted.end(JOB, execution)
    assert caught.value.errno == number
    restarted.end(JOB, execution)
    until(lambda: restarted.ended(JOB, execution) is not None)
    restarted.end(JOB, execution)
    restarted.kill(JOB, execution)


def test_a_number_of_logs_is_kept_and_those_of_the_living_always(
    tmp_path: Path, make: Callable[[str], Processes]
) -> None:
    resting, ending = make(RESTS), make("pass")
    resting.now = lambda: 0.0
    oldest = resting.start(JOB)
    for n in range(30):
        ending.now = lambda n=n: 1000.0 + n
        execution = ending.start(JOB)
        until(lambda: ending.ended(JOB, execution) is not None)  # noqa: B023
    logs = sorted(path.stem for path in (tmp_path / JOB).glob("*.log"))
    assert len(logs) == 20 + 1
    assert (logs[0], logs[-1]) == (oldest, execution)
    assert sorted(path.stem for path in (tmp_path / JOB).glob("*.lock")) == logs


CHATTERS = """
import os, pathlib, time
older = pathlib.Path(os.readlink("/proc/self/fd/1") + ".1")
for number in range(40):
    while number == 20 and not older.exists():
        time.sleep(0.01)
    print(number, "x" * 1000, flush=True)
time.sleep(60)
"""


def test_a_log_that_grows_large_is_moved_aside_while_the_process_writes(
    make: Callable[[str], Processes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.coordinator.launcher.processes.LOG_BYTES", 19_000)
    processes = make(CHATTERS)
    execution = processes.start(JOB)
    path = processes.log_of(JOB, execution)
    until(lambda: path.read_text().count("\n") == 20)
    processes.trim(JOB, execution)
    older = path.with_suffix(".log.1")
    assert older.read_text().count("\n") == 20
    assert older.stat().st_mode & 0o077 == 0
    until(lambda: "\n39 " in path.read_text())
    assert path.stat().st_size < 21_000, "it is as long as it was, with a hole"
    assert path.read_text()[0] != "\0"
    processes.trim(JOB, execution)
    assert older.read_text().split()[-2] == "39"
    processes.trim(JOB, "20260101T000000-none")


def test_a_log_that_cannot_be_cut_is_told_once_until_it_has_grown(
    make: Callable[[str], Processes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.coordinator.launcher.processes.LOG_BYTES", 1000)
    processes = make(RESTS)
    path = processes.log_of(JOB, processes.start(JOB))
    older = path.with_suffix(".log.1")
    older.mkdir()
    path.write_text("x" * 1001)
    with capture_logs() as lines:
        for _ in range(3):
            processes.trim(JOB, path.stem)
    assert [line["event"] for line in lines] == ["a container's log can't be cut"]
    older.rmdir()
    processes.trim(JOB, path.stem)
    assert not older.exists()
    path.write_text("x" * 1102)
    processes.trim(JOB, path.stem)
    assert older.stat().st_size == 1102


@pytest.mark.parametrize("gone", [False, True])
def test_a_log_that_could_not_be_cut_and_was_emptied_is_cut_as_any_other(
    make: Callable[[str], Processes], monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    monkeypatch.setattr("anabranch.coordinator.launcher.processes.LOG_BYTES", 1000)
    processes = make(RESTS)
    path = processes.log_of(JOB, processes.start(JOB))
    older = path.with_suffix(".log.1")
    older.mkdir()
    path.write_text("x" * 50_000)
    processes.trim(JOB, path.stem)
    older.rmdir()
    path.unlink() if gone else path.write_text("")
    processes.trim(JOB, path.stem)
    path.write_text("x" * 49_000)
    processes.trim(JOB, path.stem)
    assert older.stat().st_size == 49_000


def test_a_job_whose_containers_cannot_be_started_keeps_no_other_job_from_its_turn(
    make: Callable[[str], Processes], tmp_path: Path
) -> None:
    job = Launched(make(RESTS))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "99999999T999999-a.log").touch()  # not a time
    job.coordinator.start(plan("bad", (lane("bad-1", job="bad"),), program=PROGRAM))
    with capture_logs() as lines:
        for _ in range(3):
            job.turn()
    what = "the job's containers can't be started or ended"
    assert [(line["event"], line["job"]) for line in lines if line["log_level"] == "error"] == [
        (f"{what}; it is tried again", "bad")
    ]
    assert [event.what for event in job.coordinator.events("bad") if event.kind == "other"] == [what]
    assert [warning.partition(": ")[0] for warning in job.coordinator.status("bad").warnings] == [what]
    assert job.coordinator.status(JOB).warnings == ()
    assert len(job.living) == 2
    (tmp_path / "bad" / "99999999T999999-a.log").unlink()
    job.turn()
    assert job.coordinator.status("bad").warnings == ()


@pytest.mark.parametrize("method", ["end", "kill"])
def test_a_process_that_cannot_be_signalled_is_signalled_again_and_keeps_no_other_from_it(
    make: Callable[[str], Processes], monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fails(job: str, execution: str) -> None:
        if execution == unlucky:
            raise OSError(24, "Too many open files")
        works(job, execution)

    job = Launched(make("import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"))
    job.turn()
    until(lambda: all(job.processes.log_of(JOB, one).read_text() for one in job.living))
    unlucky, lucky = job.living
    works = getattr(job.processes, method)
    monkeypatch.setattr(job.processes, method, fails)
    job.coordinator.stop(JOB)
    assert job.coordinator.release(JOB)
    with capture_logs() as lines:
        job.turn()
        for _ in range(2):
            job.clock.at += 80.0
            job.turn()
            job.turn()
    until(lambda: job.living == [unlucky])
    assert [line["event"] for line in lines] == ["the job's containers can't be started or ended; it is tried again"]
    events = [event.what for event in job.coordinator.events(JOB, 1000)]
    said = "told container process {} to end" if method == "end" else "killed container process {}"
    assert (said.format(lucky) in events, said.format(unlucky) in events) == (True, False)
    monkeypatch.setattr(job.processes, method, works)
    for _ in range(2):
        job.turn()
        job.clock.at += 80.0
    until(lambda: job.turn() or not job.launcher.crews)
    assert said.format(unlucky) in [event.what for event in job.coordinator.events(JOB, 1000)]


def test_what_can_t_be_started_has_failed(tmp_path: Path) -> None:
    processes = Processes(tmp_path, lambda job: ["/no/such/python"], {})
    found = processes.ended(JOB, processes.start(JOB))
    assert found is not None
    assert (found.code, "No such file" in found.said) == (None, True)


def test_the_logs_can_be_in_a_folder_whose_name_is_not_in_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    job = Launched(Processes(folder, lambda job: [sys.executable, "-c", ""], dict(os.environ)))
    job.turn()
    status = job.coordinator.status(JOB)
    assert status.launching is not None
    assert status.launching.logs == f"{tmp_path}/caf?/{JOB}"
    assert compact(status)
    until(lambda: not job.living)


class Launched:
    """A coordinator with a job, and a launcher, whose clock is moved by hand."""

    def __init__(self, processes: Processes) -> None:
        self.clock = Clock()
        self.coordinator = Coordinator(Store("sqlite://"), self.clock, lease=10.0, now=lambda: 7.0, grace=2.0)
        self.coordinator.start(plan(JOB, program=WARM))
        self.processes = processes
        self.launcher = Launcher(processes, self.clock)

    def turn(self) -> None:
        self.launcher.turn(self.coordinator)

    @property
    def news(self) -> list[str]:
        found = [event for event in self.coordinator.events(JOB, 1000) if event.who == "launcher"]
        return [" ".join(word for word in event.what.split() if not word.startswith("2")) for event in found]

    @property
    def crew(self) -> Crew:
        assert self.launcher.crews is not None
        return self.launcher.crews[JOB]

    def ask(self, execution: str, warm: bool = True) -> None:
        me = Registration(job=JOB, execution=execution, host="here", pid=5, instance=execution, warm=warm)
        self.coordinator.register(me)

    @property
    def living(self) -> list[str]:
        return sorted(execution for execution, lives in self.processes.found().get(JOB, {}).items() if lives)


def test_where_containers_can_t_be_started_status_says_so_and_start_begins_anew(
    make: Callable[[str], Processes],
) -> None:
    job = Launched(make(FAILS))
    for _ in range(LIMIT):
        with pytest.raises(ConflictError, match="is running already"):
            job.coordinator.resume(JOB)
        job.clock.at += LONGEST_PAUSE
        until(lambda: job.turn() or not job.crew.members)
    status = job.coordinator.status(JOB)
    assert status.state == "starting"
    assert status.launching is not None
    assert status.launching.gave_up
    with pytest.raises(AnabranchError, match="can't be started: exit code 1") as caught:
        waiting.until(job.coordinator, JOB, {"running"}, 30.0)  # type: ignore[arg-type]  # it has the same methods
    assert "anabranch start delays tries again" in caught.value.cure
    (said,) = progress.staffing(status)
    assert "exit code 1: there is no Java | install one" in said
    assert "anabranch start delays tries again" in said
    assert job.news.count(f"gave up starting containers after {LIMIT} failures in a row") == 1
    assert job.news.count("container process ended") == 2 * LIMIT
    before = len(job.news)
    job.turn()
    assert len(job.news) == before

    assert job.coordinator.resume(JOB) == 1
    assert job.coordinator.status(JOB).launching is None
    job.turn()
    assert len(job.news) == before + 2
    with pytest.raises(ConflictError, match="is running already"):
        job.coordinator.resume(JOB)


def test_containers_are_started_again_and_those_that_stand_by_count(make: Callable[[str], Processes]) -> None:
    job = Launched(make(RESTS))
    job.turn()
    assert job.news == ["started a container, process"] * 2
    first, second = job.living
    job.ask(first)
    job.ask(second, warm=False)
    assert progress.staffing(job.coordinator.status(JOB))[0] == "standing by: 1, 1 still warming up"
    job.ask(second)
    status = job.coordinator.status(JOB)
    assert ([one.container for one in status.containers], status.standing_by) == (["delays:0:1"], 1)
    assert progress.staffing(status)[0] == "standing by: 1"
    os.kill(pid_of(job.processes, first), signal.SIGKILL)
    until(lambda: job.turn() or job.crew.failures)
    assert len(job.living) == 1
    job.clock.at += 2.0
    job.turn()
    assert job.news[2:] == ["container process ended", "restarted a container, process"]
    assert len(job.living) == 2

    job.launcher = Launcher(job.processes, job.clock)  # as after a restart of the coordinator
    job.coordinator.abandon()
    assert job.coordinator.adopt(JOB)
    for _ in range(60):
        job.clock.at += 0.5
        for execution in job.living:
            job.ask(execution)
        job.turn()
    assert len(job.living) == 2
    assert len(job.news) == 4


def test_one_that_died_while_no_coordinator_ran_is_not_counted_though_its_seat_is_not_free_yet(
    make: Callable[[str], Processes],
) -> None:
    job = Launched(make(RESTS))
    job.turn()
    first, second = job.living
    job.ask(first)
    os.kill(pid_of(job.processes, first), signal.SIGKILL)
    until(lambda: job.living == [second])
    job.launcher = Launcher(job.processes, job.clock)
    job.coordinator.abandon()
    assert job.coordinator.adopt(JOB)
    job.turn()
    assert len(job.living) == 1
    job.clock.at += 10.5
    assert [one.gone for one in job.coordinator.status(JOB).containers] == [None]
    job.turn()
    assert len(job.living) == 2


def test_those_of_an_adopted_job_that_others_started_have_a_lease_to_be_heard(make: Callable[[str], Processes]) -> None:
    job = Launched(make(RESTS))
    job.coordinator.abandon()
    assert job.coordinator.adopt(JOB)
    job.turn()
    assert job.living == []
    job.clock.at += 9.0
    job.ask("x")
    job.clock.at += 1.0
    job.turn()
    assert len(job.living) == 1


def test_containers_of_a_job_that_has_ended_are_ended(make: Callable[[str], Processes]) -> None:
    job = Launched(make("import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"))
    job.turn()
    until(lambda: all(job.processes.log_of(JOB, one).read_text() for one in job.living))
    job.coordinator.stop(JOB)
    assert job.coordinator.release(JOB)
    job.turn()
    for _ in range(2):
        assert len(job.living) == 2
        job.clock.at += 80.0
        job.turn()
    until(lambda: not job.living)
    until(lambda: job.turn() or not job.launcher.crews)
    assert job.news[2:4] == ["told container process to end"] * 2
    assert job.news[4:6] == ["killed container process"] * 2


def test_what_happened_is_told_once_the_store_is_back(
    make: Callable[[str], Processes], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Launched(make(RESTS))
    with monkeypatch.context() as away:
        away.setattr(job.coordinator, "launched", lambda *_: (_ for _ in ()).throw(StoreUnavailableError("away")))
        for _ in range(2):
            with pytest.raises(StoreUnavailableError):
                job.turn()
    job.turn()
    assert job.news == ["started a container, process"] * 2


def test_no_token_is_handed_over_but_where_it_is_and_settings_of_jobs_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH__JOB__FACTOR", "2")
    monkeypatch.setenv("ANABRANCH__COORDINATOR__PERIOD", "1 second")
    monkeypatch.setenv("ANABRANCH__SPARK__MEMORY", "1g")
    settings = CoordinatorSettings(token="opensesame", logs=tmp_path)
    processes = verb.launcher_of(settings, "http://a:1,http://b:2", Path("some.toml")).processes
    command = processes.command(JOB)
    assert "opensesame" not in " ".join(command)
    assert command[-5:] == [JOB, "--coordinator", "http://a:1,http://b:2", "--config", str(Path("some.toml").resolve())]
    assert "opensesame" not in processes.environment.values()  # containers look where this process has looked
    assert processes.environment["ANABRANCH__COORDINATOR__PERIOD"] == "1 second"
    assert processes.environment["ANABRANCH__SPARK__MEMORY"] == "1g"
    assert "ANABRANCH__JOB__FACTOR" not in processes.environment
    made = CoordinatorSettings(token_file=tmp_path / "token", logs=tmp_path)
    environment = verb.launcher_of(made, "http://a:1", None).processes.environment
    assert environment["ANABRANCH__COORDINATOR__TOKEN"] == f"${{file:{tmp_path}/token}}"


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return True
