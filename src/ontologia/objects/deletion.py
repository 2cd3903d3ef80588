"""Deleting an object under a condition, which obstore cannot: a signed URL, sent with `If-Match` over plain HTTP.

Connections are kept and used again. One that the server has closed meanwhile is noticed before anything is sent, so
that an idle hour does not turn the next deletion into one of unknown outcome.
"""

from __future__ import annotations

import http.client
import os
import re
import select
import ssl
import threading
import time
import urllib.request
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from ontologia.objects.failures import Failed, Failure, failure_of_answer

IDLE_S = 20.0
"""A connection that was idle for longer is not trusted any more."""
MOST_IDLE = 8
_CODE = re.compile(rb"<Code>\s*([A-Za-z0-9_.-]{1,80})\s*</Code>")


@dataclass(frozen=True, slots=True)
class _Idle:
    origin: tuple[str, str]
    connection: http.client.HTTPConnection
    since: float


class ConditionalDeletion:
    """Sends deletions over connections that it keeps."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        self._closed = False

    def send(self, url: str, etag: str) -> None:
        """Delete what the signed URL names when it has this ETag (as it is sent: with its quotes).

        Raises `Failed`: `conflict` when the condition does not hold or the object is gone, `unsent` when there was no
        connection, `lost` when the answer did not come.
        """
        target = urlsplit(url)
        connection, through_proxy = self._connected(target)
        path = url if through_proxy else f"{target.path}?{target.query}"
        try:
            connection.request("DELETE", path, headers={"If-Match": etag})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            code = "timeout" if isinstance(error, TimeoutError) else "interrupted"
            raise Failed(Failure("lost", code=code)) from error
        if answer.will_close:
            connection.close()
        else:
            self._keep(target, connection)
        if answer.status not in {200, 202, 204}:
            raise Failed(_failure(answer.status, body))

    def close(self) -> None:
        """Close what is idle, and from now on every connection after its use."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for one in idle:
            one.connection.close()

    def _connected(self, target: SplitResult) -> tuple[http.client.HTTPConnection, bool]:
        """A connection that is open, and whether it is one to a proxy that wants whole URLs."""
        proxy = _proxy(target)
        through_proxy = proxy is not None and target.scheme == "http"
        kept = self._take(target)
        if kept is not None:
            return kept, through_proxy
        connection = _connection(target, proxy, self._timeout_s)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise Failed(Failure("refused", code="certificate")) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Failed(Failure("unsent", code="connection")) from error
        return connection, through_proxy

    def _take(self, target: SplitResult) -> http.client.HTTPConnection | None:
        origin, now = (target.scheme, target.netloc), time.monotonic()
        with self._lock:
            usable = [one for one in self._idle if one.origin == origin]
            self._idle = [one for one in self._idle if one.origin != origin]
            found = usable.pop() if usable else None
            self._idle += usable
        if found is None:
            return None
        # Nothing is expected on an idle connection: something to read means that the server has closed it.
        if now - found.since > IDLE_S or select.select([found.connection.sock], [], [], 0)[0]:
            found.connection.close()
            return self._take(target)
        return found.connection

    def _keep(self, target: SplitResult, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            keep = not self._closed and len(self._idle) < MOST_IDLE
            if keep:
                self._idle.append(_Idle((target.scheme, target.netloc), connection, time.monotonic()))
        if not keep:
            connection.close()


def _failure(status: int, body: bytes) -> Failure:
    code = _CODE.search(body)
    failure = failure_of_answer(status, code[1].decode() if code else None)
    return Failure("conflict", status, failure.code) if failure.kind == "missing" else failure


def _proxy(target: SplitResult) -> SplitResult | None:
    """The proxy of the environment, as obstore finds it too."""
    address = urllib.request.getproxies().get(target.scheme)
    if not address or urllib.request.proxy_bypass(target.hostname or ""):
        return None
    return urlsplit(address if "://" in address else f"http://{address}")


def _connection(target: SplitResult, proxy: SplitResult | None, timeout_s: float) -> http.client.HTTPConnection:
    first = proxy or target
    host, port = first.hostname or "", first.port
    if target.scheme != "https":
        return http.client.HTTPConnection(host, port or 80, timeout=timeout_s)
    authority = os.environ.get("AWS_CA_BUNDLE")
    context = ssl.create_default_context()
    if authority:
        context.load_verify_locations(cafile=authority)
    connection = http.client.HTTPSConnection(host, port or (80 if proxy else 443), timeout=timeout_s, context=context)
    if proxy is not None:
        connection.set_tunnel(target.hostname or "", target.port or 443)
    return connection
