"""Who has a folder on a store without locks: two processes, a store in memory, and time that passes when asked."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from anabranch.container.checkpoint.ownership import EXPIRES, LEASE, RENEW_EVERY, Claim, Ownership
from anabranch.errors import ConfigError, ConflictError, FencedError, UnsupportedFormatError

JOB = "s3a://lanes/root/delays"
FOLDER = f"{JOB}/0-abc/1"


class Store:
    """Files by path. ``exclusive``: it refuses to create a file that is there."""

    def __init__(self, *, exclusive: bool = True) -> None:
        self.exclusive = exclusive
        self.files: dict[str, tuple[str, int]] = {}
        self.calls = 0
        self.is_away = False
        self.between: Callable[[str], object] = lambda call: None
        """Is called before each call, with its name."""

    def _call(self, name: str) -> None:
        between, self.between = self.between, lambda _: None
        between(name)
        self.between = between
        self.calls += 1
        if self.is_away:
            raise OSError("the store is away")

    def create(self, path: str, text: str) -> bool:
        self._call("create")
        if self.exclusive and path in self.files:
            return False
        self.files[path] = text, self.calls
        return True

    def write(self, path: str, text: str) -> None:
        self._call("write")
        self.files[path] = text, self.calls

    def read(self, path: str) -> str:
        self._call("read")
        return self.files[path][0]

    def remove(self, path: str) -> None:
        self._call("remove")
        self.files.pop(path, None)

    def names(self, folder: str) -> dict[str, str]:
        self._call("names")
        begin = f"{folder}/"
        return {path.removeprefix(begin): str(at) for path, (_, at) in self.files.items() if path.startswith(begin)}


class Process:
    """One that may hold folders: ``writes_until`` is when the JVM's lease of the folder ends."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.ended, self.frozen = world, name, False, False
        self.writes_until = 0.0
        claim = Claim(process=name, host="here", machine="m", pid=ord(name), started="1")
        self.own = Ownership(self, JOB, claim, lambda: world.now, world.pass_by, world.has_ended)

    def __getattr__(self, name: str) -> object:
        return getattr(self.world.store, name)

    def lease(self, folder: str, seconds: float) -> None:
        if folder == FOLDER:
            self.writes_until = self.world.now + seconds

    def writes(self) -> bool:
        """Whether what this process would write now would count."""
        try:
            self.own.check(FOLDER)
        except FencedError:
            return False
        return True


class World:
    """Time, the store and the processes. Whoever lives and isn't frozen renews its lease in time."""

    def __init__(self, *, exclusive: bool = True) -> None:
        self.now = 0.0
        self.store = Store(exclusive=exclusive)
        self.processes: dict[str, Process] = {}
        self.known_to_end = True
        self.at: list[tuple[float, Callable[[], object]]] = []
        """What happens at some time."""

    def process(self, name: str) -> Process:
        self.processes[name] = Process(self, name)
        return self.processes[name]

    def has_ended(self, claim: Claim) -> bool:
        return self.known_to_end and self.processes[claim.process].ended

    def pass_by(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            before, self.now = self.now, min(end, self.now + 0.5)
            for due in [each for each in self.at if each[0] <= self.now]:
                self.at.remove(due)
                due[1]()
            if int(before / RENEW_EVERY) < int(self.now / RENEW_EVERY):
                for each in tuple(self.processes.values()):
                    if not (each.ended or each.frozen):
                        each.own.renew()


@pytest.fixture
def world() -> World:
    return World()


def test_an_owner_of_a_newer_version_is_not_taken_for_dead(world: World) -> None:
    claim = f"{JOB}/0-abc/claims-1/0"
    world.store.files[claim] = '{"version": 2, "process": "z", "since": "then"}', 1
    with pytest.raises(UnsupportedFormatError, match=r"a Claim of format version 2 .*\n  upgrade anabranch"):
        world.process("b").own.take(FOLDER)
    assert [path for path in world.store.files if "claims" in path] == [claim]


def test_a_folder_that_a_newer_version_has_given_back_is_taken_at_once(world: World) -> None:
    world.store.files[f"{JOB}/0-abc/claims-1/0"] = '{"version": 2}', 1
    world.store.files[f"{JOB}/0-abc/claims-1/0.released"] = "", 1
    begun = world.now
    world.process("b").own.take(FOLDER)
    assert world.now == begun


def test_an_owner_whose_folder_a_newer_version_has_taken_writes_nothing(world: World) -> None:
    first = world.process("a")
    first.own.take(FOLDER)
    first.frozen = True
    world.pass_by(LEASE + 1)
    world.store.files[f"{JOB}/0-abc/claims-1/1"] = '{"version": 2}', 1
    first.frozen = False
    assert not first.writes()


def test_the_second_of_two_is_refused_as_soon_as_the_first_shows_that_it_lives(world: World) -> None:
    first, second = world.process("a"), world.process("b")
    first.own.take(FOLDER)
    begun = world.now
    with pytest.raises(FencedError, match=r"process 97 on here runs on s3a://lanes/root/delays/0-abc/1") as refused:
        second.own.take(FOLDER)
    assert refused.value.exit_code == 4
    assert world.now - begun <= RENEW_EVERY
    assert first.writes()


def test_of_two_that_find_no_claim_at_once_one_is_refused(world: World) -> None:
    first, second = world.process("a"), world.process("b")
    first.own.take(f"{JOB}/0-other/1")  # from now on what it creates are claims

    def other(call: str) -> None:
        if call == "create":
            world.store.between = lambda _: None
            second.own.take(FOLDER)

    world.store.between = other
    with pytest.raises(FencedError):
        first.own.take(FOLDER)
    assert second.writes()
    assert world.now <= RENEW_EVERY


def test_of_two_that_each_have_one_of_two_folders_one_gets_both(world: World) -> None:
    first, second, other = world.process("a"), world.process("b"), f"{JOB}/1-def/1"
    first.own.take(FOLDER)
    second.own.take(other)

    def fail() -> None:
        with pytest.raises(FencedError):
            second.own.take(FOLDER)
        second.own.end()
        second.ended = True

    world.at.append((7.0, fail))
    first.own.take(other)
    assert first.writes()
    assert second.ended


def test_who_has_ended_on_this_machine_is_followed_at_once(world: World) -> None:
    world.process("a").own.take(FOLDER)
    world.processes["a"].ended = True
    world.process("b").own.take(FOLDER)
    assert world.now == 0


def test_who_has_given_a_folder_back_is_followed_at_once_though_it_lives(world: World) -> None:
    first = world.process("a")
    first.own.take(FOLDER)
    first.own.release(FOLDER)
    world.process("b").own.take(FOLDER)
    assert world.now == 0
    first.own.release(FOLDER)
    assert world.processes["b"].writes()


def test_who_has_ended_in_order_is_followed_at_once_from_another_machine(world: World) -> None:
    world.known_to_end = False
    first = world.process("a")
    first.own.take(FOLDER)
    first.own.end()
    first.ended = True
    world.process("b").own.take(FOLDER)
    assert world.now == 0


def test_who_was_killed_on_another_machine_is_followed_once_it_was_silent_for_long_enough(world: World) -> None:
    world.known_to_end = False
    first = world.process("a")
    first.own.take(FOLDER)
    first.ended = True
    second = world.process("b")
    second.own.take(FOLDER)
    assert EXPIRES <= world.now <= EXPIRES + 1
    assert second.writes()


def test_a_frozen_owner_that_wakes_up_writes_nothing(world: World) -> None:
    first, second = world.process("a"), world.process("b")
    first.own.take(FOLDER)
    first.frozen = True
    second.own.take(FOLDER)
    assert first.writes_until < world.now, "its JVM must have stopped to write before"
    first.frozen = False
    assert not first.writes()
    assert second.writes()


def test_a_frozen_owner_that_nobody_followed_goes_on(world: World) -> None:
    first = world.process("a")
    first.own.take(FOLDER)
    first.frozen = True
    world.pass_by(10 * EXPIRES)
    first.frozen = False
    assert first.writes()
    assert first.writes_until == world.now + LEASE


@pytest.mark.parametrize("stays_awake", [False, True])
@pytest.mark.parametrize("call", ["create", "names"])
def test_an_owner_that_wakes_up_just_as_it_is_followed_stops_before_the_other_writes(
    call: str, stays_awake: bool
) -> None:
    """Whatever it does between any two calls of the other one."""
    for at in range(200):
        world = World()
        first, second = world.process("a"), world.process("b")
        first.own.take(FOLDER)
        first.frozen = True
        seen = 0

        def wake(name: str, first: Process = first, at: int = at) -> None:
            nonlocal seen
            seen += name == call
            if seen == at and name == call:
                first.own.renew()
                first.frozen = not stays_awake

        world.store.between = wake
        try:
            second.own.take(FOLDER)
        except FencedError:
            assert first.writes()
        else:
            assert first.writes_until <= world.now, f"woken at {call} {at}, it may still write"
            assert not first.writes()
        if seen < at:
            return
    raise AssertionError("it never ended")


def test_who_was_frozen_while_it_took_a_folder_learns_that_another_has_taken_it_since(world: World) -> None:
    """Its thread that renews leases is the first to run when it wakes up."""
    world.known_to_end = False
    world.process("a").own.take(FOLDER)
    world.processes["a"].ended = True
    second, third = world.process("b"), world.process("c")
    was_frozen = False

    def freeze(call: str) -> None:
        nonlocal was_frozen
        if was_frozen or f"{JOB}/0-abc/claims-1/1" not in world.store.files:
            return
        second.frozen = was_frozen = True
        third.own.take(FOLDER)
        second.frozen = False
        second.own.renew()

    world.store.between = freeze
    with pytest.raises(FencedError, match="process 99 on here has taken"):
        second.own.take(FOLDER)
    assert was_frozen
    assert second.writes_until <= world.now
    assert third.writes()


@pytest.mark.parametrize("gap", [0.5, RENEW_EVERY])
def test_an_owner_whose_file_is_missing_while_it_is_rewritten_has_not_ended(world: World, gap: float) -> None:
    """Where a rename onto an existing file first deletes that file, and then may fail."""
    world.known_to_end = False
    first = world.process("a")
    first.own.take(FOLDER)
    own = f"{JOB}/processes/a"
    for at in (0.5, RENEW_EVERY + 0.5):
        world.at += [(at, lambda: world.store.files.pop(own)), (at + gap - 0.5, first.own.renew)]
    with pytest.raises(FencedError, match="process 97 on here runs on"):
        world.process("b").own.take(FOLDER)
    assert first.writes()


@pytest.mark.parametrize("late", range(8))
def test_one_that_was_frozen_while_it_watched_a_living_owner_does_not_take_it_for_dead(world: World, late: int) -> None:
    """Wherever between two calls, or a call and the clock, it was frozen."""
    world.known_to_end = False
    first, second = world.process("a"), world.process("b")
    first.own.take(FOLDER)
    answer, seen = second.names, 0

    def names(folder: str) -> dict[str, str]:
        nonlocal seen
        found = answer(folder)
        seen += 1
        if seen == late + 1:
            second.frozen = True
            world.pass_by(2 * EXPIRES)
            second.frozen = False
        return found

    second.names = names
    with pytest.raises(FencedError, match="process 97 on here runs on"):
        second.own.take(FOLDER)
    assert seen > late
    assert first.writes()


def test_who_was_never_silent_looks_at_no_claims(world: World) -> None:
    first = world.process("a")
    first.own.take(FOLDER)
    looked: list[str] = []
    world.store.between = looked.append
    world.pass_by(10 * RENEW_EVERY)
    assert looked == ["write"] * 10


def test_while_the_store_is_away_an_owner_writes_nothing_once_its_lease_is_over(world: World) -> None:
    first = world.process("a")
    first.own.take(FOLDER)
    first.frozen = True  # its thread can't renew anything
    world.store.is_away = True
    world.pass_by(LEASE - 1)
    assert first.writes()
    world.pass_by(2)
    with pytest.raises(OSError, match="away"):
        first.own.check(FOLDER)
    world.store.is_away = False
    assert first.writes()


def test_a_store_without_exclusive_creation_is_refused() -> None:
    world = World(exclusive=False)
    with pytest.raises(ConfigError, match="ignores If-None-Match"):
        world.process("a").own.take(FOLDER)


def test_who_has_to_leave_waits_no_longer(world: World) -> None:
    world.known_to_end = False
    world.process("a").own.take(FOLDER)
    world.processes["a"].ended = True
    with pytest.raises(ConflictError, match="isn't known yet"):
        world.process("b").own.take(FOLDER, lambda: world.now > 3)


def test_a_claim_that_was_not_written_whole_counts_until_nothing_follows_for_long_enough(world: World) -> None:
    world.store.files[f"{JOB}/0-abc/claims-1/0"] = "", 1
    world.process("b").own.take(FOLDER)
    assert world.now >= EXPIRES


def test_taking_a_folder_again_is_no_call_while_the_lease_lasts(world: World) -> None:
    first = world.process("a")
    first.own.take(FOLDER)
    before = world.store.calls
    for _ in range(100):
        first.own.check(FOLDER)
        first.own.take(FOLDER)
    assert world.store.calls == before


@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_no_two_write_at_once(seed: int) -> None:
    dice, world = random.Random(seed), World()
    world.known_to_end = dice.random() < 0.5
    several = [world.process(name) for name in "abcd"]
    for _ in range(30):
        each = dice.choice(several)
        match dice.randrange(6):
            case 0 | 1:
                if not (each.ended or each.frozen):
                    with suppress(FencedError):
                        each.own.take(FOLDER)
            case 2:
                each.frozen = not each.frozen
            case 3:
                world.pass_by(dice.uniform(0, 2 * EXPIRES))
            case 4:
                if not each.frozen:
                    each.own.release(FOLDER)
            case 5:
                each.ended = each.ended or dice.random() < 0.3
        now = [each.name for each in several if not each.ended and each.writes_until > world.now]
        assert len(now) <= 1, f"at {world.now}: {now}"
