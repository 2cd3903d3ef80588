"""What went wrong with a request, read from what the server or the network said, and told to people.

obstore reports most failures as one class with a long text; here the text becomes a `Failure` whose `kind` says what a
caller can do. Whatever is not understood counts as `lost`, the kind that promises nothing about the outcome.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Protocol

from ontologia.errors import StorageBackendError

Kind = Literal[
    "missing",  # there is no such object
    "conflict",  # a condition does not hold
    "unchanged",  # the object still has the tag
    "unsent",  # no connection: the server has seen nothing
    "lost",  # sent, and no usable response: it may have happened
    "throttled",  # the server asks for fewer requests
    "stale",  # the credentials are not valid any more
    "refused",  # the server said no, and will say so again
]

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>\s*([A-Za-z0-9_.-]{1,80})\s*</Code>")
_HTTP_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")

_THROTTLED = {
    *("SlowDown", "SlowDownRead", "SlowDownWrite", "ServiceUnavailable", "RequestLimitExceeded"),
    *("Throttling", "ThrottlingException", "TooManyRequests", "TooManyRequestsException", "ServerBusy"),
}
_STALE = {
    *("ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired"),
    *("InvalidAccessKeyId", "InvalidClientTokenId"),
}
_KINDS: dict[int, Kind] = {404: "missing", 412: "conflict", 409: "conflict", 304: "unchanged"}
_NO_CONTAINER = {"NoSuchBucket", "ContainerNotFound"}


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request: what it means, and what was said."""

    kind: Kind
    status: int | None = None
    code: str | None = None
    """The server's code (`AccessDenied`), or ours for a failure of the network: `timeout`, `connection`, …"""


class Failed(Exception):  # noqa: N818 - carries a Failure inside this package, never leaves it
    """A request that failed; `failure` says how."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


def failure_of(error: Exception) -> Failure:
    """The failure behind an exception of obstore."""
    text = str(error)
    status = _STATUS.search(text)
    code = _CODE.search(text)
    if status is not None:
        return failure_of_answer(int(status[1]), code[1] if code else None)
    if isinstance(error, FileNotFoundError):
        return Failure("missing")
    return _failure_of_network(type(error).__name__, text)


def failure_of_answer(status: int, code: str | None) -> Failure:
    """The failure that an answer with this status and code is."""
    return Failure(_kind_of_answer(status, code), status, code)


def _kind_of_answer(status: int, code: str | None) -> Kind:
    if code in _STALE:
        return "stale"
    if code in _NO_CONTAINER:
        return "refused"
    if status in _KINDS:
        return _KINDS[status]
    if status == 429 or code in _THROTTLED:
        return "throttled"
    if status == 408 or code == "RequestTimeout" or (status >= 500 and status != 501):
        return "lost"
    return "refused"


def _failure_of_network(name: str, text: str) -> Failure:
    lowered = text.lower()
    kind = _HTTP_KIND.search(text)
    if "latest/api/token" in text or "169.254." in text:
        return Failure("refused", code="no-credentials")
    if "invalid peer certificate" in lowered or "invalidcertificate" in lowered:
        return Failure("refused", code="certificate")
    if "redirect without location" in lowered:
        return Failure("refused", code="region")
    if name in {"PermissionDeniedError", "UnauthenticatedError"}:
        return Failure("refused", code="credentials")
    if name in {"InvalidPathError", "NotSupportedError", "UnknownConfigurationKeyError", "ValueError"}:
        return Failure("refused", code=name.removesuffix("Error"))
    if kind is not None and kind[1] == "Connect":
        return Failure("unsent", code="dns" if "dns error" in lowered else "connection")
    if kind is not None and kind[1] == "Timeout":
        return Failure("lost", code="timeout")
    return Failure("lost", code="interrupted")


_SAID = {
    "connection": "no connection to the server",
    "dns": "the name of the server is not known",
    "timeout": "no answer in time",
    "interrupted": "the connection broke",
    "certificate": "the server's certificate is not trusted",
    "region": "the bucket is in another region",
    "no-credentials": "no credentials were found",
    "credentials": "the credentials were not accepted",
    "no-etag": "the server sends no ETag",
}
_CONNECT_HINT = "Check s3_endpoint_url, the network, and that the server is running."
_CLOCK_HINT = "Set this machine's clock: the server sees another time."
_HINTS = {
    "connection": _CONNECT_HINT,
    "dns": _CONNECT_HINT,
    "timeout": "Try again later, or raise s3_request_timeout_s.",
    "interrupted": "Try again later.",
    "certificate": "Name the certificate authority's file in AWS_CA_BUNDLE.",
    "region": "Set s3_region to the region of the bucket.",
    "no-credentials": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
    "no-etag": "Use a server that identifies states of an object by ETag, as S3 does.",
    "NoSuchBucket": "Create the bucket, or correct its name.",
    "ContainerNotFound": "Create the container, or correct its name.",
    "AccessDenied": "Allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket on this bucket and prefix.",
    "SignatureDoesNotMatch": "Check AWS_SECRET_ACCESS_KEY, and that s3_region is the region of the bucket.",
    "AuthorizationHeaderMalformed": "Set s3_region to the region of the bucket.",
    "PermanentRedirect": "Set s3_region to the region of the bucket.",
    "IllegalLocationConstraintException": "Set s3_region to the region of the bucket.",
    "RequestTimeTooSkewed": _CLOCK_HINT,
    "NotImplemented": "This server does not know conditional writes; use one that does (see `onto doctor`).",
}
_KIND_HINTS: dict[Kind, str] = {
    "stale": "Renew the credentials: the token has expired or the access key is not valid.",
    "throttled": "Try again later: the server asks for fewer requests.",
    "lost": "Try again later.",
    "refused": "See what the server says about this code.",
    "missing": "Check the bucket and the prefix.",
}


class Place(Protocol):
    """Where something failed."""

    @property
    def uri(self) -> str: ...

    @property
    def bucket(self) -> str: ...

    @property
    def prefix(self) -> str: ...


def backend_error(place: Place, operation: str, key: str | None, failure: Failure) -> StorageBackendError:
    """The error for people: what was tried, on what, what was said, and what to do."""
    answer = " ".join(str(part) for part in (failure.status, failure.code) if part is not None)
    said = _SAID.get(failure.code or "", answer or failure.kind)
    hint = _HINTS.get(failure.code or "")
    if hint is None:
        hint = _HINTS["AccessDenied"] if failure.status in {401, 403} and failure.kind == "refused" else None
    where = f"{key!r} in {place.uri}" if key else place.uri
    return StorageBackendError(
        f"Object storage: {operation} of {where} failed: {said}.",
        hint=hint or _KIND_HINTS.get(failure.kind),
        bucket=place.bucket,
        prefix=place.prefix,
        operation=operation,
        key=key,
        status=failure.status,
        code=failure.code,
    )
