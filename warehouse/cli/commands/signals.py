"""gpu-minutes signals: what a page of an exporter says in our words."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import httpx

from warehouse.cli import edge, tables
from warehouse.errors import BadInput, GpuMinutesError, Unreachable, one_line
from warehouse.signals.page import MAX_PAGE_BYTES, read_page
from warehouse.signals.translate import Translation, translate

_TIMEOUT_SECONDS = 10.0
_COLUMNS = ("page", "what", "name", "reason", "samples", "meaning")


@click.command("signals")
@click.argument("pages", nargs=-1, required=True, metavar="PAGE...")
@click.option("--node", default="", metavar="NAME", help="Node of the pages whose samples do not name it.")
@click.option("--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
def COMMAND(pages: tuple[str, ...], node: str, form: str) -> None:
    """Says what pages of exporters mean in the families and units of GPU Minutes, and what is refused and why.

    A page is a file, an http(s) address or - for standard input, in the Prometheus text format: ours, dcgm-exporter's
    or nvidia_gpu_exporter's. Every sample is counted once: as used, refused, event, repeated or unknown. A page that
    cannot be parsed is refused whole and the others are shown; the exit code is then 2.
    """
    found: list[tuple[str, Translation]] = []
    failed: list[GpuMinutesError] = []
    for page in pages:
        # Messages reach logs and screens; a password in an address must not.
        where = "standard input" if page == "-" else re.sub(r"^(https?://)[^/@]*@", r"\1", page)
        try:
            found.append((where, translate(read_page(_content(page, where), where), node)))
        except (BadInput, Unreachable) as exc:
            failed.append(exc)
    if found:
        rows = [row for where, said in found for row in _rows(where, said)]
        document = {"pages": [_document(where, said) for where, said in found]}
        edge.show(form, document, _COLUMNS, rows, "\n\n".join(_text(where, said) for where, said in found))
    if failed:
        worst = BadInput if any(isinstance(exc, BadInput) for exc in failed) else Unreachable
        raise worst(*(line for exc in failed for line in exc.lines))


def _content(page: str, where: str) -> bytes:
    if page == "-":
        return sys.stdin.buffer.read(MAX_PAGE_BYTES + 1)
    if page.startswith(("http://", "https://")):
        return _fetched(page, where)
    try:
        with Path(page).open("rb") as stream:
            return stream.read(MAX_PAGE_BYTES + 1)
    except OSError as exc:
        raise BadInput(f"{where}: cannot be read: {exc.strerror}") from exc


def _fetched(address: str, where: str) -> bytes:
    content = b""
    try:
        with httpx.stream("GET", address, timeout=_TIMEOUT_SECONDS) as answer:
            if answer.status_code != httpx.codes.OK:
                raise Unreachable(f"{where}: answered HTTP {answer.status_code}")
            for piece in answer.iter_bytes():
                content += piece
                if len(content) > MAX_PAGE_BYTES:
                    break
    except httpx.TimeoutException as exc:
        raise Unreachable(f"{where}: gave no answer within {_TIMEOUT_SECONDS:g} s") from exc
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise Unreachable(f"{where}: cannot be reached: {one_line(str(exc))}") from exc
    return content


def _families(said: Translation) -> list[tuple[str, int]]:
    return sorted(Counter(sample.family.name for sample in said.samples).items())


def _events(said: Translation) -> list[tuple[str, int, int]]:
    counts = Counter(event.name for event in said.events)
    live = Counter(event.name for event in said.events if event.value > 0)
    return [(name, count, live[name]) for name, count in sorted(counts.items())]


def _refused(said: Translation) -> list[tuple[str, str, int, str, str]]:
    """Gives name, reason, count, an example of why and what to do."""
    counts = Counter((refusal.name, refusal.reason) for refusal in said.refusals)
    first = {(refusal.name, refusal.reason): refusal for refusal in reversed(said.refusals)}
    return [(*key, count, first[key].why, first[key].advice) for key, count in sorted(counts.items())]


def _rows(where: str, said: Translation) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = [(where, "family", name, "", count, "") for name, count in _families(said)]
    rows += [(where, "event", name, "", count, f"{live} above 0") for name, count, live in _events(said)]
    rows += [(where, "refused", name, reason, count, why) for name, reason, count, why, _ in _refused(said)]
    rows.append((where, "repeated", "", "", said.repeated, ""))
    rows.append((where, "unknown", "", "unknown_name", said.unknown, f"{said.unknown_names} names"))
    return rows


def _document(where: str, said: Translation) -> dict[str, Any]:
    families: dict[str, list[dict[str, Any]]] = {}
    for sample in said.samples:
        labels = dict(zip(sample.family.labels, sample.labels, strict=True))
        families.setdefault(sample.family.name, []).append(
            {"node": sample.node, "labels": labels, "value": sample.value}
        )
    return {
        "page": where,
        "dialects": list(said.dialects),
        "read": said.read,
        "used": said.used,
        "repeated": said.repeated,
        "unknown_name": said.unknown,
        "unknown_names": said.unknown_names,
        "without_uuid": said.without_uuid,
        "without_slot": said.without_slot,
        "families": [{"family": name, "samples": rows} for name, rows in families.items()],
        "events": [event._asdict() for event in said.events],
        "refusals": [
            {"name": name, "reason": reason, "samples": count, "why": why, "what_to_do": advice}
            for name, reason, count, why, advice in _refused(said)
        ],
    }


def _text(where: str, said: Translation) -> str:
    refused, events = len(said.refusals), sum(count for _, count, _ in _events(said))
    lines = [
        f"{where}: {', '.join(said.dialects) or 'no exporter that is known'}",
        f"{said.read} samples: {said.used} used, {refused} refused, {events} events, {said.repeated} repeated, "
        f"{said.unknown} with {said.unknown_names} unknown names",
    ]
    if said.without_uuid:
        lines.append(f"{said.without_uuid} samples have no UUID: told by node and number of the GPU")
    if said.without_slot:
        lines.append(f"{said.without_slot} samples have a PCI address that cannot be read: told without a slot")
    if said.samples:
        lines += ["", tables.table(["family", "samples"], _families(said), right=[1])]
    if said.events:
        lines += ["", tables.table(["events, evidence only", "samples", "above 0"], _events(said), right=[1, 2])]
    if said.refusals:
        lines += ["", tables.table(["refused", "reason", "samples", "why", "what to do"], _refused(said), right=[2])]
    return "\n".join(one_line(line) for text in lines for line in text.split("\n"))
