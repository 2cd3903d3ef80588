"""The S3 servers of a test run: SeaweedFS and moto, each started once, when the first test asks for it.

The process that began the run owns them: it listens on a local port, and the workers of xdist ask it for an endpoint
by name. The servers end with that process, whatever ended it. `ONTOLOGIA_TEST_S3_ENDPOINT` names another server to
use in place of SeaweedFS, with the credentials of the environment.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ELSEWHERE = "ONTOLOGIA_TEST_S3_ENDPOINT"
DESK = "ONTOLOGIA_TEST_S3_DESK"
"""Where the workers ask for servers: `host:port`, set by the process that began the run."""

BUCKET = "ontologia-test"
REGION = "us-east-1"
ACCESS_KEY, SECRET_KEY = "testkey", "testsecret"
READY_WITHIN = 30.0

EXEC_BOUND_TO_PARENT = """
import ctypes, os, signal, sys
parent, command = int(sys.argv[1]), sys.argv[2:]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, kept over exec
if os.getppid() != parent:
    sys.exit("the test run has ended")
os.execv(command[0], command)
"""
"""Becomes the server, which the kernel kills when the thread that started it ends: no server outlives `kill -9`."""

IDENTITIES = {
    "identities": [
        {
            "name": "test",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
}


@dataclass(slots=True)
class Server:
    """A server that runs, and the folder that goes with it."""

    endpoint: str
    process: subprocess.Popen[bytes]
    folder: Path

    def stop(self) -> None:
        """End the server at once: its data are not needed any more."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return True
    return False


def free_ports(count: int) -> list[int]:
    """Ports that are free, and free 10000 higher too, where SeaweedFS speaks gRPC; below those the kernel gives out."""
    found: list[int] = []
    while len(found) < count:
        port = random.randint(12_000, 21_999)
        if port not in found and _free(port) and _free(port + 10_000):
            found.append(port)
    return found


def _answers(endpoint: str) -> bool:
    """Whether something speaks HTTP there, be it to refuse."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=1)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _launch(command: list[str], endpoint: str, folder: Path) -> Server:
    """Start a server and wait until it answers; one that ends or stays silent is an error with its log."""
    log = folder / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", EXEC_BOUND_TO_PARENT, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    server = Server(endpoint, process, folder)
    deadline = time.monotonic() + READY_WITHIN
    while not _answers(endpoint):
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text(errors="replace")[-2000:]
            server.stop()
            raise RuntimeError(f"{command[0]} did not start: {said}")
        time.sleep(0.02)  # waits for another program, which no clock of ours can move
    return server


def start_seaweedfs() -> Server:
    """SeaweedFS on this machine only, with one identity and nothing but S3."""
    weed = Path(sys.executable).with_name("weed")
    folder = Path(tempfile.mkdtemp(prefix="onto-s3-"))
    master, volume, filer, s3, admin = free_ports(5)
    identities = folder / "identities.json"
    identities.write_text(json.dumps(IDENTITIES))
    (folder / "data").mkdir()
    command = [
        *(str(weed), "mini", "-dir", str(folder / "data")),
        *("-ip", "127.0.0.1", "-ip.bind", "127.0.0.1"),
        *("-master.port", str(master), "-volume.port", str(volume), "-filer.port", str(filer)),
        *("-admin.port", str(admin), "-s3.port", str(s3), "-s3.config", str(identities)),
        *("-s3.localSocket", str(folder / "s3.sock"), "-filer.localSocket", str(folder / "filer.sock")),
        *("-s3.port.iceberg", "0", "-s3.port.lance", "0", "-s3.autoCreateBucket=false"),
        *("-webdav=false", "-admin.ui=false", "-master.telemetry=false"),
    ]
    return _launch(command, f"http://127.0.0.1:{s3}", folder)


def start_moto() -> Server:
    """The server of moto: S3 as its authors understand it, kept in memory."""
    folder = Path(tempfile.mkdtemp(prefix="onto-moto-"))
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    return _launch(command, f"http://127.0.0.1:{port}", folder)


STARTS = {"seaweedfs": start_seaweedfs, "moto": start_moto}


def client(endpoint: str) -> Any:
    """A boto3 client, to look at the server without our own code."""
    import boto3  # pyright: ignore[reportMissingTypeStubs]
    from botocore.config import Config  # pyright: ignore[reportMissingTypeStubs]

    keys = credentials()
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=os.environ.get("AWS_REGION", REGION),
        aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=keys.get("AWS_SESSION_TOKEN"),
        config=Config(s3={"addressing_style": "path"}),
    )


def ensure_bucket(endpoint: str, bucket: str = BUCKET) -> None:
    """Create the bucket unless it is there."""
    from botocore.exceptions import ClientError  # pyright: ignore[reportMissingTypeStubs]

    server = client(endpoint)
    try:
        server.head_bucket(Bucket=bucket)
    except ClientError:
        with contextlib.suppress(server.exceptions.BucketAlreadyOwnedByYou, server.exceptions.BucketAlreadyExists):
            server.create_bucket(Bucket=bucket)
        # The first write to a bucket may take a while: SeaweedFS makes room for it.
        server.put_object(Bucket=bucket, Key="first-write", Body=b"")
    finally:
        server.close()


def credentials() -> dict[str, str]:
    """The environment that the server's credentials come from."""
    if os.environ.get(ELSEWHERE):
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        return {name: os.environ[name] for name in names if name in os.environ}
    return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


def fresh_uri() -> str:
    """A prefix that nobody has used."""
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@dataclass(slots=True)
class Desk:
    """Starts servers for whoever asks, one of each kind, and stops them at the end of the run."""

    servers: dict[str, Server] = field(default_factory=dict[str, Server])
    lock: threading.Lock = field(default_factory=threading.Lock)
    _listener: socketserver.TCPServer | None = None

    def open(self) -> None:
        """Listen for workers. The thread that starts the servers lives as long as the run: they end with it."""
        desk = self

        class Answer(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                name = self.rfile.readline().decode().strip()
                try:
                    answer = {"endpoint": desk.endpoint(name)}
                except Exception as error:  # noqa: BLE001 - the worker that asked reports it
                    answer = {"error": repr(error)}
                self.wfile.write(json.dumps(answer).encode() + b"\n")

        # One thread for all requests: a server bound to the thread of one request would end with that request.
        listener = socketserver.TCPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=listener.serve_forever, name="s3-desk", daemon=True).start()
        os.environ[DESK] = f"127.0.0.1:{listener.server_address[1]}"
        self._listener = listener

    def endpoint(self, name: str) -> str:
        """The endpoint of a server, started now if it was not."""
        with self.lock:
            if name not in self.servers:
                try:
                    server = STARTS[name]()
                except RuntimeError:
                    server = STARTS[name]()  # somebody else took one of the ports just before
                self.servers[name] = server
                ensure_bucket(server.endpoint)
            return self.servers[name].endpoint

    def close(self) -> None:
        if self._listener is not None:
            os.environ.pop(DESK, None)
            self._listener.shutdown()
            self._listener.server_close()
        for server in self.servers.values():
            server.stop()
        self.servers.clear()


def endpoint(name: str = "seaweedfs") -> str:
    """The endpoint of a server of this run; the first to ask waits about a second."""
    elsewhere = os.environ.get(ELSEWHERE)
    if name == "seaweedfs" and elsewhere:
        ensure_bucket(elsewhere)
        return elsewhere
    host, _, port = os.environ[DESK].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=2 * READY_WITHIN) as connection:
        connection.sendall(f"{name}\n".encode())
        with connection.makefile("rb") as lines:
            answer = json.loads(lines.readline())
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return str(answer["endpoint"])
