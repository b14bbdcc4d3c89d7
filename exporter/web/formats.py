"""Which format and which encoding a client wants (RFC 9110, sections 12.4.2 and 12.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client import openmetrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.registry import Collector

Encoder = Callable[[Collector], bytes]

_VERSIONS = {"application/openmetrics-text": ("", "0.0.1", "1.0.0"), "text/plain": ("", "0.0.4", "1.0.0")}
_ANY = ("*/*", "text/*")


def choose_format(accept: str) -> tuple[Encoder, str]:
    """The writer and the content type for the best format of an Accept header.

    The library's own choice follows the order of the header, believes any version and fails on one that is no
    version; so it is asked about the one format that was chosen. Plain text is for all that nobody here writes,
    since a scraper can do nothing with a 406.
    """
    for kind, parameters in _ranked(accept):
        version = parameters.get("version", "")
        if kind in _ANY:
            break
        if version not in _VERSIONS.get(kind, ()):
            continue
        if version == "0.0.1":  # the library writes it, but never chooses it
            writer = partial(write_openmetrics, escaping=openmetrics.exposition.UNDERSCORES, version=version)
            return writer, f"application/openmetrics-text; version={version}; charset=utf-8"
        wanted = "".join(f";{name}={parameters[name]}" for name in ("version", "escaping") if name in parameters)
        return choose_encoder(kind + wanted)
    return choose_encoder("")


def gzip_wanted(accept_encoding: str) -> bool:
    """Whether an Accept-Encoding header prefers gzip to no encoding; naming gzip without a weight does."""
    weights = {coding: weight for coding, _, weight in _items(accept_encoding)}
    gzip = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    return gzip > 0.0 and gzip >= weights.get("identity", 0.0)


def _ranked(accept: str) -> list[tuple[str, dict[str, str]]]:
    """What is accepted, best first; equals in the order of the header."""
    items = sorted(_items(accept), key=lambda item: -item[2])
    return [(kind, parameters) for kind, parameters, weight in items if weight > 0.0]


def _items(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Each item: its name, its parameters, its weight; a weight that is none makes an item unwanted."""
    for item in header.split(","):
        name, *rest = (part.strip() for part in item.split(";"))
        if not name:
            continue
        parameters = {}
        for part in rest:
            key, _, value = part.partition("=")
            parameters[key.strip().lower()] = value.strip().strip('"')
        try:
            weight = float(parameters.pop("q", "1"))
        except ValueError:
            weight = 0.0
        yield name.lower(), parameters, weight if 0.0 <= weight <= 1.0 else 0.0
