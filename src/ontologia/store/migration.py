"""Bringing stored types to what the program declares: preview, token, and one atomic step.

A migration rewrites the current rows of every drifted type as one commit, all types or none. The preview's token
binds it to the plan and the head it was made from; old versions of rows stay readable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ontologia.base.canonical import sha256_json
from ontologia.errors import MigrationError, MigrationTokenError, MissingUpgraderError
from ontologia.model.diff import SchemaDiff
from ontologia.model.physical import from_physical
from ontologia.model.upgrade import Upgraders
from ontologia.query.aggregates import count
from ontologia.query.plan import Aggregation, Scan
from ontologia.store.catalog import StoredType
from ontologia.store.commits import ROWS_PER_BLOCK
from ontologia.store.drift import Drift, diffs_of, drifted
from ontologia.store.protocol import Backend, Progress, Snapshot, VersionedRow, Writer
from ontologia.store.reconcile import Delta
from ontologia.store.retrying import with_fresh_heads
from ontologia.store.rows import Row
from ontologia.store.upgrading import RowUpgrade, first_reason


@dataclass(frozen=True, slots=True)
class Migration:
    """What a migration would do, or did."""

    token: str
    head: int
    diffs: tuple[SchemaDiff, ...]
    row_estimates: dict[str, int]
    needed_upgraders: tuple[tuple[str, int], ...]
    """`(type name, from version)` of every step that only an upgrader can make."""
    missing_upgraders: tuple[tuple[str, int], ...]
    applied: bool = False
    commit_id: int | None = None

    @property
    def is_empty(self) -> bool:
        """True when stored and declared types agree."""
        return not self.diffs

    def __str__(self) -> str:
        if self.is_empty:
            return "Nothing to migrate."
        lines = [f"{diff.type_name} (rows: {self.row_estimates.get(diff.type_name, 0)})\n{diff}" for diff in self.diffs]
        lines += [f"missing upgrader: @upgrader({name!r}, from_version={v})" for name, v in self.missing_upgraders]
        lines.append(f"applied as commit {self.commit_id}" if self.applied else f"token: {self.token}")
        return "\n".join(lines)


class Migrator:
    """Plans and applies migrations for a set of declared classes."""

    def __init__(self, backend: Backend, classes: Sequence[type[Any]], upgraders: Upgraders) -> None:
        self._backend = backend
        self._classes = {(cls.__spec__.kind, cls.__spec__.name): cls for cls in classes}
        self._upgraders = upgraders

    def preview(self) -> Migration:
        """The plan as of now."""
        with self._backend.snapshot() as snapshot:
            drifts = self._drifts(snapshot)
            rows = {stored.name: _live_rows(snapshot, stored) for stored, _ in drifts}
            return self._plan(drifts, snapshot.head(), rows)

    def apply(self, token: str | None, *, force: bool, progress: Progress | None = None) -> Migration:
        """Carry out the plan that the token stands for, or with `force` whatever is planned now."""
        preview = self.preview()
        return with_fresh_heads(lambda: self._apply(preview, token, force=force, progress=progress))

    def _apply(self, preview: Migration, token: str | None, *, force: bool, progress: Progress | None) -> Migration:
        with self._backend.write() as writer:
            drifts = self._drifts(writer)
            plan = self._plan(drifts, writer.head, preview.row_estimates)
            if plan.is_empty:
                return plan
            if not force and token != plan.token:
                raise _token_error(token, plan)
            if plan.missing_upgraders:
                raise _missing(plan)
            total = sum(plan.row_estimates.values())
            done = 0
            for drift in drifts:
                done += self._migrate(writer, drift, done, total, progress)
            steps = ", ".join(f"{s.name} v{s.current.version}->v{s.current.version + 1}" for s, _ in drifts)
            commit = writer.publish({"migration": steps})
        return Migration(
            plan.token,
            commit.commit_id,
            plan.diffs,
            plan.row_estimates,
            plan.needed_upgraders,
            (),
            applied=True,
            commit_id=commit.commit_id,
        )

    def _drifts(self, source: Snapshot | Writer) -> list[Drift]:
        return drifted(source.catalog(), [cls.__spec__ for cls in self._classes.values()])

    def _plan(self, drifts: Sequence[Drift], head: int, rows: dict[str, int]) -> Migration:
        diffs = diffs_of(drifts)
        needed = [
            (stored.name, stored.current.version)
            for (stored, _), difference in zip(drifts, diffs, strict=True)
            if difference.needs_upgrader
        ]
        missing = [step for step in needed if self._upgraders.get(*step) is None]
        steps = [[s.kind, s.name, s.current.version, s.spec.fingerprint, spec.fingerprint] for s, spec in drifts]
        token = sha256_json({"head": head, "steps": steps})[:16]
        return Migration(token, head, tuple(diffs), rows, tuple(needed), tuple(missing))

    def _migrate(self, writer: Writer, drift: Drift, before: int, total: int, progress: Progress | None) -> int:
        old, spec = drift
        cls = self._classes[spec.kind, spec.name]
        stored = writer.register(spec)
        done = 0
        for block in _blocks(self._upgraded(cls, stored, writer.retired(stored, old.current))):
            writer.append(stored, Delta(block, [row[: len(spec.identity)] for row in block], 0))
            stored = writer.catalog().get(stored.kind, stored.name)
            done += len(block)
            if progress is not None:
                progress(before + done, total)
        return done

    def _upgraded(self, cls: type[Any], stored: StoredType, rows: Iterator[VersionedRow]) -> Iterator[Row]:
        upgrade = RowUpgrade(cls, stored, self._upgraders)
        for found in rows:
            try:
                yield upgrade.rewrite(found)
            except MissingUpgraderError:
                raise
            except Exception as error:
                raise _row_error(stored, found, error) from error


def _blocks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    block: list[Row] = []
    for row in rows:
        block.append(row)
        if len(block) == ROWS_PER_BLOCK:
            yield block
            block = []
    if block:
        yield block


def _live_rows(snapshot: Snapshot, stored: StoredType) -> int:
    aggregation = Aggregation(Scan(stored.kind, stored.name), (), (("n", count()),))
    return snapshot.aggregate(aggregation)[0]["n"]


def _token_error(token: str | None, plan: Migration) -> MigrationTokenError:
    if token is None:
        return MigrationTokenError(
            "Applying a migration needs the token of its preview.",
            hint="Call migrate() first and pass its token, or force=True.",
        )
    return MigrationTokenError(
        f"The token {token!r} does not fit: the schema or the head (commit {plan.head}) has changed since the preview.",
        hint="Preview again and use the new token.",
        token=token,
    )


def _missing(plan: Migration) -> MissingUpgraderError:
    steps = ", ".join(f"{name} from version {version}" for name, version in plan.missing_upgraders)
    lines = "; ".join(str(diff).replace("\n", "; ") for diff in plan.diffs)
    name, version = plan.missing_upgraders[0]
    return MissingUpgraderError(
        f"No upgrader brings {steps} to the declared type: {lines}.",
        hint=f"Write a function with @upgrader({name!r}, from_version={version}) and pass it in upgraders=.",
        type_name=name,
        from_version=version,
    )


def _row_error(stored: StoredType, found: VersionedRow, error: Exception) -> MigrationError:
    key = found.row[: len(stored.spec.identity)]
    shown: Any = key[0] if len(key) == 1 else key
    values = from_physical(found.version.spec, found.row)
    return MigrationError(
        f"{stored.name} {shown!r} could not be migrated ({first_reason(error)}); its old values: {values!r}.",
        hint="Nothing was changed; fix the upgrader or the row and try again.",
        type_name=stored.name,
        key=shown,
        old={name: repr(value) for name, value in values.items()},
    )
