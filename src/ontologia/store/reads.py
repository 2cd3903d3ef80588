"""Answering plans with objects: which schema versions a window shows, what the engine can do, and what is done here.

Rows of the current version are filtered by the engine. Rows of older versions are brought to today's type first, and
what an engine cannot say exactly is evaluated by the reference; both take the same path here, with the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from ontologia.errors import IntegrityError, MissingUpgraderError, SchemaBoundaryError
from ontologia.model.physical import from_physical
from ontologia.model.rows import decode_value, hydrator, identity
from ontologia.model.spec import TypeSpec
from ontologia.model.upgrade import Upgraders
from ontologia.query import reference
from ontologia.query.aggregates import Fn, count
from ontologia.query.builder import Explanation
from ontologia.query.plan import Aggregation, Lookup, Mode, Scan, Window
from ontologia.query.predicates import Predicate, comparisons
from ontologia.query.sql import NotNative
from ontologia.store.catalog import Catalog, StoredType
from ontologia.store.convert import converter
from ontologia.store.drift import outdated
from ontologia.store.protocol import Backend, Snapshot, StaleCatalog, VersionedRow
from ontologia.store.rows import Row
from ontologia.store.upgrading import RowUpgrade, first_reason

T = TypeVar("T")
Candidate = tuple[int, Row, dict[str, Any]]
"""Commit, physical row in today's type, stored values by name."""
UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError)
"""What hydrating a row raises when its stored values are not what was written."""
_ATTEMPTS = 5
_VALUES = frozenset({Fn.MIN, Fn.MAX})
"""Figures that are values of the field itself."""
_EDGES_TOGETHER = 1 << 17
"""Relations whose ends are read at once: so many that a query takes a fixed number of statements, yet not without end,
so that walking millions of them takes bounded memory."""


class Reader:
    """Reads objects and figures from a backend."""

    def __init__(self, backend: Backend, upgraders: Upgraders) -> None:
        self.backend = backend
        self._upgraders = upgraders

    def objects(self, cls: type[Any], scan: Scan) -> Iterator[Any]:
        """Objects that answer a scan, streamed; relations come with both ends."""
        if scan.kind == "relation":
            return self._relations(cls, scan)
        return self._entities(cls, scan)

    def get(self, cls: type[Any], key: str) -> Any:
        """The current state of one entity, or None."""
        return self.retrying(lambda: self._get(cls, key))

    def _get(self, cls: type[Any], key: str) -> Any:
        backend, stored = self.backend, self._declared_now(cls)
        if stored is None:
            return None
        found = backend.current_row(stored, key)
        if found is None:
            return None
        convert = converter(stored.spec, cls.__spec__)
        try:
            row = found[1:] if convert is None else convert(found[1:])
            return hydrator(cls)(row, found[0], backend.commit_time)
        except UNREADABLE as error:
            raise damaged(cls, found, error) from error

    def _entities(self, cls: type[Any], scan: Scan) -> Iterator[Any]:
        for attempt in range(_ATTEMPTS):
            with self._snapshot(cls, scan) as (snapshot, concrete):
                try:
                    rows = self.rows(snapshot, cls, concrete)
                except StaleCatalog:
                    if attempt == _ATTEMPTS - 1:
                        raise
                    self.backend.refresh()
                    continue
                yield from self.built(cls, rows)
                return

    def built(self, cls: type[Any], rows: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Objects from `(commit_id, *physical row)`."""
        build, when = hydrator(cls), self.backend.commit_time
        for row in rows:
            try:
                thing = build(row[1:], row[0], when)
            except UNREADABLE as error:
                raise damaged(cls, row, error) from error
            yield thing

    def _relations(self, cls: type[Any], scan: Scan) -> Iterator[Any]:
        with self.backend.snapshot() as snapshot:
            concrete = resolve(snapshot, scan)
            things = self.built(cls, self.rows(snapshot, cls, concrete))
            while edges := list(islice(things, _EDGES_TOGETHER)):
                self.attach_ends(snapshot, cls, edges, concrete.window)
                yield from edges

    def attach_ends(self, snapshot: Snapshot, cls: type[Any], edges: Sequence[Any], window: Window) -> None:
        """Give relations their ends, in one read per side."""
        identities = [identity(edge) for edge in edges]
        for number, (side, end) in enumerate(zip(("left", "right"), cls.__ends__, strict=True)):
            found = self.by_key(snapshot, end, {one[number] for one in identities}, window)
            for edge, one in zip(edges, identities, strict=True):
                edge.attach(side, found.get(one[number]))

    def by_key(self, snapshot: Snapshot, cls: type[Any], keys: Iterable[str], window: Window) -> dict[str, Any]:
        """Entities by key, as they were at the end of a window."""
        at = window if window.mode is not Mode.HISTORY else _end_of(window)
        scan = Scan("entity", cls.__spec__.name, at, lookup=Lookup("key", tuple(sorted(keys))))
        return {identity(thing)[0]: thing for thing in self.built(cls, self.rows(snapshot, cls, scan))}

    @contextmanager
    def _snapshot(self, cls: type[Any], scan: Scan) -> Generator[tuple[Snapshot, Scan]]:
        """A view for one scan: a bare statement where that is enough, a transaction otherwise."""
        single = scan.kind == "entity" and scan.window.mode is Mode.LATEST and self._cache_serves(cls)
        with self.backend.snapshot(single=single) as snapshot:
            yield snapshot, resolve(snapshot, scan)

    def _declared_now(self, cls: type[Any]) -> StoredType | None:
        """The stored type of a class by the catalog at hand, which is read again when it does not serve."""
        if not self._cache_serves(cls):
            self.backend.refresh()
        return declared(self.backend.cached_catalog(), cls)

    def _cache_serves(self, cls: type[Any]) -> bool:
        """Whether the catalog at hand has the type as declared; if not, another process may have changed it since."""
        spec: TypeSpec = cls.__spec__
        stored = self.backend.cached_catalog().find(spec.kind, spec.name)
        return stored is not None and stored.spec.fingerprint == spec.fingerprint

    def rows(self, snapshot: Snapshot, cls: type[Any], scan: Scan) -> Iterator[tuple[Any, ...]]:
        """`(commit_id, *physical row of the class)` of everything that answers a scan."""
        stored = declared(snapshot.catalog(), cls)
        if stored is None:
            return iter(())
        native = native_rows(snapshot, stored, scan)
        if native is not None:
            convert = converter(stored.spec, cls.__spec__)
            return native if convert is None else ((row[0], *convert(row[1:])) for row in native)
        return iter(self._evaluated(snapshot, cls, stored, scan))

    def _evaluated(self, snapshot: Snapshot, cls: type[Any], stored: StoredType, scan: Scan) -> list[tuple[Any, ...]]:
        """The answer by the reference evaluator, over rows brought to today's type."""
        candidates = self._candidates(snapshot, cls, stored, scan.window, scan.lookup)
        if scan.where is not None:
            candidates = self._matching(snapshot, cls, list(candidates), scan.where, scan.window)
        kept = list(candidates)
        if scan.order:
            kept = reference.sort_rows(kept, scan.order, key=lambda candidate: candidate[2])
        end = None if scan.limit is None else scan.offset + scan.limit
        return [(commit_id, *row) for commit_id, row, _ in kept[scan.offset : end]]

    def values(self, snapshot: Snapshot, cls: type[Any], scan: Scan) -> list[dict[str, Any]]:
        """Stored values by field name of everything that answers a scan."""
        spec: TypeSpec = cls.__spec__
        return [named_values(spec, row[1:]) for row in self.rows(snapshot, cls, scan)]

    def _candidates(
        self, snapshot: Snapshot, cls: type[Any], stored: StoredType, window: Window, lookup: Lookup | None
    ) -> Iterator[Candidate]:
        spec: TypeSpec = cls.__spec__
        upgrade = RowUpgrade(cls, stored, self._upgraders)
        for found in snapshot.raw(stored, window, lookup):
            try:
                row = upgrade.read(found)
            except Exception as error:
                raise boundary(stored, found, error) from error
            yield found.commit_id, row, named_values(spec, row)

    def _matching(
        self, snapshot: Snapshot, cls: type[Any], candidates: list[Candidate], where: Predicate, window: Window
    ) -> Iterator[Candidate]:
        left, right = self._end_values(snapshot, cls, candidates, where, window)
        for commit_id, row, values in candidates:
            if reference.matches(where, values, left.get(row[0]), right.get(row[1])):
                yield commit_id, row, values

    def _end_values(
        self, snapshot: Snapshot, cls: type[Any], candidates: list[Candidate], where: Predicate, window: Window
    ) -> tuple[dict[str, list[dict[str, Any]]], dict[str, list[dict[str, Any]]]]:
        """Versions of the ends that a predicate speaks of, in today's type, by side and key."""
        found: tuple[dict[str, list[dict[str, Any]]], dict[str, list[dict[str, Any]]]] = ({}, {})
        for number in sides_of(where):
            end = cls.__ends__[number]
            stored = declared(snapshot.catalog(), end)
            if stored is not None:
                lookup = Lookup("key", tuple(sorted({row[number] for _, row, _ in candidates})))
                for _, row, values in self._candidates(snapshot, end, stored, window, lookup):
                    found[number].setdefault(row[0], []).append(values)
        return found

    def aggregate(self, cls: type[Any], aggregation: Aggregation) -> list[dict[str, Any]]:
        """Figures over a scan; group values are typed as the class has them."""
        if _counts_everything(aggregation):
            return [{aggregation.aggregates[0][0]: self.retrying(lambda: self._count(cls))}]
        groups = self.retrying(lambda: self._groups(cls, aggregation))
        shown = [(ref.label, ref) for ref in aggregation.group]
        shown += [(n, one.ref) for n, one in aggregation.aggregates if one.ref is not None and one.fn in _VALUES]
        for name, ref in shown:
            decode = decode_value(cls, ref.field) if ref.plain else None
            if decode is not None:
                for group in groups:
                    group[name] = decode(group[name])
        return groups

    def _count(self, cls: type[Any]) -> int:
        stored = self._declared_now(cls)
        return 0 if stored is None else self.backend.current_count(stored)

    def _groups(self, cls: type[Any], aggregation: Aggregation) -> list[dict[str, Any]]:
        with self._snapshot(cls, aggregation.scan) as (snapshot, scan):
            return self._figures(snapshot, cls, replace(aggregation, scan=scan))

    def retrying(self, read: Callable[[], T]) -> T:
        """Run a read again when another process changed the catalog under it."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return read()
            except StaleCatalog:
                self.backend.refresh()
        return read()

    def _figures(self, snapshot: Snapshot, cls: type[Any], aggregation: Aggregation) -> list[dict[str, Any]]:
        stored = declared(snapshot.catalog(), cls)
        if stored is not None and engine_can(snapshot, stored, aggregation.scan):
            with suppress(NotNative):
                return snapshot.aggregate(aggregation)
        # What the engine cannot say exactly is computed here, by the definition itself.
        rows = [] if stored is None else self.values(snapshot, cls, aggregation.scan)
        return reference.grouped(rows, aggregation.group, aggregation.aggregates, aggregation.having)

    def explain(self, cls: type[Any], scan: Scan) -> Explanation:
        """How a scan would run."""
        with self.backend.snapshot() as snapshot:
            concrete = resolve(snapshot, scan)
            stored = declared(snapshot.catalog(), cls)
            if stored is None:
                return Explanation("", (), (), native=True, note=f"no {scan.type_name} has been written yet")
            if not engine_can(snapshot, stored, concrete):
                note = "the window reaches older schema versions: rows are upgraded, then filtered in Python"
                return Explanation("", (), (), native=False, note=note)
            try:
                sql, parameters, plan = snapshot.explain(concrete)
            except NotNative as reason:
                return Explanation("", (), (), native=False, note=f"filtered in Python: {reason}")
            return Explanation(sql, tuple(parameters), tuple(plan), native=True)


def _counts_everything(aggregation: Aggregation) -> bool:
    """Whether all that is asked for is the number of current rows of a type."""
    if len(aggregation.aggregates) != 1 or aggregation.group or aggregation.having is not None:
        return False
    scan, figure = aggregation.scan, aggregation.aggregates[0][1]
    bare = scan.where is None and scan.lookup is None and not scan.sliced and scan.window.mode is Mode.LATEST
    return bare and figure.key == count().key


def sides_of(where: Predicate | None) -> set[int]:
    """The ends that a condition speaks of: 0 for the left one, 1 for the right."""
    sides = {leaf.ref.side for leaf in comparisons(where)} if where is not None else set[str]()
    return {number for number, side in enumerate(("left", "right")) if side in sides}


def engine_can(snapshot: Snapshot, stored: StoredType, scan: Scan) -> bool:
    """Whether all rows that a scan concerns, ends included, are in their type's current version."""
    types = [stored]
    for number in sides_of(scan.where):
        end = snapshot.catalog().find("entity", (stored.spec.left, stored.spec.right)[number] or "")
        types += [end] if end is not None else []
    return all(visible_versions(kind, scan.window) <= {kind.current.version} for kind in types)


def native_rows(snapshot: Snapshot, stored: StoredType, scan: Scan) -> Iterator[tuple[Any, ...]] | None:
    """Rows straight from the engine; None when it cannot answer the scan exactly."""
    if engine_can(snapshot, stored, scan):
        with suppress(NotNative):
            return snapshot.select(scan)
    return None


def native_columns(snapshot: Snapshot, stored: StoredType, scan: Scan) -> Sequence[Sequence[Any]] | None:
    """The same as columns; None when the engine cannot answer the scan exactly."""
    if engine_can(snapshot, stored, scan):
        with suppress(NotNative):
            return snapshot.columns(scan)
    return None


def declared(catalog: Catalog, cls: type[Any]) -> StoredType | None:
    """The stored type of a class; None when nothing was written yet; an error when it drifted."""
    spec: TypeSpec = cls.__spec__
    stored = catalog.find(spec.kind, spec.name)
    if stored is not None and stored.spec is not spec and stored.spec.fingerprint != spec.fingerprint:
        raise outdated([(stored, spec)])
    return stored


def named_values(spec: TypeSpec, row: Row) -> dict[str, Any]:
    """Stored values by name, the ends' keys of a relation among them."""
    values = from_physical(spec, row)
    if spec.kind == "relation":
        values |= {"left_key": row[0], "right_key": row[1]}
    return values


def resolve(snapshot: Snapshot, scan: Scan) -> Scan:
    """The same scan with a moment replaced by the commit it falls on."""
    high = scan.window.high
    if isinstance(high, datetime):
        return replace(scan, window=replace(scan.window, high=snapshot.commit_at(high)))
    return scan


def visible_versions(stored: StoredType, window: Window) -> set[int]:
    """Schema versions of the rows that a window may show."""
    if window.mode is Mode.LATEST:
        return {stored.current.version}
    if window.mode is Mode.AS_OF:
        return {stored.version_at(window.last or 0).version}
    high = stored.current.since_commit if window.last is None else window.last
    return {version.version for version in stored.versions_between(window.low, high)}


def damaged(cls: type[Any], row: Row, error: Exception) -> IntegrityError:
    """The error for a stored row that no longer makes an object; `row` is it, or one that was read with it."""
    return IntegrityError(
        f"A row of {cls.__spec__.name} at or after commit {row[0]} cannot be read ({type(error).__name__}: {error}).",
        hint="`onto verify` names the commit; restore the file from a backup.",
        type_name=cls.__spec__.name,
        commit_id=row[0],
    )


def _end_of(window: Window) -> Window:
    return Window(Mode.LATEST) if window.high is None else Window(Mode.AS_OF, 0, window.last)


def boundary(stored: StoredType, found: VersionedRow, error: Exception) -> SchemaBoundaryError:
    """The error for a window that reaches what cannot be upgraded."""
    version = found.version.version
    key: Any = found.row[0] if stored.kind == "entity" else found.row[: len(stored.spec.identity)]
    if isinstance(error, MissingUpgraderError):
        step: int = error.from_version
        why = error.message.rstrip(".")
    else:
        step = version
        why = f"{key!r} cannot be upgraded ({first_reason(error)})"
    return SchemaBoundaryError(
        f"{stored.name} rows of commit {found.commit_id} are in schema version {version}; the type is at version"
        f" {stored.current.version} and {why}.",
        hint=f"Give @upgrader({stored.name!r}, from_version={step}) to Ontology(upgraders=...), or read the raw rows"
        " with .rows() or .to_arrow().",
        type_name=stored.name,
        commit_id=found.commit_id,
        from_version=version,
        to_version=stored.current.version,
        missing_upgrader=(stored.name, step),
    )
