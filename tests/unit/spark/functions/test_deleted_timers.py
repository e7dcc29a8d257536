"""A due timer that another timer has deleted isn't called; one that was registered again is."""

from __future__ import annotations

from anabranch.spark.functions.deleted_timers import DeletedTimers


def test_a_deleted_timer_is_one_of_its_key_until_it_is_registered_again() -> None:
    deleted = DeletedTimers()
    deleted.note(0, b"a", {5: False, 6: True, 7: False})
    assert [at for at in range(10) if deleted.has(0, b"a", at)] == [5, 7]
    assert not deleted.has(0, b"b", 5)
    assert not deleted.has(1, b"a", 5)
    deleted.note(0, b"b", {5: True})
    deleted.note(0, b"a", {7: True, 8: True})
    assert [at for at in range(10) if deleted.has(0, b"a", at)] == [5]
    deleted.note(0, b"a", {7: False})
    assert deleted.has(0, b"a", 7)
