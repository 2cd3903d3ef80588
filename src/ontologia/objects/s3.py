"""Object storage behind the port: S3 and its compatibles, and what else obstore speaks (`gs://`, `az://`).

Every failure leaves as a signal of the port or as a `StorageBackendError` that names the bucket, the prefix, the
operation and the key. Tags are opaque: kept without the quotes of HTTP, and sent with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from ontologia.config import OntologiaConfig
from ontologia.errors import OntologiaError
from ontologia.objects.deletion import ConditionalDeletion
from ontologia.objects.failures import Failed, Failure, backend_error, failure_of
from ontologia.objects.location import Location, parse_location
from ontologia.objects.port import Conflict, Held, Listed, Missing, OutcomeUnknown, Unsupported
from ontologia.objects.retry import CONDITIONAL, IDEMPOTENT, Policy, Retries
from ontologia.objects.stores import Stores

if TYPE_CHECKING:
    from ontologia.objects.stores import Store

T = TypeVar("T")

PAGE = 1000
MULTIPART = 128 << 20
"""Larger objects are sent in parts; S3 takes no single piece above 5 GiB."""
PART = 32 << 20
SIGNED_FOR = timedelta(minutes=5)


def open_objects(uri: str, config: OntologiaConfig, *, retries: Retries | None = None) -> BucketObjects:
    """The objects under a URI such as `s3://bucket/prefix`. Nothing is asked of the server yet."""
    location = parse_location(uri)
    return BucketObjects(location, Stores(location, config), retries or Retries())


class BucketObjects:
    """A prefix in a bucket (see `port.Objects`)."""

    def __init__(self, location: Location, stores: Stores, retries: Retries) -> None:
        self._location, self._stores, self._retries = location, stores, retries
        self._deletion = ConditionalDeletion(stores.timeout_s)
        self.conditional_delete = location.scheme == "s3"

    @property
    def uri(self) -> str:
        return self._location.uri

    @property
    def bucket(self) -> str:
        return self._location.bucket

    @property
    def prefix(self) -> str:
        return self._location.prefix

    def get(self, key: str) -> Held:
        return self._read("get", key, lambda store: self._held(store, key, {}))

    def get_if_changed(self, key: str, etag: str) -> Held | None:
        options = {"if_none_match": _sent(self._etag(etag))}
        try:
            return self._run(IDEMPOTENT, lambda store: self._held(store, key, options))
        except Failed as failed:
            if failed.failure.kind == "unchanged":
                return None
            raise self._told("get", key, failed) from failed

    def get_range(self, key: str, start: int, end: int) -> bytes:
        import obstore

        if end <= start:
            return b""
        return self._read("get", key, lambda store: bytes(obstore.get_range(store, key, start=start, end=end)))

    def size(self, key: str) -> int:
        import obstore

        return self._read("head", key, lambda store: int(obstore.head(store, key)["size"]))

    def put(self, key: str, data: bytes) -> str:
        return self._read("put", key, lambda store: self._put(store, key, data, "overwrite"), len(data))

    def create(self, key: str, data: bytes) -> str:
        return self._write("create", key, lambda store: self._put(store, key, data, "create"), len(data))

    def replace(self, key: str, data: bytes, etag: str) -> str:
        mode = self._condition(etag)
        return self._write("replace", key, lambda store: self._put(store, key, data, mode), len(data))

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        import obstore

        if if_match is None:
            self._forget(key, lambda store: obstore.delete(store, key))
            return
        if not self.conditional_delete:
            raise Unsupported("conditional deletion")
        tag = _sent(if_match)

        def send(store: Store) -> None:
            self._deletion.send(obstore.sign(store, "DELETE", key, SIGNED_FOR), tag)

        try:
            self._write("delete", key, send)
        except OntologiaError as error:
            if error.details.get("code") != "NotImplemented":
                raise
            self.conditional_delete = False
            raise Unsupported("conditional deletion") from error

    def delete_many(self, keys: Sequence[str]) -> None:
        import obstore

        if self._location.scheme == "s3":
            for first in range(0, len(keys), PAGE):
                some = list(keys[first : first + PAGE])
                self._forget(some[0], lambda store, some=some: obstore.delete(store, some))
            return
        for key in keys:  # elsewhere one that is gone already would end the whole batch
            self.delete(key)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Listed]:
        folder, slash, stem = prefix.rpartition("/")
        for meta in self._metas(folder, _start(f"{folder}{slash}", stem, after)):
            key = str(meta["path"])
            if not key.startswith(prefix):
                if stem and key[len(folder) + len(slash) :].partition("/")[0] > stem:
                    return
            elif after is None or key > after:
                yield self._listed(key, meta)

    def close(self) -> None:
        self._deletion.close()
        self._stores.close()

    def _metas(self, folder: str, start: str | None) -> Iterator[Mapping[str, Any]]:
        """All objects of a folder, page by page; when a page fails, the listing goes on after the last one seen."""
        seen, stream = start, None

        def page(store: Store) -> Sequence[Mapping[str, Any]]:
            nonlocal stream
            stream = stream or _stream(store, folder, seen)
            try:
                return next(stream, ())
            except BaseException:
                stream = None
                raise

        while metas := self._read("list", f"{folder}/" if folder else "", page):
            yield from metas
            seen = str(metas[-1]["path"])
            if len(metas) < PAGE:
                return

    def _held(self, store: Store, key: str, options: Any) -> Held:
        import obstore

        result = obstore.get(store, key, options=options)
        return Held(bytes(result.bytes()), self._tag(result.meta))

    def _put(self, store: Store, key: str, data: bytes, mode: Any) -> str:
        import obstore

        large = len(data) > MULTIPART and mode == "overwrite"
        return self._tag(
            obstore.put(store, key, data, mode=mode, use_multipart=large, chunk_size=PART, max_concurrency=4)
        )

    def _listed(self, key: str, meta: Mapping[str, Any]) -> Listed:
        modified: datetime = meta["last_modified"]
        return Listed(key, int(meta["size"]), modified, self._tag(meta) if meta.get("e_tag") else None)

    def _tag(self, meta: Mapping[str, Any]) -> str:
        etag = meta.get("e_tag")
        if not etag:
            raise Failed(Failure("refused", code="no-etag"))
        bare = str(etag)[1:-1] if str(etag).startswith('"') else str(etag)
        # Google's conditions on writes compare generations, those on reads ETags: a tag there is both.
        return f"{bare}@{meta['version']}" if self._location.scheme == "gs" else bare

    def _etag(self, tag: str) -> str:
        return tag.rpartition("@")[0] if self._location.scheme == "gs" else tag

    def _condition(self, tag: str) -> dict[str, str]:
        etag = {"e_tag": _sent(self._etag(tag))}
        return {**etag, "version": tag.rpartition("@")[2]} if self._location.scheme == "gs" else etag

    def _read(self, operation: str, key: str, request: Callable[[Store], T], size: int = 0) -> T:
        """A request that may be sent twice."""
        try:
            return self._run(IDEMPOTENT, request, size)
        except Failed as failed:
            raise self._told(operation, key, failed) from failed

    def _write(self, operation: str, key: str, request: Callable[[Store], T], size: int = 0) -> T:
        """A request under a condition, that must not be sent twice."""
        try:
            return self._run(CONDITIONAL, request, size)
        except Failed as failed:
            if failed.failure.kind in {"conflict", "missing", "unchanged"}:
                raise Conflict(key) from failed
            if failed.failure.kind in {"lost", "throttled"}:
                raise OutcomeUnknown(key) from failed
            raise self._told(operation, key, failed) from failed

    def _forget(self, key: str, request: Callable[[Store], None]) -> None:
        """A removal; what is gone already is as it should be."""
        try:
            self._run(IDEMPOTENT, request)
        except Failed as failed:
            if failed.failure.kind != "missing":
                raise self._told("delete", key, failed) from failed

    def _run(self, policy: Policy, request: Callable[[Store], T], size: int = 0) -> T:
        """Send a request as its policy allows, once more when the credentials were stale and there are new ones."""
        try:
            return self._retries.run(policy, lambda: self._attempt(request, size))
        except Failed as failed:
            if failed.failure.kind != "stale" or not self._stores.renew():
                raise
        return self._retries.run(policy, lambda: self._attempt(request, size))

    def _attempt(self, request: Callable[[Store], T], size: int) -> T:
        from obstore.exceptions import BaseError

        try:
            return request(self._stores.store(size))
        except (BaseError, FileNotFoundError, ValueError) as error:
            chain = self._stores.chain
            if chain is not None and chain.failure is not None and "credential provider" in str(error):
                raise chain.failure from error
            raise Failed(failure_of(error)) from error

    def _told(self, operation: str, key: str, failed: Failed) -> Exception:
        """What the caller of a read or of an unconditional write gets to know."""
        if failed.failure.kind == "missing" and operation in {"get", "head"}:
            return Missing(key)
        return backend_error(self, operation, key, failed.failure)


def _stream(store: Store, folder: str, after: str | None) -> Iterator[Sequence[Mapping[str, Any]]]:
    import obstore

    listing: Any = obstore.list(store, folder or None, offset=after, chunk_size=PAGE)  # pyright: ignore[reportUnknownMemberType]
    return iter(listing)


def _sent(etag: str) -> str:
    """A tag as HTTP wants it; one that came without quotes, such as a weak one, goes as it came."""
    return etag if '"' in etag else f'"{etag}"'


def _start(folder: str, stem: str, after: str | None) -> str | None:
    """Where a listing begins: at a key that is smaller than all wanted ones, close to the first.

    Some servers walk folder by folder: there `a/b` comes before `a-b`, though the key is greater, and a listing after
    `a` leaves the folder `a` out. A beginning below the first character that is less than the slash precedes the
    wanted keys in both orders.
    """
    starts = [_below(f"{folder}{stem}")] if stem else []
    if after is not None:
        cut = next((index for index, letter in enumerate(after) if letter < "/"), len(after))
        starts.append(_below(after[:cut].partition("//")[0].rstrip("/")))
    start = max(starts, default="")
    # An empty name would be dropped on the way, and a greater key come out; obstore takes no dots for a name.
    return start if {"", ".", ".."}.isdisjoint(start.removesuffix("/").split("/")) else None


def _below(key: str) -> str:
    """A key that is smaller, with little in between."""
    if not key or key[-1] <= "!":
        return key[:-1]  # what comes before "!" is hardly sent safely
    letter = chr(ord(key[-1]) - 1)
    return f"{key[:-1]}{'.' if letter == '/' else letter}~"
