"""Remote write, version 1, by hand and fast: what repeats is encoded once, and a push holds many series.

Prometheus takes a hundred million samples this way in minutes. It wants them in order of time across all series, give
or take an hour (half of the two hours of a head chunk range), into an empty server.
Format: https://prometheus.io/docs/specs/prw/remote_write_spec/ and github.com/google/snappy format_description.txt.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import httpx

STALE: Final[float] = struct.unpack("<d", struct.pack("<Q", 0x7FF0_0000_0000_0002))[0]
"""The NaN that says "this series ended here"; every other NaN is a value."""

_HEADERS: Final = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
# Bytes of one push: large enough that requests do not count, small enough to be held many times over.
_PUSH_BYTES: Final = 8_000_000


def encode_labels(labels: Iterable[tuple[str, str]]) -> bytes:
    """Gives the labels of a series, `__name__` among them, as the first part of its message."""
    return b"".join(
        _field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in sorted(labels) if value
    )


def encode_points(points: Sequence[tuple[int, float]]) -> bytes:
    """Gives points of (milliseconds UTC, value) as the second part of a series' message; `STALE` ends the series."""
    bits = struct.pack(f"<{len(points)}d", *(value for _, value in points))
    return b"".join(
        before + bits[8 * index : 8 * index + 8] + behind
        for index, (before, behind) in enumerate(_around(at_ms) for at_ms, _ in points)
    )


@lru_cache(maxsize=100_000)
def _around(at_ms: int) -> tuple[bytes, bytes]:
    """Gives what stands around the eight bytes of a value at a time: a field 2 of two fields, double and int64."""
    behind = b"\x10" + _varint(at_ms)
    return b"\x12" + _varint(9 + len(behind)) + b"\x09", behind


class Writer:
    """Pushes encoded series to a server, some megabytes at once; `samples` counts what it was given.

    Args:
        address: of the server, such as `http://127.0.0.1:9090`.
    """

    def __init__(self, address: str) -> None:
        self.samples = 0
        self._url = f"{address}/api/v1/write"
        self._http = httpx.Client(timeout=120.0, trust_env=False, headers=_HEADERS)
        self._held: list[bytes] = []
        self._bytes = 0

    def add(self, labels: bytes, points: bytes, samples: int) -> None:
        """Adds a series with some of its points, in order of time."""
        length = _varint(len(labels) + len(points))
        self._held += (b"\x0a", length, labels, points)
        self._bytes += len(labels) + len(points)
        self.samples += samples
        if self._bytes >= _PUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Pushes what is held.

        Raises:
            RuntimeError: with the server's own words when it does not take it.
        """
        if not self._held:
            return
        answer = self._http.post(self._url, content=_snappy(b"".join(self._held)))
        if answer.status_code // 100 != 2:
            raise RuntimeError(f"{self._url} answered {answer.status_code}: {answer.text.strip()}")
        self._held, self._bytes = [], 0

    def close(self) -> None:
        """Pushes the rest and ends the connection."""
        self.flush()
        self._http.close()


def count(points: Iterable[tuple[int, float]]) -> int:
    """Gives how many of the points are samples and not ends of series; a replay has no other NaN."""
    return sum(value == value for _, value in points)


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
    return _varint(len(content)) + b"\xfc" + struct.pack("<I", len(content) - 1) + content
