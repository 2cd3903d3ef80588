"""A real server behind a bad line: requests pass through here, and some of them meet with an accident.

The accidents are those of the network and of gateways: an answer that never comes back, an error in place of one, a
connection closed before anything was done, a header lost on the way.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Accident:
    """What happens to one request."""

    status: int | None = None
    """Answer with this, without asking the server."""
    code: str = "InternalError"
    forward: bool = False
    """Let the server do it first."""
    hang: bool = False
    """Say nothing until the client gives up."""
    without: tuple[str, ...] = ()
    """Pass it on without these headers, and all is well otherwise."""


LOSE_ANSWER = Accident(forward=True)
BREAK_BEFORE = Accident()


@dataclass(slots=True)
class Relay:
    """Where clients connect to, what they asked for, and what befalls them."""

    endpoint: str
    seen: list[str] = field(default_factory=list[str])
    conditions: list[str] = field(default_factory=list[str])
    accidents: list[Accident] = field(default_factory=list[Accident])
    """One for each of the next requests."""
    always: Callable[[str], Accident | None] = lambda _: None
    """What befalls a request line when no other accident is due."""
    released: threading.Event = field(default_factory=threading.Event)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    relay: Relay
    upstream: str


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def _serve(self) -> None:
        relay, line = self.server.relay, f"{self.command} {self.path}"
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        relay.seen.append(line)
        relay.conditions += [f"{n}: {v}" for n, v in self.headers.items() if n.lower().startswith("if-")]
        accident = relay.accidents.pop(0) if relay.accidents else relay.always(line)
        if accident is None:
            self._answer(*self._ask(body, ()))
        elif accident.without:
            self._answer(*self._ask(body, accident.without))
        else:
            self._mishap(accident, body)

    def _mishap(self, accident: Accident, body: bytes) -> None:
        if accident.forward:
            self._ask(body, ())
        if accident.hang:
            self.server.relay.released.wait(30)
        if accident.status is None or accident.hang:
            self.close_connection = True
            return
        text = f"<Error><Code>{accident.code}</Code><Message>so</Message></Error>".encode()
        self._answer(accident.status, {}, b"" if self.command == "HEAD" else text)

    def _ask(self, body: bytes, without: tuple[str, ...]) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(urlsplit(self.server.upstream).netloc, timeout=30)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in without:
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
        for name, value in headers.items():
            if name.lower() not in {"content-length", "connection", "transfer-encoding"}:
                self.send_header(name, value)
        if status not in {204, 304}:
            self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 - names of the standard library

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the standard library
        """Say nothing."""


@contextmanager
def relay_to(upstream: str, tls: ssl.SSLContext | None = None) -> Generator[Relay]:
    """A relay to a server, for as long as the block lasts."""
    relay = Relay("")
    server = _Server(("127.0.0.1", 0), _Handler)
    server.relay, server.upstream = relay, upstream
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    relay.endpoint = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield relay
    finally:
        relay.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
