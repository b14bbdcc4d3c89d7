"""From a detector of the catalogue to PromQL for one site: thresholds put in, labels and exporters as they are there.

A detector is written once, in our names. A *form* of it is one exporter's: ours, or dcgm-exporter's series in their own
names and units. Which form speaks for a node is decided by who watches that node (`warehouse.detect.observe`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Template

from exporter.metrics import FAMILY_BY_NAME, PREFIX
from warehouse.detect.site import OURS, Site
from warehouse.model.cause import Detector, Witness
from warehouse.signals import load_dialects
from warehouse.signals.alias import Dialect
from warehouse.signals.promql import with_matcher
from warehouse.signals.pushed import PUSHED_PREFIX
from warehouse.signals.rewrite import Use, host, hosts_alone, identified, parse_matchers, rewrite

# How names begin, and who writes them, the first that fits; `up` belongs to whom its job says.
WRITERS: Mapping[str, str] = {
    PUSHED_PREFIX: "pushed",
    PREFIX: OURS,
    "DCGM_": "dcgm",
    "nvidia_smi_": "nvidia_smi",
    "node_": "node_exporter",
    "kube_": "kubernetes",
    "slurm_": "slurm",
    "ipmi_": "ipmi",
    "vllm:": "vllm",
}
_JOB_WRITERS = {
    "gpu-minutes": OURS,
    "dcgm": "dcgm",
    "nvidia_smi": "nvidia_smi",
    "node": "node_exporter",
    "slurm": "slurm",
    "kube-state-metrics": "kubernetes",
    "apiserver": "kubernetes",
    "vllm": "vllm",
}

_NAME = r"(?:gpuminutes_|DCGM_|nvidia_smi_|node_|kube_|slurm_|ipmi_|vllm:)[a-zA-Z0-9_:]*|up"
_NUMBER = r"[-+\d.eE]+"
USE = re.compile(
    rf"(?:(?P<function>\b[a-z_]+)\(\s*(?P<before>{_NUMBER}\s*,\s*)?(?P<inner>\b(?:{_NAME})\b)(?P<asked>\{{[^{{}}]*\}})?"
    rf"\[(?P<range>[^\]:]*)\](?P<offset>\s+offset\s+\w+)?(?P<behind>\s*,\s*{_NUMBER})?\s*\))"
    rf"|(?P<bare>(?<![\w:\"])(?:{_NAME})(?![\w:\"(=]))(?P<matchers>\{{[^{{}}]*\}})?(?P<shift>\s+offset\s+\w+)?"
)

# Short enough to date an edge, long enough to hold two samples wherever it begins; no multiple of the interval, so that
# servers with closed and with left-open ranges see the same samples.
_SHORT_SCRAPES = 2.5


class NotSaid(Exception):
    """An exporter has no series for something that the detector needs."""


@dataclass(frozen=True, slots=True)
class Form:
    """A detector in the words of one exporter and one site.

    Attributes:
        teller: whose GPU series it reads; "" where it reads none.
        expr, onset_expr, coarse, lost_expr, clears: as in `Detector`, rendered; "" where there is none.
        witnesses: with their values rendered.
        names: the series that it reads.
    """

    teller: str
    expr: str
    onset_expr: str
    coarse: str
    lost_expr: str
    clears: tuple[str, ...]
    witnesses: tuple[Witness, ...]
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Only:
    """Who is asked alone: nodes, as a matcher for series whose label `node` is the host itself; "" asks everyone.

    `jobs` are the jobs that these nodes hold whole; of others they may hold a part. Empty: jobs are not asked alone.
    """

    matcher: str = ""
    jobs: frozenset[str] = frozenset()

    def covers(self, job: str) -> bool:
        """Tells whether what is said of a job is said of all of it; of what is no job it is."""
        return not job or not self.jobs or job in self.jobs


def short_ms(scrape_ms: int) -> int:
    """Gives the range over which edges are dated, in milliseconds."""
    return round(_SHORT_SCRAPES * scrape_ms)


def seconds(length_ms: int) -> str:
    """Gives a length as PromQL, exact to the millisecond."""
    return f"{length_ms // 1000}s" if length_ms % 1000 == 0 else f"{length_ms}ms"


def forms(detector: Detector, site: Site, scrape_ms: int, span_ms: int, only: Only | None = None) -> list[Form]:
    """Gives the forms of a detector: ours first, then those of every exporter that says all that it needs.

    Args:
        detector: of the catalogue.
        site: labels, jobs, thresholds.
        scrape_ms: interval of the scrapes.
        span_ms: length of the look, for `coarse`.
        only: narrows series to some nodes where their labels allow it.
    """
    texts = (detector.expr, detector.onset_expr, detector.coarse, detector.lost_expr, *detector.clears)
    read = frozenset(name for text in texts for name in names(text))
    tellers = [OURS, *(d.name for d in load_dialects() if d.name != OURS)] if _reads_ours(texts) else [_teller(read)]
    found = []
    for teller in (teller for teller in tellers if not teller or teller in site.exporters):
        try:
            found.append(_form(detector, teller, site, scrape_ms, span_ms, only or Only()))
        except NotSaid:
            continue
    return found


def plain(detector: Detector, site: Site) -> str:
    """Gives the expression with its numbers, in our names: what documents and alerts show."""
    return _filled(detector.expr, detector, site, detector.window_ms, 0)


def host_of(labels: Mapping[str, str], sources: tuple[str, ...]) -> str:
    """Gives the host that a series names: the first of several labels that is not empty, without a port."""
    return next((found.split(":")[0].split(";")[0] for label in sources if (found := labels.get(label, ""))), "")


def names(text: str) -> list[str]:
    """Gives the series names that an expression reads, in order of appearance, `up` among them."""
    return [match["inner"] or match["bare"] for match in USE.finditer(text)]


def alert_expr(detector: Detector, site: Site, scrape_ms: int) -> str:
    """Gives the expression for an alert rule: every exporter's form, ours first; "" where no exporter is read."""
    parts = [form.expr for form in forms(detector, site, scrape_ms, 0)]
    if len(parts) <= 1:
        return "".join(parts)
    by = ", ".join(IDENTITY[detector.scope])
    return f"({parts[0]})" + "".join(f" or on ({by}) ({part})" for part in parts[1:])


# Labels that say what a hit is about, by the detector's scope.
IDENTITY: Mapping[str, tuple[str, ...]] = {
    "node": ("node",),
    "gpu": ("node", "slot"),
    "job": ("job_id",),
    "endpoint": ("endpoint",),
}


def series_of(name: str, asked: str, site: Site) -> tuple[tuple[str, str], tuple[str, ...]]:
    """Gives a series' name and matchers as the site has them, and the labels that name its host."""
    found = re.search(r'\bjob="([^"]*)"', asked)
    if name == "up" and found and found[1] in site.jobs:
        asked = _with_job(asked, site.jobs[found[1]])
        return (name, asked), site.labels[_JOB_WRITERS[found[1]]]
    return (name, asked), site.labels[_writer(name, asked)]


def _reads_ours(texts: Iterable[str]) -> bool:
    """Tells whether an expression speaks of GPUs in our names, so that another exporter may stand in."""
    return any(
        _writer(match["inner"] or match["bare"], "") == OURS or _job(match) == "gpu-minutes"
        for text in texts
        for match in USE.finditer(text)
    )


def _teller(read: Iterable[str]) -> str:
    writers = {_writer(name, "") for name in read}
    return next((writer for writer in ("dcgm", "nvidia_smi") if writer in writers), "")


def _form(detector: Detector, teller: str, site: Site, scrape_ms: int, span_ms: int, only: Only) -> Form:
    dialect = next((d for d in load_dialects() if d.name == teller and d.name != OURS), None)

    def said(text: str, window_ms: int) -> str:
        return _said(_filled(text, detector, site, window_ms, span_ms), dialect, site, only) if text else ""

    def said_loosely(text: str) -> str:
        # Who cannot be asked coarsely is asked finely: it costs more and finds the same.
        try:
            return _said(_filled(text, detector, site, detector.window_ms, span_ms), dialect, site, only, loosely=True)
        except NotSaid:
            return ""

    short = short_ms(scrape_ms)
    onset = detector.onset_expr or (detector.expr if "window" in Template(detector.expr).get_identifiers() else "")
    witnesses = tuple(
        Witness(w.metric, w.matchers, w.by, w.op, _filled(w.value, detector, site, detector.window_ms, span_ms))
        for w in detector.witnesses
    )
    if teller not in (OURS, "") and any(_writer(w.metric, w.matchers) == OURS for w in witnesses):
        # Their labels are made in the query and cannot be asked of raw samples: the edges stay on the grid.
        witnesses = ()
    found = Form(
        teller,
        said(detector.expr, detector.window_ms),
        said(onset, short),
        said_loosely(detector.coarse),
        said(detector.lost_expr, detector.window_ms),
        tuple(said(clear, detector.window_ms) for clear in detector.clears),
        witnesses,
        frozenset(),
    )
    read = (found.expr, found.onset_expr, found.coarse, found.lost_expr)
    listed = {name for text in read for name in names(text)}
    return Form(
        found.teller, found.expr, found.onset_expr, found.coarse, found.lost_expr, found.clears, found.witnesses,
        frozenset(listed),
    )  # fmt: skip


def _filled(text: str, detector: Detector, site: Site, window_ms: int, span_ms: int) -> str:
    numbers = {name: f"{value:g}" for name, value in site.thresholds(detector).items()}
    return Template(text).substitute(numbers, window=seconds(window_ms), span=seconds(span_ms))


def _said(text: str, dialect: Dialect | None, site: Site, only: Only, *, loosely: bool = False) -> str:
    return USE.sub(lambda match: _one(match, dialect, site, only, loosely), text)


def _one(match: re.Match[str], dialect: Dialect | None, site: Site, only: Only, loosely: bool) -> str:
    name = match["inner"] or match["bare"]
    asked = (match["asked"] or match["matchers"] or "{}")[1:-1]
    ours = _writer(name, "") == OURS
    job = _job(match)
    if dialect is not None and ours:
        use = Use(
            FAMILY_BY_NAME[name], parse_matchers(asked), match["function"] or "", match["range"] or "",
            match["before"] or "", match["behind"] or "", match["offset"] or match["shift"] or "",
            loosely, hosts_alone(only.matcher, site.labels[dialect.name]),
        )  # fmt: skip
        said = rewrite(use, dialect, site.labels[dialect.name])
        if said is None:
            raise NotSaid(f"{dialect.title} does not say {name}")
        return said
    writer = _writer(name, asked)
    if job is not None:
        if job == "gpu-minutes" and dialect is not None:
            job = writer = dialect.name
        asked = _with_job(asked, site.jobs[job])
    if only.matcher and site.labels[writer] == ("node",) and _says_node(name, writer):
        asked = f"{asked},{only.matcher}" if asked else only.matcher
    series = f"{name}{{{asked}}}" if asked else name
    raw = next((d for d in load_dialects() if d.name == writer and d.name != OURS and not d.slot_info), None)
    if raw is not None and name != "up":
        # Read as they are, yet a hit must say which GPU: its labels are made as those of translated series.
        hosts = hosts_alone(only.matcher if site.labels[writer] != ("node",) else "", site.labels[writer])
        parts = [_in_function(match, with_matcher(series, host)) for host in hosts] or [_in_function(match, series)]
        return identified(f"({' or '.join(parts)})" if hosts else parts[0], raw, site.labels[writer])
    series = _in_function(match, series)
    if writer == "vllm":
        series = host(series, site.endpoint, "endpoint")
    return host(series, site.labels[writer])


def _in_function(match: re.Match[str], series: str) -> str:
    """Gives a selector as it was used: inside its function over a range, or shifted in time."""
    if not match["function"]:
        return series + (match["shift"] or "")
    offset, behind = match["offset"] or "", match["behind"] or ""
    return f"{match['function']}({match['before'] or ''}{series}[{match['range']}]{offset}{behind})"


def _says_node(name: str, writer: str) -> bool:
    """Tells whether series name the node that they are about, so that they may be narrowed to some nodes.

    kube-state-metrics names it of nodes alone, not of pods, and a Slurm exporter not of queues.
    """
    if writer in ("kubernetes", "slurm"):
        return name.startswith(("kube_node_", "slurm_node_"))
    return writer not in ("vllm", "pushed")


def _writer(name: str, asked: str) -> str:
    if name == "up":
        found = re.search(r'\bjob="([^"]*)"', asked)
        return _JOB_WRITERS.get(found[1] if found else "", "other")
    return next((writer for prefix, writer in WRITERS.items() if name.startswith(prefix)), "other")


def _job(match: re.Match[str]) -> str | None:
    """Gives the scrape that a use of `up` asks for, None for other names and for `up` of everything."""
    if (match["inner"] or match["bare"]) != "up":
        return None
    found = re.search(r'\bjob="([^"]*)"', match["asked"] or match["matchers"] or "")
    return found[1] if found else None


def _with_job(asked: str, jobs: tuple[str, ...]) -> str:
    literal = "|".join(re.sub(r"([\\\\.+*?()|\[\]{}^$])", r"\\\\\1", job) for job in jobs)
    text = f'job="{jobs[0]}"' if len(jobs) == 1 else f'job=~"{literal}"'
    return re.sub(r'\bjob="[^"]*"', lambda _: text, asked, count=1)
