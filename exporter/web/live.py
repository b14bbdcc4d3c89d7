"""The file of `--web.config.file` as it stands now: certificates rotate and passwords change without a restart."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from exporter.errors import ConfigError
from exporter.web.auth import BasicAuth
from exporter.web.config import WebConfig, read_web_config
from exporter.web.limit import Bucket
from exporter.web.tls import make_context

_CHECK_EVERY_S = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Guard:
    """What a connection and its requests must pass."""

    context: ssl.SSLContext | None
    allowed_sans: frozenset[str]
    headers: tuple[tuple[str, str], ...]
    auth: BasicAuth
    bucket: Bucket
    describe: str

    @property
    def open(self) -> bool:
        """Whether pages go in the clear to anyone."""
        return self.context is None and not self.auth.needed


def open_guard() -> Guard:
    """Lets everyone in."""
    return Guard(None, frozenset(), (), BasicAuth(()), Bucket(None), "no TLS, no password")


class LiveGuard:
    """Gives the guard that the file describes, and follows its changes.

    The file and what it names are looked at once a second at most, when somebody connects. A new state that cannot
    be used is logged, and the last good one holds: a rotation replaces certificate and key one after the other.

    Args:
        path: the file, None to let everyone in for good.
        clock: monotonic seconds.

    Raises:
        ConfigError: the file cannot be used as it stands at the start.
    """

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._checked_s = clock()
        self._stamps: dict[Path, tuple[int, ...]] = {}
        self._complaint = ""
        self._guard = open_guard() if path is None else self._load(path, None)

    def current(self) -> Guard:
        """The guard now; whoever comes while another thread reads the files gets the one before."""
        path = self._path
        if path is not None and self._clock() - self._checked_s >= _CHECK_EVERY_S and self._lock.acquire(False):
            try:
                self._checked_s = self._clock()
                if self._complaint or _stamps(self._stamps) != self._stamps:
                    self._guard = self._reload(path)
            finally:
                self._lock.release()
        return self._guard

    def _reload(self, path: Path) -> Guard:
        try:
            guard = self._load(path, self._guard)
        except ConfigError as exc:
            if str(exc) != self._complaint:
                for line in str(exc).splitlines():
                    _log.error("%s; what held before still holds", line)
            self._complaint = str(exc)
            return self._guard
        self._complaint = ""
        _log.info("%s: read anew: %s", path, guard.describe)
        return guard

    def _load(self, path: Path, before: Guard | None) -> Guard:
        stamps = _stamps([path])
        config = read_web_config(path)
        stamps |= _stamps(config.tls.files if config.tls else ())
        guard = _make_guard(config, path, before)
        self._stamps = stamps  # taken before the files were read: a change in between is seen by the next look
        for note in config.notes:
            _log.info("%s", note)
        return guard


def _make_guard(config: WebConfig, path: Path, before: Guard | None) -> Guard:
    context = make_context(config.tls, path) if config.tls else None
    if before is not None and (before.context is None) != (context is None):
        raise ConfigError(f"{path}: TLS cannot come or go while the exporter runs; restart it")
    bucket = before.bucket if before is not None and before.bucket.rate == config.rate else Bucket(config.rate)
    try:
        auth = BasicAuth(config.users)
    except ConfigError as exc:
        raise ConfigError(f"{path}: {exc}") from exc
    clients = config.tls is not None and config.tls.client_ca is not None
    parts = ["TLS" if context else "no TLS", *(["client certificates"] if clients else [])]
    parts.append("passwords" if config.users else "no password")
    sans = config.tls.allowed_sans if config.tls else frozenset()
    if before is not None and before.auth.needed and not auth.needed:
        raise ConfigError(f"{path}: passwords cannot go while the exporter runs, an emptied file least; restart it")
    return Guard(context, sans, config.headers, auth, bucket, ", ".join(parts))


def _stamps(paths: Iterable[Path]) -> dict[Path, tuple[int, ...]]:
    """What changes when a file is written or replaced; () for one that cannot be looked at."""
    found: dict[Path, tuple[int, ...]] = {}
    for path in paths:
        try:
            stat = path.stat()
            found[path] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        except OSError:
            found[path] = ()
    return found
