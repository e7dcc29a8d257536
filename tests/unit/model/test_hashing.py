"""Partitions and buckets of keys: Kafka's and Spark's vectors, the fast path, the spread."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import ConfigError
from anabranch.model import hashing
from anabranch.model.factor import FACTORS

KEYS = st.lists(st.none() | st.binary(max_size=40), max_size=120)


@pytest.mark.parametrize(
    ("key", "expected"),
    [  # of Kafka's UtilsTest.testMurmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, expected: int) -> None:
    assert hashing.murmur2(key) == expected
    assert hashing.partition_for(key, 1000) == (expected & 0x7FFFFFFF) % 1000
    assert hashing.partitions_for(pa.array([key] * 100), 1000).tolist() == [(expected & 0x7FFFFFFF) % 1000] * 100


@given(KEYS, st.integers(1, 1000), st.sampled_from([pa.binary(), pa.large_binary()]))
def test_many_keys_go_where_each_goes(keys: list[bytes | None], count: int, kind: pa.DataType) -> None:
    expected = [-1 if key is None else hashing.partition_for(key, count) for key in keys]
    array = pa.array(keys, kind)
    assert hashing.partitions_for(array, count).tolist() == expected
    assert hashing.partitions_for(array[1:], count).tolist() == expected[1:]
    assert hashing.partitions_for(pa.chunked_array([array, array[2:]]), count).tolist() == expected + expected[2:]


def test_many_keys_over_several_blocks_and_with_a_few_long_ones() -> None:
    random = np.random.default_rng(7)
    keys = [random.bytes(n) for n in random.integers(0, 30, 40_000)] + [b"x" * 10_001, b"", b"y" * 999]
    expected = [hashing.partition_for(key, 97) for key in keys]
    assert hashing.partitions_for(pa.array(keys), 97).tolist() == expected


def test_no_keys_and_only_nulls() -> None:
    assert hashing.partitions_for(pa.chunked_array([], pa.binary()), 4).tolist() == []
    assert hashing.partitions_for(pa.array([], pa.binary()), 4).tolist() == []
    assert hashing.partitions_for(pa.nulls(3, pa.binary()), 4).tolist() == [-1, -1, -1]
    assert hashing.partitions_for(pa.array(["foobar"]), 4).tolist() == [hashing.partition_for(b"foobar", 4)]


@pytest.mark.parametrize(
    ("key", "expected"),
    [  # of Spark 4.3: pmod(xxhash64(key), 1024L) on a binary column
        (b"", 772),
        (b"a", 204),
        (b"21", 316),
        (b"foobar", 153),
        (b"\xff\xfe", 303),
        (b"x" * 1_000_000, 785),
    ],
)
def test_a_bucket_is_sparks(key: bytes, expected: int) -> None:
    assert hashing.bucket(key, 0, 1024) == expected


@given(st.none() | st.binary(), st.integers(0, 2**62), st.sampled_from(FACTORS), st.sampled_from(FACTORS))
def test_buckets_nest(key: bytes | None, offset: int, one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert 0 <= hashing.bucket(key, offset, large) < large
    assert hashing.bucket(key, offset, large) % small == hashing.bucket(key, offset, small)


def test_a_null_key_is_spread_by_its_offset() -> None:
    assert [hashing.bucket(None, offset, 4) for offset in range(6)] == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("factor", [2, 16, 64])
def test_keys_of_one_partition_fill_its_buckets_evenly(factor: int) -> None:
    keys = [b"tail-%d" % n for n in range(40_000)]
    partition = [key for key in keys if hashing.partition_for(key, 8) == 3]
    filled = np.bincount([hashing.bucket(key, 0, factor) for key in partition], minlength=factor)
    expected = len(partition) / factor
    chi_squared = float(((filled - expected) ** 2 / expected).sum())
    freedom = factor - 1
    assert chi_squared < freedom + 4 * (2 * freedom) ** 0.5 + 4  # four standard deviations and some


@pytest.mark.parametrize(
    ("factor", "nearest"),
    [
        (0, "1 and 2"),
        (-4, "1 and 2"),
        (3, "2 and 4"),
        (12, "8 and 16"),
        (100, "64 and 128"),
        (5000, "512 and 1024"),
    ],
)
def test_a_factor_that_is_not_allowed_names_the_nearest(factor: int, nearest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        hashing.check_factor(factor)
    assert f"factor {factor} " in caught.value.what
    assert caught.value.cure.endswith(nearest)


def test_allowed_factors() -> None:
    assert [hashing.check_factor(f) for f in FACTORS] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
