"""Of messages that come again and again, which are passed on."""

from __future__ import annotations

from anabranch.throttle import Throttled


def test_a_message_is_followed_by_silence_but_that_it_is_over_is_always_told() -> None:
    told: list[str] = []
    moments = [0.0, 9.9, 10.0, 10.1, 19.9, 20.0]
    say = Throttled(told.append, 10.0, iter(moments).__next__)
    for text in ("a", "b", "c", "", "d", "e"):
        say(text)
    assert told == ["a", "c", "", "e"]
