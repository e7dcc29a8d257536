"""The headings that messages advise to write into anabranch.toml."""

from __future__ import annotations

import tomllib

import pytest

from anabranch.config.headings import heading
from anabranch.systems.embedded import start


@pytest.mark.parametrize("name", ["flights", "late-flights_2", "eu.flights", "eu flights", 'a"b\\c', "flüge", ""])
def test_toml_reads_a_heading_as_the_section_of_that_name(name: str) -> None:
    text = f'{heading("streams", name)}\non_data_loss = "earliest"\n'
    assert tomllib.loads(text) == {"streams": {name: {"on_data_loss": "earliest"}}}


def test_a_name_is_quoted_only_if_it_must_be() -> None:
    assert heading("streams", "late-flights_2") == "[streams.late-flights_2]"
    assert heading("outputs", "eu.flights") == '[outputs."eu.flights"]'


def test_advice_on_a_stream_whose_name_has_a_dot_can_be_copied() -> None:
    advice = start.gone("eu.flights, partition 0", 3, 5).cure
    assert 'set [streams."eu.flights"] on_data_loss = "earliest"; to keep more' in advice
