"""Of messages that come again and again, which are passed on."""

from __future__ import annotations

from anabranch.throttle import LastTold, Throttled


def test_a_message_is_followed_by_silence_but_that_it_is_over_is_always_told() -> None:
    told: list[str] = []
    moments = [0.0, 9.9, 10.0, 10.1, 19.9, 20.0]
    say = Throttled(told.append, 10.0, iter(moments).__next__)
    for text in ("a", "b", "c", "", "d", "e"):
        say(text)
    assert told == ["a", "c", "", "e"]


def test_what_fails_again_and_again_is_told_once_for_each_reason_until_it_is_over() -> None:
    told = LastTold()
    tried = [("a", 1), ("a", 1), ("a", 2), ("b", 1), ("a", 1), ("", 1), ("a", 1), ("a", 2)]
    found = [told.is_new(text, about) if text else told.over(about) for text, about in tried]
    assert found == [True, False, True, True, True, None, True, False]
    told.keep(lambda about: about == 1)
    assert [told.is_new("a", about) for about in (1, 2)] == [False, True]
