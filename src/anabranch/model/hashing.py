"""Computes a key's partition (by murmur2, like Kafka's Java client), and its bucket in the partition (by xxhash64)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from anabranch.model.factor import check_factor

__all__ = ["bucket", "check_factor", "murmur2", "partition_for", "partitions_for"]

_BUCKET_SEED = 42
_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_TO_POSITIVE = 0x7FFFFFFF

# How many keys are hashed together: few enough for a processor's cache.
_BLOCK = 1 << 15
# For fewer keys than this, a step with numpy takes longer than hashing the keys one by one.
_FEW_ROWS = 32

_Hashes = npt.NDArray[np.uint32]
_Offsets = npt.NDArray[np.int64]


def bucket(key: bytes | None, offset: int, factor: int) -> int:
    """A record's bucket, ``pmod(xxhash64(key, seed 42), factor)``. For a null key, the offset replaces the hash.

    For any other key, Spark's ``pmod(xxhash64(key), factor)`` on a binary column gives the same number.
    """
    if key is None:
        return offset % factor
    unsigned = xxhash.xxh64_intdigest(key, seed=_BUCKET_SEED)
    return (unsigned - ((unsigned >> 63) << 64)) % factor


def murmur2(data: bytes) -> int:
    """The signed 32-bit hash of Kafka's Java ``Utils.murmur2``."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = (int.from_bytes(data[at : at + 4], "little") * _M) & _MASK
        h = ((h * _M) & _MASK) ^ (((k ^ (k >> 24)) * _M) & _MASK)
    if whole < length:
        h = ((h ^ int.from_bytes(data[whole:], "little")) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    h ^= h >> 15
    return h - ((h >> 31) << 32)


def partition_for(key: bytes, count: int) -> int:
    """The partition, out of ``count``, that the default partitioner of Kafka's Java client chooses for a key."""
    return (murmur2(key) & _TO_POSITIVE) % count


def partitions_for(keys: pa.Array | pa.ChunkedArray, count: int) -> npt.NDArray[np.int32]:
    """The results of :func:`partition_for` for many keys at once; -1 for a null key.

    ``keys`` is an Arrow array, whole or chunked, of a binary or string type.
    """
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    return np.concatenate([np.empty(0, np.int32), *(_partitions_of(chunk, count) for chunk in chunks)])


def _partitions_of(keys: pa.Array, count: int) -> npt.NDArray[np.int32]:
    if not len(keys):
        return np.empty(0, np.int32)
    keys = keys.cast(pa.large_binary())
    _, ends, values = keys.buffers()
    bounds = np.frombuffer(ends, np.int64, len(keys) + 1, keys.offset * 8)
    data = np.frombuffer(b"" if values is None else values, np.uint8)
    hashes = np.concatenate([_murmur2_of(data, bounds[at : at + _BLOCK + 1]) for at in range(0, len(keys), _BLOCK)])
    partitions = ((hashes & np.uint32(_TO_POSITIVE)) % np.uint32(count)).astype(np.int32)
    if keys.null_count:
        partitions[keys.is_null().to_numpy(zero_copy_only=False)] = -1
    return partitions


def _murmur2_of(data: npt.NDArray[np.uint8], bounds: _Offsets) -> _Hashes:
    """Unsigned hashes of keys. Key n is the bytes of ``data`` from ``bounds[n]`` to ``bounds[n + 1]``."""
    padded = np.concatenate([data[bounds[0] : bounds[-1]], np.zeros(4, np.uint8)])
    word_at = np.ndarray((len(padded) - 3,), "<u4", padded.data, strides=(1,))
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)
    words = lengths >> 2
    hashes = lengths.astype(np.uint32) ^ np.uint32(_SEED)

    rows: npt.NDArray[np.int64] | slice = slice(None)
    shortest, longest, left = int(words.min()), int(words.max()), len(words)
    for step in range(longest):
        if step >= shortest:
            rows = np.flatnonzero(words > step) if isinstance(rows, slice) else rows[words[rows] > step]
            left = len(rows)
        if left < _FEW_ROWS:
            break
        hashes[rows] = (hashes[rows] * np.uint32(_M)) ^ _mixed(word_at[starts[rows] + 4 * step])

    rest = (lengths & 3).astype(np.uint32)
    tails = word_at[starts + 4 * words] & ((np.uint32(1) << (rest * np.uint32(8))) - np.uint32(1))
    hashes = np.where(rest > 0, (hashes ^ tails) * np.uint32(_M), hashes)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(_M)
    hashes ^= hashes >> np.uint32(15)
    if left < _FEW_ROWS:
        for row in np.arange(len(words))[rows]:
            hashes[row] = murmur2(padded[starts[row] :][: lengths[row]].tobytes()) & _MASK
    return hashes


def _mixed(k: _Hashes) -> _Hashes:
    k = k * np.uint32(_M)
    k ^= k >> np.uint32(24)
    return k * np.uint32(_M)
