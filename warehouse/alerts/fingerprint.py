"""Which alert is which: a key of our own over its labels, the same from every replica that sends it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping

_HEX_DIGITS = 32


def fingerprint(labels: Mapping[str, str], ignored: Collection[str]) -> str:
    """Gives 128 bits of a hash over the sorted labels without the ignored ones, in hexadecimal.

    The sender's own is kept beside it and not used: it differs between replicas, and Grafana makes it by other rules.
    """
    kept = sorted((name, value) for name, value in labels.items() if name not in ignored)
    # JSON, since names and values joined by any sign could hold that sign.
    text = json.dumps(kept, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:_HEX_DIGITS]
