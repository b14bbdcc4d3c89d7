"""The page for people: what this is, where things are, how each collector fares. No script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --dim: #5c6675; --line: #d9dee5; --good: #11734b; --bad: #b3261e;
  --paper: #fff; --link: #0b57a4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --dim: #9aa4b2; --line: #343c48; --good: #5fc697;
  --bad: #ff8a80; --paper: #14181e; --link: #82b7f0; } }
body { margin: 0 auto; max-width: 46rem; padding: 2.5rem 1.25rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.6rem; line-height: 1.25; } h2 { margin: 2rem 0 .5rem; font-size: 1.05rem; }
p { margin: .35rem 0; } .dim { color: var(--dim); } .note { font-weight: 600; }
a { color: var(--link); } ul { margin: 0; padding: 0; list-style: none; } .many { columns: 18rem; column-gap: 2rem; }
li { padding: .15rem 0; break-inside: avoid; } code { font-size: .9em; color: var(--dim); }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); text-align: left; }
th { color: var(--dim); font-weight: 500; font-size: .9rem; } .number { text-align: right; padding-right: 0; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
"""
_MANY = 8  # links that fit below each other at one look


@dataclass(frozen=True, slots=True)
class CollectorState:
    """How a collector fares.

    Attributes:
        name: the collector.
        word: "works", "fails", "overdue", "starting" or "off".
        success_age_s: time since its last success, None before the first.
        duration_s: of the last finished cycle, None before the first.
    """

    name: str
    word: str
    success_age_s: float | None = None
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class Landing:
    """What stands on the page.

    Attributes:
        title: its heading.
        about: a sentence or two.
        note: what must not be overlooked, "" for nothing.
        links: titles by path.
        collectors: in the order in which they are listed; () leaves the table out.
    """

    title: str
    about: Sequence[str]
    links: Mapping[str, str]
    note: str = ""
    collectors: Sequence[CollectorState] = ()


def landing_page(page: Landing) -> str:
    """The page as HTML; works without scripts, and without its style where a policy forbids that."""
    parts = [f"<h1>{escape(page.title)}</h1>"]
    parts += [f'<p class="dim">{escape(line)}</p>' for line in page.about]
    if page.note:
        parts.append(f'<p class="note">{escape(page.note)}</p>')
    links = (
        f'<li><a href="{escape(path)}">{escape(title)}</a> <code>{escape(path)}</code></li>'
        for path, title in page.links.items()
    )
    look = ' class="many"' if len(page.links) > _MANY else ""
    parts.append(f"<h2>Pages</h2><ul{look}>{''.join(links)}</ul>")
    if page.collectors:
        head = '<tr><th>name<th>state<th class="number">last success<th class="number">a cycle took</tr>'
        parts.append(f"<h2>Collectors</h2><table>{head}{''.join(map(_row, page.collectors))}</table>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(page.title)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _row(state: CollectorState) -> str:
    look = {"works": "good", "fails": "bad", "overdue": "bad"}.get(state.word, "dim")
    age = "-" if state.success_age_s is None else escape(f"{_duration(state.success_age_s)} ago")
    took = "-" if state.duration_s is None else escape(_duration(state.duration_s))
    return (
        f'<tr><td>{escape(state.name)}<td class="{look}">{escape(state.word)}'
        f'<td class="number">{age}<td class="number">{took}</tr>'
    )


def _duration(seconds: float) -> str:
    if seconds < 0.001:
        return "< 1 ms"
    if seconds < 1.0:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200.0 else f"{seconds / 3600:.0f} h"
