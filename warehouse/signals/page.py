"""Reads one page in the Prometheus text format, through the official parser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.parser import text_fd_to_metric_families

from warehouse.errors import BadInput

MAX_PAGE_BYTES = 64 << 20
_EXCERPT = 80

# The parser appends `_total` to the samples of a counter whose name lacks it; names are wanted as they stand.
_COUNTER_TYPE = re.compile(r"^(\s*#\s*TYPE\s+\S+\s+)counter\s*$")


class Raw(NamedTuple):
    """One sample as its exporter wrote it; the value is a float, as Prometheus keeps it."""

    name: str
    labels: Mapping[str, str]
    value: float


def read_page(content: bytes, where: str) -> list[Raw]:
    """Gives the samples of a page in its order; a page without any is empty.

    A page is read whole or not at all: after one bad line nothing else on it can be trusted.

    Args:
        content: the page as it came.
        where: its name in messages.

    Raises:
        BadInput: naming the line and why the official parser refuses it.
    """
    if len(content) > MAX_PAGE_BYTES:
        raise BadInput(f"{where}: is longer than {MAX_PAGE_BYTES} bytes; is this a page of an exporter?")
    lines = content.splitlines()
    at = 0

    def counted() -> Iterator[str]:
        nonlocal at
        for at, line in enumerate(lines, 1):  # noqa: B007  # where the parser stopped
            yield _COUNTER_TYPE.sub(r"\1gauge", line.decode("utf-8"))

    try:
        # The parser asks for nothing but lines, one after the other.
        families = text_fd_to_metric_families(counted())  # type: ignore[arg-type]
        return [Raw(s.name, s.labels, float(s.value)) for family in families for s in family.samples]
    except UnicodeDecodeError as exc:
        raise BadInput(f"{where} line {at}: is not UTF-8 at byte {exc.start + 1} of the line") from exc
    except (ValueError, IndexError, KeyError) as exc:
        line = lines[at - 1].decode("utf-8", "replace").strip()
        said = _reason(exc, line)
        raise BadInput(f"{where} line {at}: {said}; the page is refused whole: {_shortened(line)}") from exc


def _reason(exc: Exception, line: str) -> str:
    if line.startswith("#"):
        return "is no comment that an exporter writes"
    if "could not convert string to float" in str(exc):
        return "has a value that is no number"
    return "is no sample"


def _shortened(line: str) -> str:
    return line if len(line) <= _EXCERPT else f"{line[: _EXCERPT // 2]}...{line[-_EXCERPT // 2 :]}"
