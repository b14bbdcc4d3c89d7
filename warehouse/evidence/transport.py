"""Asks a server over the Prometheus HTTP API: again where that may help, a bounded number of times, all counted."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import httpx

from warehouse.errors import BadInput
from warehouse.evidence.access import Access
from warehouse.evidence.answers import Failure, PassingError, PrometheusError, excerpt, whole

Parameters = Mapping[str, str | list[str]]


@dataclass(frozen=True, slots=True)
class Patience:
    """How often to ask again. Each pause is drawn from the upper half of one that doubles from time to time.

    The defaults outlast the reload of a gateway; after a longer outage the worker comes back by itself.

    Attributes:
        tries: requests for one question, the first among them.
        first_s: the first pause at most, in seconds.
        total_s: seconds after the question beyond which no repetition begins.
    """

    tries: int = 4
    first_s: float = 0.5
    total_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a client has done so far: `requests` are the answered ones and all `failures` together.

    Attributes:
        requests: HTTP requests sent.
        retries: those of them that repeat one that failed.
        splits: pieces that were halved, being too large or too slow.
        failures: requests without a whole answer, by kind; those that a repetition made good are among them.
        spent_s: seconds spent on all of it, pauses included.
    """

    requests: int
    retries: int
    splits: int
    failures: Mapping[Failure, int]
    spent_s: float


class Transport:
    """One server, one pool of connections, and the count of what went over them.

    Args:
        base_url: address without `/api/v1`; a path before it is kept.
        timeout_s: seconds from a request to the end of its answer.
        access: credentials, read anew for every request.
        patience: how often to ask again.

    Raises:
        BadInput: when the credentials cannot be used.
    """

    def __init__(self, base_url: str, timeout_s: float, access: Access, patience: Patience) -> None:
        self._base_url = base_url.rstrip("/")
        # Messages reach logs and screens; a password in the address must not.
        self.name = re.sub(r"//[^/@]*@", "//", self._base_url)
        if "authorization" in access.headers() and self.name != self._base_url:
            raise BadInput(f"{self.name}: the address has a password, and a file has credentials too; keep one of them")
        self._timeout_s = timeout_s
        self._access = access
        self._patience = patience
        # Pauses by chance: many clients of a server that comes back must not all ask at one instant.
        self._chance = random.Random()
        self._http = httpx.Client(timeout=timeout_s)
        self._requests = self._retries = self._splits = 0
        self._failures: Counter[Failure] = Counter()
        self._spent_s = 0.0

    def close(self) -> None:
        """Closes the connections; nothing can be asked afterwards."""
        self._http.close()

    def traffic(self) -> Traffic:
        """Gives what was done so far, with every kind of failure."""
        failures = MappingProxyType({kind: self._failures[kind] for kind in Failure})
        return Traffic(self._requests, self._retries, self._splits, failures, self._spent_s)

    def count_split(self) -> None:
        """Counts a piece that its asker halves."""
        self._splits += 1

    def get(self, endpoint: str, parameters: Parameters) -> Any:
        """Gives `data` of the answer of an endpoint that takes no POST.

        Raises:
            PrometheusError: for every failure and every answer that is not whole.
        """
        return self._ask("GET", endpoint, parameters, again_after_timeout=True)

    def post(self, endpoint: str, form: Parameters, again_after_timeout: bool = True) -> Any:
        """Gives `data` of the answer. POST, since a matcher with many nodes outgrows the length that a URL may have.

        Args:
            endpoint: what follows `/api/v1/`.
            form: the parameters.
            again_after_timeout: False where the asker would rather ask for less.

        Raises:
            PrometheusError: for every failure and every answer that is not whole.
        """
        # The server too should give up then: nobody would hear it.
        return self._ask("POST", endpoint, {"timeout": f"{self._timeout_s:g}", **form}, again_after_timeout)

    def _ask(self, method: str, endpoint: str, sent: Parameters, again_after_timeout: bool) -> Any:
        began_s = time.monotonic()
        tries = 0
        try:
            while True:
                tries += 1
                try:
                    return self._once(method, endpoint, sent)
                except PassingError as exc:
                    drawn_s = self._patience.first_s * 2 ** (tries - 1) * (1 + self._chance.random()) / 2
                    pause_s = max(drawn_s, exc.after_s)
                    late = time.monotonic() + pause_s > began_s + self._patience.total_s
                    final = exc.kind is Failure.TIMEOUT and not again_after_timeout
                    if tries >= self._patience.tries or late or final:
                        raise
                time.sleep(pause_s)
                self._retries += 1
        finally:
            self._spent_s += time.monotonic() - began_s

    def _once(self, method: str, endpoint: str, sent: Parameters) -> Any:
        try:
            headers = self._access.headers()
        except BadInput as exc:
            # It could be read when the program began; the next look may find it again.
            raise PrometheusError(exc.lines[0], Failure.REFUSED) from exc
        self._requests += 1
        try:
            status, retry_after, content = self._exchange(method, endpoint, sent, headers)
            return whole(self.name, status, retry_after, content)
        except PrometheusError as exc:
            self._failures[exc.kind] += 1
            raise

    def _exchange(
        self, method: str, endpoint: str, sent: Parameters, headers: Mapping[str, str]
    ) -> tuple[int, str, bytes]:
        """Gives status, Retry-After and body. The limit holds for the whole answer, not for each packet alone."""
        give_up_s = time.monotonic() + self._timeout_s
        url = f"{self._base_url}/api/v1/{endpoint}"
        params, data = (sent, None) if method == "GET" else (None, sent)
        content = bytearray()
        try:
            with self._http.stream(method, url, headers=headers, params=params, data=data) as response:
                for chunk in response.iter_bytes():
                    content += chunk
                    if time.monotonic() > give_up_s:
                        raise httpx.ReadTimeout("the answer does not end")
        except httpx.TimeoutException as exc:
            said = f"gave no answer within {self._timeout_s:g} s"
            raise PassingError(f"{self.name} {said}", Failure.TIMEOUT) from exc
        except httpx.DecodingError as exc:
            said = f"gave an answer that cannot be unpacked: {excerpt(str(exc))}"
            raise PrometheusError(f"{self.name} {said}", Failure.MALFORMED) from exc
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            wrong = isinstance(exc, httpx.UnsupportedProtocol | httpx.InvalidURL)
            kind = PrometheusError if wrong else PassingError
            raise kind(f"{self.name} cannot be reached: {excerpt(str(exc))}", Failure.UNREACHABLE) from exc
        return response.status_code, response.headers.get("Retry-After", ""), bytes(content)
