"""What the exporter remembers of XIDs, whichever source saw them, and how it tells them one by one in its log."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from threading import Lock

from exporter import metrics as m
from exporter.readings import Identity, Sample, XidEvent

_Key = tuple[str, str, int]  # uuid, slot, xid


class XidTimes:
    """When each XID of each GPU was last seen, by any source. The later time wins, in whichever order they come."""

    def __init__(self) -> None:
        self._last_s: dict[_Key, float] = {}
        self._lock = Lock()  # the sources have a thread each

    def add(self, event: XidEvent) -> None:
        """Takes in one event."""
        key = (event.uuid, event.slot, event.xid)
        with self._lock:
            self._last_s[key] = max(event.at_s, self._last_s.get(key, event.at_s))

    def samples(self) -> Iterator[Sample]:
        """One line per XID that was seen. They stand on a page once, after the counts of all sources: a count never
        stands beside the time of an earlier event."""
        with self._lock:
            last_s = dict(self._last_s)
        for (uuid, slot, xid), at_s in last_s.items():
            yield Sample(m.GPU_XID_LAST, (uuid, slot, str(xid)), at_s)


class XidCounts:
    """XIDs of one source since the start, by GPU and number. No code is left out and nothing is ever cleared.

    Args:
        source: value of the `source` label, "nvml" or "kmsg".
        times: shared by all sources of the node, since the time of the last event is one family for all.
    """

    def __init__(self, source: str, times: XidTimes) -> None:
        self._source = source
        self._times = times
        self._seen: dict[_Key, int] = {}

    def add(self, event: XidEvent, times: int = 1) -> None:
        """Counts one event, or several that are alike, and remembers when.

        Args:
            event: the last of them.
            times: how many; 0 for an event from before the start, of which only the time may be told.
        """
        key = (event.uuid, event.slot, event.xid)
        self._times.add(event)
        self._seen[key] = self._seen.get(key, 0) + times

    def samples(self, gpus: Iterable[Identity]) -> Iterator[Sample]:
        """Watched XIDs of `gpus`, at 0 if unseen, and every XID that was seen."""
        rows = {(gpu.uuid, gpu.slot, xid): 0 for gpu in gpus for xid in m.WATCHED_XIDS}
        rows.update(self._seen.copy())
        for (uuid, slot, xid), count in rows.items():
            yield Sample(m.GPU_XID_EVENTS, (uuid, slot, str(xid), self._source), float(count))


LINES_PER_MINUTE = 60
_MINUTE_S = 60.0
_NAMED = 8


class XidLog:
    """The event record: one log line per event, in order, with what no metric label may carry.

    At most `LINES_PER_MINUTE` a minute, or a storm of consequences (10,000 times XID 45) would fill the disk; how many
    were left out, and of what, is told at the end of that minute. The counters count every one of them all the same.

    Args:
        source: "nvml" or "kmsg".
        logger: where the lines go.
        clock: monotonic seconds.
    """

    def __init__(self, source: str, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._logger = logger
        self._clock = clock
        self._minute_s = -_MINUTE_S
        self._lines = 0
        self._left_out: Counter[str] = Counter()

    def tell(self, at_s: float, fields: Mapping[str, object], level: int = logging.WARNING) -> None:
        """One event.

        Args:
            at_s: Unix time.
            fields: what is known, in the order in which it is written; None and "" are unknown and left out.
            level: of the log line.
        """
        self.flush()
        known = {name: value for name, value in fields.items() if value is not None and value != ""}
        if self._lines >= LINES_PER_MINUTE:
            self._left_out["/".join(str(known[name]) for name in ("slot", "xid", "sxid") if name in known)] += 1
            return
        self._lines += 1
        parts = [f"{name}={_plain(value)}" for name, value in known.items()]
        at = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._logger.log(level, "xid source=%s %s at=%s", self._source, " ".join(parts), at)

    def flush(self, last: bool = False) -> None:
        """Says what was left out, once its minute is over; to be called now and then, and a `last` time at the end."""
        now_s = self._clock()
        if now_s - self._minute_s < _MINUTE_S and not last:
            return
        if self._left_out:
            named = " ".join(f"{what}={count}" for what, count in self._left_out.most_common(_NAMED))
            total = self._left_out.total()
            self._logger.warning("xid source=%s left_out=%d of one minute: %s", self._source, total, named)
        self._minute_s, self._lines = now_s, 0
        self._left_out.clear()


def _plain(value: object) -> str:
    """A value as one word: a process may call itself what it likes, and the log is read by line and by blank."""
    text = ascii(value)[1:-1] if isinstance(value, str) else str(value)
    return f"'{text}'" if " " in text or "=" in text or not text else text
