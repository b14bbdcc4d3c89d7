"""Reads a CSV file with a header so that every fault is named by file, line, column and reason.

Bounded in memory per line, so a file without line breaks cannot fill the machine.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeVar

from warehouse.errors import BadInput, Finding

MAX_LINE_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"

T = TypeVar("T")


@dataclass(slots=True)
class Row:
    """One data row: cells by column, and the findings about it so far."""

    file: str
    line: int
    cells: dict[str, str]
    findings: list[Finding] = field(default_factory=list)

    def __getitem__(self, column: str) -> str:
        return self.cells.get(column, "")

    def fault(self, column: str, reason: str) -> None:
        """Notes that a cell is wrong."""
        self.findings.append(Finding(f"{self.file} line {self.line}, column {column}", reason))

    def read(self, column: str, parse: Callable[[str], T]) -> T | None:
        """Gives the parsed cell; a blank or unreadable one is noted and gives None."""
        text = self[column]
        if not text:
            self.fault(column, "is blank; a value is needed")
            return None
        return self.read_optional(column, parse)

    def read_optional(self, column: str, parse: Callable[[str], T]) -> T | None:
        """Gives the parsed cell, or None where it is blank; an unreadable one is noted."""
        text = self[column]
        if not text:
            return None
        try:
            return parse(text)
        except ValueError as exc:
            self.fault(column, str(exc))
            return None

    @property
    def where(self) -> str:
        """Gives file and line for messages about the row as a whole."""
        return f"{self.file} line {self.line}"


def read_rows(path: str, required: Sequence[str], optional: Sequence[str] = ()) -> Iterator[Row]:
    """Yields the data rows of a UTF-8 CSV file with header, columns in any order, `-` for standard input.

    Cells are stripped of surrounding blanks; rows that are blank throughout are passed over.

    Raises:
        BadInput: for what makes the whole file unreadable: not there, empty, no data row, a byte-order mark, not
            UTF-8, a line over the limit, missing or unknown or repeated columns, a row of the wrong width.
    """
    if path == "-":
        yield from _rows(sys.stdin.buffer, "standard input", required, optional)
        return
    try:
        with Path(path).open("rb") as stream:
            yield from _rows(stream, path, required, optional)
    except OSError as exc:
        raise BadInput(f"{path}: cannot be read: {exc.strerror}") from exc


def _rows(stream: BinaryIO, file: str, required: Sequence[str], optional: Sequence[str]) -> Iterator[Row]:
    reader = csv.reader(_lines(stream, file), strict=True)
    columns: list[str] | None = None
    count = 0
    while True:
        line = reader.line_num + 1  # where the row begins: a quoted cell may run over several lines
        try:
            cells = next(reader, None)
        except csv.Error as exc:
            raise BadInput(f"{file} line {reader.line_num}: is no CSV: {exc}; is a quote left open?") from exc
        if cells is None:
            break
        cells = [_unguarded(cell.strip()) for cell in cells]
        if not any(cells):
            continue
        if columns is None:
            columns = _header(cells, f"{file} line {reader.line_num}", required, optional)
            continue
        if len(cells) != len(columns):
            raise BadInput(f"{file} line {line}: has {len(cells)} cells, the header has {len(columns)} columns")
        count += 1
        yield Row(file, line, dict(zip(columns, cells, strict=True)))
    if columns is None:
        raise BadInput(f"{file}: is empty; a header with {','.join(required)} is needed")
    if not count:
        raise BadInput(f"{file}: has a header and no row; nothing to load")


def _unguarded(cell: str) -> str:
    """Takes off the apostrophe with which our own CSV keeps a spreadsheet from running a cell."""
    return cell[1:] if len(cell) > 1 and cell[0] == "'" and cell[1] in "=+-@" else cell


def _header(cells: list[str], where: str, required: Sequence[str], optional: Sequence[str]) -> list[str]:
    known = {*required, *optional}
    unknown = [cell or "(blank)" for cell in cells if cell not in known]
    if unknown:
        raise BadInput(f"{where}: unknown column {', '.join(unknown)}; known are {', '.join([*required, *optional])}")
    missing = [column for column in required if column not in cells]
    if missing:
        raise BadInput(f"{where}: column {', '.join(missing)} is missing")
    twice = sorted({cell for cell in cells if cells.count(cell) > 1})
    if twice:
        raise BadInput(f"{where}: column {', '.join(twice)} stands twice")
    return cells


def _lines(stream: BinaryIO, file: str) -> Iterator[str]:
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise BadInput(f"{file} line {number}: is longer than {MAX_LINE_BYTES} bytes; is this a CSV file?")
        if number == 1 and line.startswith(_BOM):
            raise BadInput(f"{file} line 1: begins with a byte-order mark; save the file as UTF-8 without BOM")
        if b"\x00" in line:
            raise BadInput(f"{file} line {number}: holds a NUL byte; is this a text file?")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise BadInput(
                f"{file} line {number}: is not UTF-8 at byte {exc.start + 1} of the line; save it as UTF-8"
            ) from exc
