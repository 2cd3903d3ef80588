"""One commit from start to end: lock, check, reconcile, append, publish.

The same steps serve a dry run, which stops before anything is published. What is wanted is compared with what is
current under the write lock, set-wise, so that two writers never lose each other's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ontologia.config import OntologiaConfig
from ontologia.errors import BatchSizeExceededError, ConfigError, DanglingEndpointError, ImportConflictError
from ontologia.model.spec import TypeKind, TypeSpec
from ontologia.store.catalog import StoredType
from ontologia.store.commits import Commit
from ontologia.store.convert import converter
from ontologia.store.drift import outdated
from ontologia.store.pending import PendingRows, TableRows, rows_of
from ontologia.store.protocol import Backend, Progress, Writer
from ontologia.store.reconcile import Delta, reconcile
from ontologia.store.retrying import with_fresh_heads
from ontologia.store.rows import Row

_RUN = 4096
"""Rows that are compared as a whole first: few enough that one changed row does not cost many."""


@dataclass
class TypeSummary:
    """What a commit does, or would do, to one type."""

    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    skipped: int = 0
    repeated: int = 0
    """Rows whose identity came again later in the same commit, which counts instead."""

    @property
    def seen(self) -> int:
        """Rows looked at."""
        return self.inserted + self.updated + self.unchanged + self.skipped


@dataclass(frozen=True)
class Summary:
    """What a commit does, or would do, by type name."""

    types: dict[str, TypeSummary] = field(default_factory=dict[str, TypeSummary])

    @property
    def rows(self) -> int:
        """Rows that are written."""
        return sum(summary.inserted + summary.updated for summary in self.types.values())

    def __str__(self) -> str:
        lines = [
            f"{name}: insert {s.inserted}, update {s.updated}, unchanged {s.unchanged}"
            + (f", skipped {s.skipped}" if s.skipped else "")
            + (f", repeated {s.repeated}" if s.repeated else "")
            for name, s in self.types.items()
        ]
        return "\n".join(lines) or "nothing to write"


@dataclass(frozen=True)
class Write:
    """Settings of a store that shape its commits."""

    backend: Backend
    config: OntologiaConfig
    check_endpoints: bool = False

    def preview(self, pending: Sequence[PendingRows]) -> Summary:
        """What `commit` would do now."""
        with self.backend.write() as writer:
            return self._apply(writer, pending, None, dry=not self.check_endpoints)

    def commit(
        self, pending: Sequence[PendingRows], metadata: dict[str, str], progress: Progress | None = None
    ) -> tuple[Commit | None, Summary]:
        """Write what differs as one commit; None when nothing does."""
        self._check_size(sum(len(rows) for rows in pending))
        return with_fresh_heads(lambda: self._commit(pending, metadata, progress))

    def _commit(
        self, pending: Sequence[PendingRows], metadata: dict[str, str], progress: Progress | None
    ) -> tuple[Commit | None, Summary]:
        with self.backend.write() as writer:
            summary = self._apply(writer, pending, progress)
            if summary.rows:
                return writer.publish(metadata), summary
            if writer.annotated:
                # No row changed, but an index or a default was declared anew.
                writer.seal()
            return None, summary

    def _check_size(self, rows: int) -> None:
        limit = self.config.max_batch_size
        if rows > limit:
            raise BatchSizeExceededError(
                f"This commit has {rows} rows; max_batch_size is {limit}.",
                hint="Commit in several steps, or raise max_batch_size.",
                rows=rows,
                limit=limit,
            )

    def _apply(
        self, writer: Writer, pending: Sequence[PendingRows], progress: Progress | None, *, dry: bool = False
    ) -> Summary:
        total = sum(len(rows) for rows in pending)
        done = 0
        summary = Summary()
        for rows in pending:
            spec: TypeSpec = rows.cls.__spec__
            counts = summary.types.setdefault(spec.name, TypeSummary())
            counts.repeated = rows.given - len(rows)
            if not len(rows):
                continue
            stored = agreed_type(writer, spec)
            convert = converter(spec, stored.spec)
            for block in _changed_blocks(writer, stored, rows, counts) if convert is None else rows.blocks():
                wanted = block if convert is None else [convert(row) for row in block]
                delta = _within_policy(self._delta(writer, stored, wanted, len(rows)), rows, counts)
                if not dry:
                    writer.append(stored, delta)
                # A first integer beyond 64 bits changes the stored type on the way.
                stored = writer.catalog().get(stored.kind, stored.name)
                counts.inserted += delta.inserted
                counts.updated += delta.updated
                counts.unchanged += delta.unchanged
                if progress is not None:
                    progress(done + counts.seen, total)
            done += counts.seen
        if self.check_endpoints:
            for rows in pending:
                _check_ends(writer, rows)
        return summary

    def _delta(self, writer: Writer, stored: StoredType, wanted: Sequence[Row], total: int) -> Delta:
        return reconcile(wanted, writer.current(stored, wanted, total), len(stored.spec.identity))


def _changed_blocks(
    writer: Writer, stored: StoredType, rows: PendingRows, counts: TypeSummary
) -> Iterator[Sequence[Row]]:
    """Blocks of wanted rows, less the runs of a table that are found to be there already."""
    if not isinstance(rows, TableRows) or not writer.is_dense(stored, len(rows)):
        yield from rows.blocks()
        return
    for run in rows.runs(_RUN):
        # What was appended since the last run may have changed the stored type.
        if writer.is_unchanged(writer.catalog().get(stored.kind, stored.name), run):
            counts.unchanged += len(run[0])
        else:
            yield rows_of(run)


def agreed_type(writer: Writer, spec: TypeSpec) -> StoredType:
    """The stored type that a declared one writes to; registered when new, refused when it drifted."""
    stored = writer.catalog().find(spec.kind, spec.name)
    if stored is None:
        _check_name(writer, spec)
        return writer.register(spec)
    if stored.spec is spec or stored.spec == spec:
        return stored
    if stored.spec.fingerprint != spec.fingerprint:
        raise outdated([(stored, spec)])
    merged = replace(stored.spec, fields=tuple(spec.by_name[f.name] for f in stored.spec.fields), doc=spec.doc)
    return stored if merged == stored.spec else writer.annotate(stored, merged)


def _check_name(writer: Writer, spec: TypeSpec) -> None:
    """One name, one type: commits and exports speak of types by name alone."""
    other: TypeKind = "relation" if spec.kind == "entity" else "entity"
    if writer.catalog().find(other, spec.name) is not None:
        raise ConfigError(
            f"The store has {spec.name!r} as {'a relation' if other == 'relation' else 'an entity'} type already.",
            hint='Rename yours with class X(..., name="…").',
            type_name=spec.name,
        )


def _within_policy(delta: Delta, rows: PendingRows, counts: TypeSummary) -> Delta:
    """The delta that the policy for existing identities leaves."""
    if rows.policy == "upsert" or not delta.superseded:
        return delta
    name = rows.cls.__spec__.name
    if rows.policy == "abort":
        first = delta.superseded[0]
        key = first[0] if len(first) == 1 else first
        raise ImportConflictError(
            f"{name} {key!r} exists with other values.",
            hint="Nothing was written; choose skip or upsert for existing rows.",
            type_name=name,
            key=key,
        )
    width = len(rows.cls.__spec__.identity)
    existing = set(delta.superseded)
    counts.skipped += len(existing)
    return Delta([row for row in delta.rows if row[:width] not in existing], (), delta.unchanged)


def _check_ends(writer: Writer, rows: PendingRows) -> None:
    """Refuse relations whose ends do not exist after this commit."""
    spec: TypeSpec = rows.cls.__spec__
    if spec.kind != "relation":
        return
    sides: tuple[tuple[int, str | None], ...] = ((0, spec.left), (1, spec.right))
    for block in rows.blocks():
        for column, end in sides:
            keys = sorted({row[column] for row in block})
            stored = writer.catalog().find("entity", end or "")
            missing = set(keys) - (writer.exists(stored, keys) if stored is not None else set[str]())
            if missing:
                key = min(missing)
                raise DanglingEndpointError(
                    f"{spec.name} names {end} {key!r}, which does not exist.",
                    hint="Write the entity first or in the same commit, or open the store without check_endpoints.",
                    type_name=spec.name,
                    end=end,
                    key=key,
                )
