"""What all pages share: look, scope of the address, trust line, tables, and faults as one clear line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from dashboard import data
from dashboard import format as f
from dashboard import scope as scopes
from dashboard.charts import Drawing
from dashboard.data import Trust
from dashboard.palette import Mode
from dashboard.scope import BadScope, Scope
from warehouse import clock
from warehouse.errors import BadInput, GpuMinutesError
from warehouse.model.time import MS_PER_DAY, MS_PER_MINUTE, format_duration, format_instant, parse_instant
from warehouse.views import BrokenLaw, EmptyLedger

_BEHIND_MS = 30 * MS_PER_MINUTE
_OBSERVED_PPM = 990_000
_OLD_PRICE_MS = 366 * MS_PER_DAY

_STYLE = """<style>
.stMainBlockContainer{padding:3.9rem 2rem .5rem;max-width:1500px}
.stMainBlockContainer [data-testid="stVerticalBlock"]{gap:.45rem}
[data-testid="stMetric"]{padding:0 !important}
[data-testid="stMetric"]>div{padding:.45rem .9rem .55rem}
[data-testid="stPopoverButton"][kind="tertiary"]{min-height:1.5rem;padding:0}
[data-testid="stMetricValue"]{font-size:1.65rem;line-height:1.25}
[data-testid="stMetricDelta"]{font-size:.8rem}
h1.gm{font-size:1.3rem;font-weight:600;line-height:1.35;margin:0;padding:0}
p.gm-sub{margin:.15rem 0 0;opacity:.75;font-size:.92rem}
h2.gm{font-size:1rem;font-weight:600;margin:0;padding:.15rem 0 0}
h2.gm small{font-weight:400;opacity:.7;font-size:.82rem}
p.gm-trust{font-size:.84rem;margin:0;opacity:.95;line-height:1.6}
.gm-amber,.gm-red,.gm-tag{border-radius:4px;padding:0 .35em;font-weight:600;white-space:nowrap}
.gm-amber{background:#ffe2a8;color:#5c3700}
.gm-red{background:#a91a0e;color:#fff}
.gm-tag{border:1px solid currentColor;font-weight:500}
.gm-scroll{overflow-x:auto}
table.gm{border-collapse:collapse;width:100%;font-size:.86rem;line-height:1.3}
table.gm th{text-align:left;font-weight:600;opacity:.75;border-bottom:1px solid rgba(128,128,128,.45)}
table.gm th,table.gm td{padding:.26rem .9rem .26rem 0;vertical-align:top}
table.gm td{border-bottom:1px solid rgba(128,128,128,.18)}
table.gm .num{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
table.gm .fix{white-space:nowrap}
table.gm .id{overflow-wrap:anywhere;min-width:9rem}
table.gm a,a.gm{color:inherit;text-decoration-color:rgba(128,128,128,.6);text-underline-offset:2px}
table.gm a:hover,a.gm:hover{text-decoration-color:currentColor}
table.gm tr.sum td{font-weight:600;border-top:1px solid rgba(128,128,128,.6);border-bottom:0}
table.gm th:last-child,table.gm td:last-child{padding-right:0}
@media(max-width:640px){.stMainBlockContainer{padding:4.1rem .9rem 1.5rem}h1.gm{font-size:1.12rem}}
</style>"""


def begin(page: str) -> None:
    """Sets the look, and carries the scope over from the page before: the menu's links drop it."""
    st.html(_STYLE)
    last = st.session_state.get("last-page")
    if last is not None and last != page and not any(name in st.query_params for name in scopes.NAMES):
        for name, value in st.session_state.get("last-scope", {}).items():
            st.query_params[name] = value
    st.session_state["last-page"] = page
    st.session_state["last-scope"] = {name: st.query_params[name] for name in scopes.NAMES if name in st.query_params}


def mode() -> Mode:
    """Gives which theme is on."""
    return "dark" if st.context.theme.type == "dark" else "light"


def guarded(body: Callable[[Scope], None]) -> None:
    """Draws a page; what can go wrong is said in one line, with what to do about it."""
    try:
        body(scopes.read(st.query_params.to_dict()))
    except BadScope as exc:
        for fault in exc.faults:
            st.error(f"This address is not understood. {f.markdown(fault)}.")
        _clear_button()
    except EmptyLedger:
        _first_steps(False)
    except BrokenLaw as exc:
        st.error("Tiling check failed, so no figure is shown. " + f.markdown(exc))
        st.caption("Find the broken law with `gpu-minutes check`.")
    except BadInput as exc:
        _explain(exc)
    except GpuMinutesError as exc:
        _say(exc)
        st.button("Try again")


def _say(exc: GpuMinutesError) -> None:
    line = " ".join(exc.lines)
    st.error(f.markdown(line[:1].upper() + line[1:] + "."))


def _explain(exc: BadInput) -> None:
    try:
        fleet = data.has_fleet()
    except GpuMinutesError as again:
        _say(again)
        st.button("Try again")
        return
    if not fleet:
        _first_steps(False)
        return
    nothing_asked = not any(name in st.query_params for name in scopes.NAMES)
    if nothing_asked and "rate card" not in str(exc):
        _first_steps(True)
        return
    _say(exc)
    _clear_button()


def _clear_button() -> None:
    if st.button("Clear the scope: all booked time, newest revision"):
        for name in scopes.NAMES:
            st.query_params.pop(name, None)
        st.rerun()


def _first_steps(fleet: bool) -> None:
    html('<h1 class="gm">The ledger is empty. Three steps to the first figure</h1>')
    steps = (
        ("Say which GPUs are installed", "gpu-minutes fleet load fleet.csv", fleet),
        ("Say what a GPU-hour costs", "gpu-minutes rates load rates.csv", False),
        ("Bring in what happened", "gpu-minutes import evidence evidence.csv", False),
    )
    for column, (at, (title, command, done)) in zip(st.columns(3), enumerate(steps, 1), strict=True):
        with column.container(border=True):
            html(f'<h2 class="gm">{at}. {title}{" (done)" if done else ""}</h2>')
            st.code(command, language=None)
    st.caption("Without files at hand, see it at work on this machine: `gpu-minutes demo`. Then reload this page.")


def html(text: str) -> None:
    """Puts HTML on the page; what comes from outside must have gone through `format.html`."""
    st.html(text)


def headline(sentence: str, below: str = "") -> None:
    """Puts the sentence that says it all."""
    html(f'<h1 class="gm">{f.html(sentence)}</h1>' + (f'<p class="gm-sub">{f.html(below)}</p>' if below else ""))


def heading(text: str, small: str = "") -> None:
    """Puts the heading of a part of a page."""
    html(f'<h2 class="gm">{f.html(text)}' + (f" <small>{f.html(small)}</small>" if small else "") + "</h2>")


def trust_line(trust: Trust) -> None:
    """Puts how far the ledger is booked, at which revision and prices, and how much of it was observed."""
    now_ms = clock.now_ms()
    behind = now_ms - trust.horizon_ms
    words = [f"Booked up to {f.instant(format_instant(trust.horizon_ms))} ({_ago(behind)})"]
    if behind > _BEHIND_MS:
        words[0] += ' <span class="gm-amber">behind</span>'
    words.append(f"revision {trust.revision}" + ("" if trust.newest else ' <span class="gm-tag">not the newest</span>'))
    words.append(_prices(trust, now_ms))
    if trust.observed_ppm is not None:
        said = f"{f.share(trust.observed_ppm, 1_000_000)} observed"
        low = trust.observed_ppm < _OBSERVED_PPM
        words.append(said + (' <span class="gm-amber">mostly unknown</span>' if trust.observed_ppm < 500_000 else
                             ' <span class="gm-amber">gaps</span>' if low else ""))  # fmt: skip
    if trust.provisional:
        words.append('<span class="gm-amber">provisional</span> the window passes what is booked')
    if trust.simulated:
        words.insert(0, '<span class="gm-amber">simulated fleet</span>')
    html(f'<p class="gm-trust">{" · ".join(words)}</p>')


def _prices(trust: Trust, now_ms: int) -> str:
    if trust.card is None:
        return 'prices: <span class="gm-amber">none loaded</span> so nothing has a cost'
    said = f"prices: {f.html(trust.card)}"
    if trust.card_since is not None:
        age = now_ms - parse_instant(trust.card_since)
        said += f", newest rate of {f.day(trust.card_since)}"
        said += f" ({_ago(age)})" + (' <span class="gm-amber">old</span>' if age > _OLD_PRICE_MS else "")
    if trust.unpriced_gpu_ms:
        said += f' <span class="gm-amber">{f.short_minutes(trust.unpriced_gpu_ms)} GPU-min without a price</span>'
    return said


def _ago(length_ms: int) -> str:
    if length_ms < 0:
        return "ahead"
    if length_ms >= 365 * MS_PER_DAY:
        return f"{length_ms / (365.25 * MS_PER_DAY):.1f} years ago"
    if length_ms >= 2 * MS_PER_DAY:
        return f"{length_ms // MS_PER_DAY} days ago"
    return f"{format_duration(length_ms)} ago"


def scope_picker(trust: Trust, scope: Scope) -> None:
    """Offers window, site, price card and revision, and writes them into the address."""
    label = f"{f.day(trust.start)} to {f.day(trust.end)}"
    label = label if scope.site is None else f"{scope.site}, {label}"
    with st.popover(f.clipped(label, 40), width="stretch"), st.form("scope", border=False):
        st.caption("RFC 3339 with an offset, or a day in UTC; half-open. Blank: all that is booked.")
        values = scope.parameters()
        start = st.text_input("From", values.get("from", ""), placeholder=trust.start)
        end = st.text_input("To", values.get("to", ""), placeholder=trust.end)
        cards = ["", *trust.cards]
        at = cards.index(scope.card) if scope.card in cards else 0
        card = st.selectbox("Price card", cards, index=at, format_func=lambda name: name or "the usual one")
        site = _site_picker(trust, scope)
        rev = st.text_input("Revision", values.get("rev", ""), placeholder="the newest")
        if st.form_submit_button("Show", type="primary"):
            for name, value in zip(scopes.NAMES, (start, end, card, rev, site), strict=True):
                st.query_params.pop(name, None)
                if value.strip():
                    st.query_params[name] = value.strip()
            st.rerun()


def _site_picker(trust: Trust, scope: Scope) -> str:
    """Offers the sites where there are several; gives the one chosen, blank for all."""
    if len(trust.sites) < 2:
        return scope.site or ""
    sites = ["", *trust.sites]
    at = sites.index(scope.site) if scope.site in sites else 0
    return st.selectbox("Site", sites, index=at, format_func=lambda name: name or "All sites")


def chart(drawing: Drawing, title: str, small: str, key: str) -> None:
    """Puts a figure under its heading, with its words for those who do not see it and its figures as a table."""
    with st.container(horizontal=True, vertical_alignment="center", wrap=False):
        heading(title, small)
        with st.popover("Table", type="tertiary", key=f"{key}-table"):
            table(drawing.head, drawing.rows, numbers=range(1, len(drawing.head)))
    st.plotly_chart(drawing.figure, theme=None, alt=drawing.alt, key=key, config={"displayModeBar": False})


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str | Link]],
    numbers: Sequence[int] = (),
    fixed: Sequence[int] = (),
    total: bool = False,
) -> None:
    """Puts a table that screen readers and text search can read; `numbers` are right-aligned columns.

    Args:
        head: a heading a column.
        rows: plain text, or links.
        numbers: columns of figures.
        fixed: columns that are never broken into lines.
        total: whether the last row is the sum of the others.
    """
    kinds = {**dict.fromkeys(fixed, ' class="fix"'), **dict.fromkeys(numbers, ' class="num"')}
    lines = ["".join(f"<th{kinds.get(i, '')}>{f.html(text)}</th>" for i, text in enumerate(head))]
    for at, row in enumerate(rows):
        cells = "".join(f"<td{kinds.get(i, ' class=id')}>{_cell(value)}</td>" for i, value in enumerate(row))
        lines.append((f'<tr class="sum">{cells}</tr>') if total and at == len(rows) - 1 else f"<tr>{cells}</tr>")
    html(
        f'<div class="gm-scroll"><table class="gm"><thead><tr>{lines[0]}</tr></thead>'
        f"<tbody>{''.join(lines[1:])}</tbody></table></div>"
    )


class Link:
    """A text that leads to an address of this dashboard."""

    def __init__(self, text: str, url: str) -> None:
        self.text = text
        self.url = url


def _cell(value: str | Link) -> str:
    return anchor(value) if isinstance(value, Link) else f.html(value)


def anchor(link: Link) -> str:
    """Gives a link as HTML; it opens in the same tab."""
    return f'<a class="gm" href="{f.html(link.url)}" target="_self">{f.html(link.text)}</a>'


def incident_link(incident: dict[str, Any], scope: Scope) -> Link:
    """Gives the title of an incident as a link to its page, which shows all booked time."""
    whole = Scope(card=scope.card, rev=scope.rev, site=scope.site)
    return Link(f.clipped(str(incident["title"]), 90), whole.url("/incident", id=str(incident["id"])))
