"""Figures from figures: pure functions from what the views gave to Plotly, without Streamlit.

Each row of a bar chart carries its words above its bar, so that no label is cut or meets another on any screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import plotly.graph_objects as go

from dashboard import format as f
from dashboard import palette
from dashboard.palette import Mode
from warehouse.model.state import GpuTimeClass, State
from warehouse.model.time import MS_PER_MINUTE, format_instant, parse_instant
from warehouse.views import Bucket, CauseLoss, Part

_INK = {"light": "#1b2330", "dark": "#e8ebf0"}
_FAINT = {"light": "#5b6675", "dark": "#a4adba"}
_GRID = {"light": "#e3e7ec", "dark": "#2b323d"}
_TRACK = {"light": "#f1f3f6", "dark": "#1c222b"}
_ACCENT = {"light": "#3d5a80", "dark": "#8fb3d9"}
_FONT = "'Source Sans', 'Source Sans Pro', system-ui, sans-serif"
_ROW_PX = 31
_DENSE_ROW_PX = 24
_DENSE_ROWS = 9
_BAR = 0.34
# Narrower than this a bar would vanish; it is then drawn as a line of this width, its label tells its size.
_HAIRLINE = 0.25
_CLASSES = tuple(GpuTimeClass)
_UNATTRIBUTED = "unknown/unattributed"
# The classes that are loss, each in the colour of its usual state.
_LOSS = {
    GpuTimeClass.UNPLANNED: State.DOWN,
    GpuTimeClass.PLANNED: State.MAINTENANCE,
    GpuTimeClass.OVERHEAD: State.CHECKPOINT,
}
SHOWN_CAUSES = 6


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure, what it says in words for those who do not see it, and the same as a table."""

    figure: go.Figure
    alt: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """One bar with its words; sizes in percent of the axis."""

    name: str
    figures: str
    base: float
    size: float
    colour: str
    hatch: str
    hover: str


def bridge(parts: Sequence[Part], currency: str | None, mode: Mode) -> Drawing:
    """Draws installed down to good, one bar a class and state, each beginning where the one before ended."""
    installed = sum(part.gpu_ms for part in parts)
    steps = sorted(parts, key=_bridge_order)
    table = [("Installed", *_figures(installed, installed), _sum_of_costs(steps, currency))]
    rows = [_Row("Installed", f"{f.short_minutes(installed)} GPU-min · 100 %", 0, 100, _ACCENT[mode], "", "Installed")]
    left = installed
    for part in steps:
        name = f.part(part.gpu_class, part.state)
        amount = _cost(part, currency)
        table.append((name, *_figures(part.gpu_ms, installed), amount))
        left -= part.gpu_ms
        said = f"{f.short_minutes(part.gpu_ms)} GPU-min · {f.share(part.gpu_ms, installed)}"
        if part.gpu_class is not GpuTimeClass.GOOD and amount != f.DASH:
            said += f" · {_cost(part, currency, f.short_money)}"
        rows.append(
            _Row(
                name,
                said,
                _percent(left, installed),
                _percent(part.gpu_ms, installed),
                palette.colour(part.state, mode),
                palette.HATCH.get(part.state, ""),
                f"{name}: {_minutes(part.gpu_ms)} GPU-minutes, {amount}",
            )
        )
    if not any(part.gpu_class is GpuTimeClass.GOOD for part in steps):
        rows.append(_Row("Good", "0 GPU-min · 0 %", 0, 0, palette.colour(State.PRODUCTIVE, mode), "", "Good: 0"))
        table.append(("Good", "0", "0 %", f.DASH))
    alt = "From installed to good, in GPU-minutes: " + "; ".join(f"{row[0]} {row[1]}, {row[2]}" for row in table) + "."
    head = ("Step", "GPU-minutes", "of installed", "at the price card")
    return Drawing(_rows_figure(rows, mode), alt, head, tuple(table))


def causes(found: Sequence[CauseLoss], currency: str | None, mode: Mode) -> Drawing:
    """Draws what each cause cost, the costliest first; loss without a cause always has its row."""
    priced = currency is not None and all(cause.cost is not None or not cause.lost_gpu_ms for cause in found)
    shown = _ranked(found, priced)
    total = sum((size for _, size, _ in shown), Decimal(0))
    largest = max((size for _, size, _ in shown), default=Decimal(0)) or Decimal(1)
    rows = []
    for name, size, known in shown:
        amount = f.short_money(size, currency) if priced else f"{f.short(size)} GPU-min"
        said = f"{amount} · {f.share(int(size * 1_000_000), int(total * 1_000_000))}" if total else amount
        width = float(100 * size / largest)
        colour, hatch = (_ACCENT[mode], "") if known else (_FAINT[mode], "/")
        rows.append(_Row(f.clipped(name, 40), said, 0, width, colour, hatch, f"{name}: {amount}"))
    table = tuple((c.title, c.code or f.DASH, _minutes(c.lost_gpu_ms), _cost(c, currency)) for c in found)
    alt = ("Cost" if priced else "GPU-minutes lost") + " by cause: "
    alt += "; ".join(f"{row.name} {row.figures}" for row in rows) + "."
    return Drawing(_rows_figure(rows, mode), alt, ("Cause", "Code", "GPU-minutes lost", "Cost"), table)


def _ranked(found: Sequence[CauseLoss], priced: bool) -> list[tuple[str, Decimal, bool]]:
    """Gives name, size and whether the cause is known; small causes are one row, loss without a cause the last."""
    sizes = [Decimal(c.cost or 0) if priced else Decimal(c.lost_gpu_ms) / MS_PER_MINUTE for c in found]
    pairs = list(zip(found, sizes, strict=True))
    named = [(c.title, size, c.code != _UNATTRIBUTED) for c, size in pairs if c.code is not None and size > 0]
    named.sort(key=lambda row: -row[1])
    shown = named if len(named) <= SHOWN_CAUSES + 1 else named[:SHOWN_CAUSES]
    if rest := named[len(shown) :]:
        shown = [*shown, (f"{len(rest)} other causes", sum((size for _, size, _ in rest), Decimal(0)), True)]
    return shown + [(c.title, size, False) for c, size in pairs if c.code is None]


def calendar(buckets: Sequence[Bucket], by: str, mode: Mode) -> Drawing:
    """Draws what share of installed time was lost per day or month, stacked by class; unused and unknown is no loss."""
    figure = go.Figure()
    names = [f.bucket(bucket.key, by) for bucket in buckets]
    for name in _LOSS:
        sizes = [_percent(bucket.classes[name], bucket.installed_gpu_ms) for bucket in buckets]
        if not any(sizes):
            continue
        figure.add_bar(
            x=names,
            y=sizes,
            name=name.value.capitalize(),
            marker={"color": palette.colour(_LOSS[name], mode), "line": {"width": 0.5, "color": _FAINT[mode]}},
            hovertemplate=f"%{{x}}<br>{name.value} %{{y:.2f}} % of installed<extra></extra>",
        )
    figure.update_layout(
        **_layout(mode, 156),
        barmode="stack",
        bargap=0.25,
        showlegend=True,
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "traceorder": "normal"},
        margin={"l": 4, "r": 4, "t": 22, "b": 4},
        xaxis={"type": "category", "automargin": True, "nticks": 7, "tickangle": 0, "showgrid": False},
        yaxis={"ticksuffix": " %", "automargin": True, "gridcolor": _GRID[mode], "rangemode": "tozero", "nticks": 5},
    )
    head = ("When", *(name.value.capitalize() for name in GpuTimeClass))
    table = tuple(
        (bucket.key, *(f.share(bucket.classes[name], bucket.installed_gpu_ms) for name in GpuTimeClass))
        for bucket in buckets
    )
    alt = f"Share of installed time that was lost, per {by}: " + "; ".join(
        f"{bucket.key} {f.share(sum(bucket.classes[name] for name in _LOSS), bucket.installed_gpu_ms)}"
        for bucket in buckets
    )
    return Drawing(figure, alt + ".", head, table)


def timeline(phases: Sequence[dict[str, Any]], mode: Mode) -> Drawing:
    """Draws the phases of an incident on one axis of time, in UTC, in order of their first appearance."""
    starts = [parse_instant(phase["start"]) for phase in phases]
    ends = [parse_instant(phase["end"]) for phase in phases]
    first, last = min(starts), max(ends)
    figure = go.Figure()
    count = len(phases)
    words: list[dict[str, Any]] = []
    for at, (phase, start, end) in enumerate(zip(phases, starts, ends, strict=True)):
        state = State(phase["state"])
        when = f"{f.instant(phase['start'])} to {f.instant(phase['end'])}"
        # A phase of seconds in an incident of weeks is still there to be seen.
        width = max(end - start, (last - first) // 200)
        figure.add_bar(
            orientation="h",
            base=[format_instant(min(start, last - width))],
            x=[width],
            y=[count - at],
            width=_BAR,
            marker={
                "color": palette.colour(state, mode),
                "line": {"width": 0.5, "color": _FAINT[mode]},
                "pattern": {"shape": palette.HATCH.get(state, ""), "size": 5},
            },
            hovertemplate=f"{f.state(state.value)}<br>{when}<extra></extra>",
        )
        said = f"{_minutes(phase['lost_gpu_ms'])} GPU-min lost · {f.duration(end - start)}"
        words += _words(count - at, f.state(state.value), said, mode)
    figure.update_layout(
        **_layout(mode, _ROW_PX * count + 64),
        annotations=words,
        showlegend=False,
        margin={"l": 4, "r": 4, "t": 2, "b": 34},
        xaxis={
            "type": "date",
            "range": [format_instant(first), format_instant(last)],
            "gridcolor": _GRID[mode],
            "nticks": 7,
        },
        yaxis={"visible": False, "range": [0.5, count + 0.75]},
    )
    table = tuple(
        (f.state(p["state"]), f.instant(p["start"]), f.instant(p["end"]), _minutes(p["lost_gpu_ms"])) for p in phases
    )
    alt = "Phases in UTC: " + "; ".join(f"{row[0]} {row[1]} to {row[2]}" for row in table) + "."
    return Drawing(figure, alt, ("Phase", "From", "To", "GPU-minutes lost"), table)


def _bridge_order(part: Part) -> tuple[int, int]:
    return palette.order().index(part.state), _CLASSES.index(part.gpu_class)


def _rows_figure(rows: Sequence[_Row], mode: Mode) -> go.Figure:
    """Draws rows of a label line with a bar below it, over a faint track of the whole axis."""
    figure = go.Figure()
    count = len(rows)
    places = [count - at for at in range(count)]
    figure.add_bar(
        orientation="h", x=[100] * count, y=places, width=_BAR, marker={"color": _TRACK[mode]}, hoverinfo="skip"
    )
    sizes = [max(row.size, _HAIRLINE) if row.size > 0 else 0 for row in rows]
    figure.add_bar(
        orientation="h",
        base=[min(row.base, 100 - size) for row, size in zip(rows, sizes, strict=True)],
        x=sizes,
        y=places,
        width=_BAR,
        customdata=[row.size for row in rows],
        marker={
            "color": [row.colour for row in rows],
            "line": {"width": [0.5 if row.size > 0 else 0 for row in rows], "color": _FAINT[mode]},
            "pattern": {"shape": [row.hatch for row in rows], "size": 6, "fgcolor": _TRACK[mode], "fgopacity": 0.8},
        },
        hovertext=[f.plot(row.hover) for row in rows],
        hoverinfo="text",
    )
    words = [_words(place, row.name, row.figures, mode) for place, row in zip(places, rows, strict=True)]
    figure.update_layout(
        **_layout(mode, (_DENSE_ROW_PX if count > _DENSE_ROWS else _ROW_PX) * count + 6),
        # All at once: Plotly checks every label again for each one that is added.
        annotations=[label for pair in words for label in pair],
        barmode="overlay",
        showlegend=False,
        margin={"l": 1, "r": 1, "t": 2, "b": 2},
        xaxis={"visible": False, "range": [0, 100], "fixedrange": True},
        yaxis={"visible": False, "range": [0.6, count + 0.85], "fixedrange": True},
    )
    return figure


def _words(place: int, left: str, right: str, mode: Mode) -> list[dict[str, Any]]:
    """Gives the two labels above a bar: its name on the left, its figures on the right."""
    common = {"xref": "paper", "yref": "y", "y": place + _BAR / 2 + 0.26, "yanchor": "middle", "showarrow": False}
    return [
        {**common, "x": 0, "xanchor": "left", "xshift": -3, "text": f.plot(left), "font": _font(_INK[mode])},
        {**common, "x": 1, "xanchor": "right", "xshift": 3, "text": f.plot(right), "font": _font(_FAINT[mode])},
    ]


def _font(colour: str) -> dict[str, Any]:
    return {"size": 13, "color": colour}


def _layout(mode: Mode, height: int) -> dict[str, Any]:
    return {
        "template": "none",
        "height": height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 12, "color": _INK[mode]},
        "hoverlabel": {"bgcolor": _TRACK[mode], "font": {"color": _INK[mode]}},
        "dragmode": False,
    }


def _percent(part: int, whole: int) -> float:
    return float(Decimal(100 * part) / whole) if whole else 0.0


def _minutes(gpu_ms: int) -> str:
    value = Decimal(gpu_ms) / MS_PER_MINUTE
    return f"{value:,.0f}" if gpu_ms % MS_PER_MINUTE == 0 else f"{value:,.3f}"


def _figures(part: int, whole: int) -> tuple[str, str]:
    return _minutes(part), f.share(part, whole)


def _cost(item: Part | CauseLoss, currency: str | None, write: f.Writer = f.money) -> str:
    if item.costs:
        return " + ".join(write(amount, name) for name, amount in item.costs.items())
    return write(item.cost, currency)


def _sum_of_costs(parts: Sequence[Part], currency: str | None) -> str:
    """Gives what all parts are worth, each currency by itself; a dash where one of them has no price."""
    if currency is None and any(part.costs for part in parts):
        names = sorted({name for part in parts for name in part.costs})
        sums = {name: sum((part.costs.get(name, Decimal(0)) for part in parts), Decimal(0)) for name in names}
        return " + ".join(f.money(amount, name) for name, amount in sums.items()) if _all_priced(parts) else f.DASH
    costs = [part.cost for part in parts]
    return f.DASH if None in costs else f.money(sum((c for c in costs if c is not None), Decimal(0)), currency)


def _all_priced(parts: Sequence[Part]) -> bool:
    return all(part.costs or not part.gpu_ms for part in parts)
