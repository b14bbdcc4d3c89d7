"""Remote write, version 1, by hand: protobuf in a snappy block, with stale markers.

Prometheus wants its samples in order of time across all series, into an empty server; VictoriaMetrics takes any order.
Format: https://prometheus.io/docs/specs/prw/remote_write_spec/ and github.com/google/snappy format_description.txt.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import httpx

# The NaN that says "this series ended here"; every other NaN is a value.
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0_0000_0000_0002))[0]

HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}

Labels = Mapping[str, str]
Points = Sequence[tuple[int, float]]
TimeSeries = tuple[Labels, Points]

# Prometheus takes samples up to an hour behind its newest, half of a head chunk range of two hours.
SLICE_MS = 30 * 60_000

# What an ordinary NaN is in Prometheus; Python's own differs by its sign on some machines.
_NAN = struct.pack("<Q", 0x7FF8_0000_0000_0001)
_STALE = struct.pack("<Q", 0x7FF0_0000_0000_0002)


def is_stale(value: float) -> bool:
    """Tells whether a value is the marker, bit by bit: it compares equal to nothing."""
    return math.isnan(value) and struct.pack("<d", value) == _STALE


def encode(series: Iterable[TimeSeries]) -> bytes:
    """Gives the body of one request: a snappy block of a WriteRequest.

    Args:
        series: labels with `__name__`, and points of (milliseconds UTC, value) in order of time.
    """
    return _snappy(b"".join(_field(1, _time_series(labels, points)) for labels, points in series))


def send(url: str, series: Iterable[TimeSeries], timeout_s: float = 60.0) -> None:
    """Pushes series to a remote-write address, such as `http://127.0.0.1:9090/api/v1/write`.

    Raises:
        AssertionError: with the server's own words when it does not take them.
    """
    answer = httpx.post(url, content=encode(series), headers=HEADERS, timeout=timeout_s, trust_env=False)
    assert answer.status_code // 100 == 2, f"{url} answered {answer.status_code}: {answer.text.strip()}"


def in_slices(series: Iterable[TimeSeries], slice_ms: int = SLICE_MS) -> Iterator[list[TimeSeries]]:
    """Cuts whole series into pushes that are in order of time, one a slice; a slice without samples has none.

    Args:
        series: labels with `__name__`, and all points of (milliseconds UTC, value) in order of time.
        slice_ms: milliseconds of one push.
    """
    slices: dict[int, list[TimeSeries]] = {}
    for labels, points in series:
        for number, inside in groupby(points, key=lambda point: point[0] // slice_ms):
            slices.setdefault(number, []).append((labels, list(inside)))
    for number in sorted(slices):
        yield slices[number]


def _time_series(labels: Labels, points: Points) -> bytes:
    # The receiver may rely on sorted names.
    named = (_field(1, _field(1, key.encode()) + _field(2, labels[key].encode())) for key in sorted(labels))
    return b"".join(named) + b"".join(_field(2, _sample(at_ms, value)) for at_ms, value in points)


def _sample(at_ms: int, value: float) -> bytes:
    bits = struct.pack("<d", value)
    if math.isnan(value) and bits != _STALE:
        bits = _NAN
    return b"\x09" + bits + b"\x10" + _varint(at_ms)


def _field(number: int, content: bytes) -> bytes:
    """Gives a field of bytes: wire type 2."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    # A negative int64 is sent as its two's complement of ten bytes.
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _snappy(content: bytes) -> bytes:
    """Gives a block of one literal, uncompressed: its length, the tag of a literal with a 32-bit length, the bytes."""
    if not content:
        return b"\x00"
    return _varint(len(content)) + b"\xfc" + struct.pack("<I", len(content) - 1) + content
