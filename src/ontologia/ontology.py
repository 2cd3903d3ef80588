"""`Ontology`: the store as one object.

It binds a place, a set of declared types and settings, and hands out sessions, queries and history. Everything it
does is done by the packages below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Self, cast

from ontologia.base.clock import Clock, SystemClock
from ontologia.config import OntologiaConfig
from ontologia.errors import ConfigError, InputError, UnknownTypeError
from ontologia.model.declare import Entity, Relation
from ontologia.model.upgrade import Upgraders, load_upgraders
from ontologia.query.builder import Explanation, Query
from ontologia.query.check import check_number
from ontologia.query.plan import Scan
from ontologia.query.traverse import Hop, Path
from ontologia.store import history
from ontologia.store.binding import bind
from ontologia.store.catalog import StoredType
from ontologia.store.commits import Change, Commit, DiffItem
from ontologia.store.drift import drifted, outdated
from ontologia.store.dropping import Drop, Dropping
from ontologia.store.maintenance import GRACE, Cleanup, Compaction, IndexProblem, IndexRepair, Maintenance
from ontologia.store.migration import Migration, Migrator
from ontologia.store.opening import open_backend
from ontologia.store.paths import traverse
from ontologia.store.protocol import Backend, Finding, Progress
from ontologia.store.raw import arrow_table, as_dict, raw_rows
from ontologia.store.reads import Reader, resolve
from ontologia.store.session import Session
from ontologia.store.writes import Write


class Ontology:
    """A typed, versioned store.

    `Ontology("onto.db", entity_types=[Customer])` opens or creates a file;
    `Ontology(storage_uri="s3://bucket/prefix")` opens a prefix that `onto init` has made. Types that are not listed
    may be used as long as none is. `create=False` refuses a missing store; `read_only=True` never writes, not even a
    lock. `backend` is one that was opened elsewhere, and is closed with this object.
    """

    def __init__(
        self,
        db_path: str | PathLike[str] | None = None,
        config: OntologiaConfig | None = None,
        *,
        storage_uri: str | None = None,
        entity_types: Iterable[type[Entity]] | None = None,
        relation_types: Iterable[type[Relation[Any, Any]]] | None = None,
        upgraders: Upgraders | Iterable[Any] | None = None,
        check_endpoints: bool = False,
        create: bool = True,
        read_only: bool = False,
        clock: Clock | None = None,
        backend: Backend | None = None,
    ) -> None:
        if config is not None and not isinstance(config, OntologiaConfig):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"config is {config!r}, not an OntologiaConfig.", hint="Pass config=OntologiaConfig(...)."
            )
        self.config = config or OntologiaConfig()
        self._open_types = entity_types is None and relation_types is None
        self._classes = _by_name([*_listed(entity_types), *_listed(relation_types)])
        self._upgraders = load_upgraders(upgraders or ())
        if db_path is not None and not isinstance(db_path, (str, PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"{db_path!r} names no store.", hint="Give the path of a file.")
        if backend is None:
            binding = bind(None if db_path is None else fspath(db_path), storage_uri, self.config)
            backend = open_backend(binding, self.config, clock or SystemClock(), read_only=read_only, create=create)
        elif db_path is not None or storage_uri is not None:
            raise ConfigError("A backend that is open names its store already.", hint="Give no path and no URI.")
        self._backend = backend
        self._write = Write(self._backend, self.config, check_endpoints)
        self._reader = Reader(self._backend, self._upgraders)

    def session(self) -> Session:
        """Collect wanted state; leaving the `with` block commits it."""
        return Session(self._write, self.query, self._check_type)

    def query(self) -> Query:
        """Ask for entities, relations, paths and figures."""
        return Query(_Answers(self._reader))

    def head(self) -> int:
        """The id of the last commit; 0 when there is none."""
        with self._backend.snapshot(single=True) as snapshot:
            return snapshot.head()

    def commit_at(self, moment: datetime) -> int:
        """The last commit at or before a moment; 0 when there is none. Without a time zone it is local time."""
        with self._backend.snapshot() as snapshot:
            return snapshot.commit_at(moment.astimezone())

    def list_commits(self, limit: int | None = None, since: int | None = None) -> list[Commit]:
        """Commits after `since`, newest first."""
        most = None if limit is None else check_number("list_commits", limit)
        after = check_number("list_commits", since or 0)
        with self._backend.snapshot() as snapshot:
            return snapshot.commits(since=after, before=None, limit=most)

    def get_commit(self, commit_id: int) -> Commit:
        """One commit."""
        check_number("get_commit", commit_id, signed=True)
        with self._backend.snapshot() as snapshot:
            return history.get_commit(snapshot, commit_id)

    def changes(self, commit_id: int) -> list[Change]:
        """Every row that a commit wrote, and whether it was new."""
        check_number("changes", commit_id, signed=True)
        with self._backend.snapshot() as snapshot:
            return history.changes_of(snapshot, commit_id)

    def diff(self, first: int, second: int, cls: type[Any] | None = None) -> list[DiffItem]:
        """What differs between two commits: `(key, before, after)`, for one type or for all declared ones."""
        for commit_id in (first, second):
            check_number("diff", commit_id, signed=True)
        classes = self._classes.values() if cls is None else [_checked_class(cls)]
        return [item for one in classes for item in history.diff(self._reader, one, first, second)]

    def blame(self, cls: type[Any], key: Any) -> dict[str, int]:
        """For each field of a row, the commit that gave it its present value."""
        return history.blame(self._reader, _checked_class(cls), key)

    def validate(self) -> None:
        """Raise SchemaOutdatedError when a declared type differs from the stored one."""
        with self._backend.snapshot() as snapshot:
            drifts = drifted(snapshot.catalog(), [cls.__spec__ for cls in self._classes.values()])
        if drifts:
            raise outdated(drifts)

    def migrate(
        self,
        *,
        apply: bool = False,
        token: str | None = None,
        force: bool = False,
        progress: Progress | None = None,
    ) -> Migration:
        """Preview the migration to the declared types; apply it with the preview's token, or with `force`."""
        if token is not None and not apply:
            raise InputError("migrate() was given a token but not told to apply.", hint="Pass apply=True as well.")
        migrator = Migrator(self._backend, list(self._classes.values()), self._upgraders)
        if apply or force:
            return migrator.apply(token, force=force, progress=progress)
        return migrator.preview()

    def drop_type(
        self, kind: str, name: str, *, purge: bool = False, apply: bool = False, token: str | None = None
    ) -> Drop:
        """Preview forgetting a type; apply it with the preview's token. `purge` removes its rows for good."""
        dropping = Dropping(self._backend)
        return dropping.apply(kind, name, token, purge=purge) if apply else dropping.preview(kind, name, purge=purge)

    def stored_types(self) -> list[StoredType]:
        """Every type in the store with all its schema versions."""
        with self._backend.snapshot() as snapshot:
            return sorted(snapshot.catalog().types.values(), key=lambda stored: (stored.kind, stored.name))

    def verify(self, progress: Progress | None = None) -> list[Finding]:
        """Recompute every hash; what is wrong (`error`) or worth knowing (`warning`)."""
        return list(self._backend.verify(progress))

    def storage_info(self) -> dict[str, Any]:
        """Where the store is and how it is kept."""
        return self._backend.storage_info()

    def compact(
        self, type_name: str | None = None, *, apply: bool = False, progress: Progress | None = None
    ) -> Compaction:
        """Plan to merge the small files of one type, or of all, into few; with `apply` do it. Object storage only."""
        return self._maintenance("compact").compact(type_name, apply=apply, progress=progress)

    def verify_index(self) -> list[IndexProblem]:
        """What is wrong with the indices; reads are right all the same. Object storage only."""
        return self._maintenance("verify_index").verify_index()

    def repair_index(self, *, apply: bool = False, progress: Progress | None = None) -> IndexRepair:
        """Plan to write wrong indices anew from the manifests; with `apply` do it. Object storage only."""
        return self._maintenance("repair_index").repair_index(apply=apply, progress=progress)

    def repair_schema(self, *, apply: bool = False) -> tuple[str, ...]:
        """Objects with the public records about types that are not what they should be; with `apply` written anew."""
        return self._maintenance("repair_schema").repair_schema(apply=apply)

    def gc(self, *, grace: timedelta = GRACE, apply: bool = False, progress: Progress | None = None) -> Cleanup:
        """Plan to remove what no reader needs any more; with `apply` do it. Object storage only."""
        return self._maintenance("gc").gc(grace=grace, apply=apply, progress=progress)

    def _maintenance(self, verb: str) -> Maintenance:
        if not isinstance(self._backend, Maintenance):
            raise ConfigError(
                f"{verb}() is for stores on object storage; {self._backend.uri} needs none of it.",
                hint="Nothing to do.",
            )
        return self._backend

    @property
    def types(self) -> Sequence[type[Any]]:
        """The declared classes."""
        return tuple(self._classes.values())

    def _check_type(self, cls: type[Any]) -> None:
        known = self._classes.get(_checked_class(cls).__spec__.name)
        if known is cls:
            return
        if known is None and self._open_types:
            self._classes[cls.__spec__.name] = cls
            return
        if known is not None and known.__spec__ == cls.__spec__:
            return
        if known is not None:
            raise UnknownTypeError(
                f"This Ontology was opened with another class {cls.__spec__.name}, which has other fields.",
                hint="Open it again with the new class, and migrate().",
                type_name=cls.__spec__.name,
            )
        listed = ", ".join(self._classes) or "none"
        raise UnknownTypeError(
            f"{cls.__spec__.name} is not among the types this Ontology was opened with ({listed}).",
            hint="Add the class to entity_types or relation_types.",
            type_name=cls.__spec__.name,
        )

    def close(self) -> None:
        """Give back every connection."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ontology({self._backend.uri!r}, head={self.head()}, types=[{', '.join(self._classes)}])"


def _checked_class(cls: Any, error: type[InputError] = UnknownTypeError) -> type[Any]:
    """The class, when it is one that can have rows."""
    if not isinstance(cls, type) or not issubclass(cls, (Entity, Relation)) or cls.__declaration__ is None:
        raise error(
            f"{cls!r} is not a declared entity or relation class.", hint="Pass the class itself, e.g. Customer."
        )
    return cast("type[Any]", cls)


def _listed(classes: Iterable[type[Any]] | None) -> list[type[Any]]:
    if isinstance(classes, type) or not (classes is None or isinstance(classes, Iterable)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"Types are given as a list, not as {classes!r}.", hint="Write [Customer, Product].")
    return list(classes or ())


def _by_name(classes: Sequence[type[Any]]) -> dict[str, type[Any]]:
    found: dict[str, type[Any]] = {}
    for cls in classes:
        name = _checked_class(cls, ConfigError).__spec__.name
        if name in found and found[name] is not cls:
            raise ConfigError(f"Two classes are called {name!r}.", hint='Rename one with class X(Entity, name="…").')
        found[name] = cls
    return found


class _Answers:
    """What queries ask the store for."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.get = reader.get
        self.objects = reader.objects
        self.aggregate = reader.aggregate

    def raw(self, cls: type[Any], scan: Scan) -> Iterator[dict[str, Any]]:
        with self._reader.backend.snapshot() as snapshot:
            for row in raw_rows(snapshot, cls, resolve(snapshot, scan)):
                yield as_dict(row)

    def arrow(self, cls: type[Any], scan: Scan, *, meta: bool) -> Any:
        with self._reader.backend.snapshot() as snapshot:
            return arrow_table(snapshot, cls, resolve(snapshot, scan), meta=meta)

    def explain(self, cls: type[Any], scan: Scan) -> Explanation:
        return self._reader.explain(cls, scan)

    def traverse(self, cls: type[Any], scan: Scan, hops: tuple[Hop, ...]) -> list[Path]:
        return traverse(self._reader, cls, scan, hops)
