"""A session collects wanted state and commits it.

`ensure` says what should be true of the identities it names; `commit` writes the difference as one commit, or
nothing. A failed commit keeps what was collected, so that it can be tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from ontologia.errors import InputError, RowError
from ontologia.model.declare import Entity, Relation
from ontologia.model.rows import encoder
from ontologia.query.builder import Query
from ontologia.store.bulk import bulk_rows
from ontologia.store.pending import ObjectRows, PendingRows, Policy, TableRows
from ontologia.store.protocol import Progress
from ontologia.store.writes import Summary, Write

Thing = Entity | Relation[Any, Any]


class Session:
    """Wanted state, until it is committed. Leaving the `with` block commits unless something was raised."""

    def __init__(self, write: Write, query: Callable[[], Query], check_type: Callable[[type[Any]], None]) -> None:
        self._write = write
        self._query = query
        self._check_type = check_type
        self._pending: list[PendingRows] = []
        self.last_summary: Summary | None = None
        """What the last commit of this session did."""

    def ensure(self, things: Thing | Iterable[Thing]) -> None:
        """Declare the wanted state of one object, or of any iterable of them."""
        if isinstance(things, (Entity, Relation)):
            row = encoder(type(things))(things)
            self._objects(type(things)).add([row])
            return
        if isinstance(things, (type, Mapping, str)) or not isinstance(things, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"ensure() takes entities and relations, not {things!r}.",
                hint="Make objects of your classes, or give dicts and tables to ensure_rows(cls, data).",
            )
        self._ensure_many(things)

    def _ensure_many(self, things: Iterable[Thing]) -> None:
        by_class: dict[type[Any], list[Any]] = {}
        for number, thing in enumerate(things):
            cls = type(thing)
            same = by_class.get(cls)
            if same is None:
                if not isinstance(thing, (Entity, Relation)):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise InputError(f"Item {number} given to ensure() is {thing!r}, not an entity or relation.")
                same = by_class[cls] = []
            same.append(thing)
        for cls in by_class:
            self._check_type(cls)
        encoded = {cls: [*map(encoder(cls), group)] for cls, group in by_class.items()}
        for cls, rows in encoded.items():
            self._objects(cls).add(rows)

    def _objects(self, cls: type[Any]) -> ObjectRows:
        """Where objects of a class wait; a new place after a bulk table, so that what was said last wins."""
        for rows in reversed(self._pending):
            if _same_type(rows.cls, cls):
                if isinstance(rows, ObjectRows) and rows.policy == "upsert":
                    return rows
                break
        else:
            self._check_type(cls)
        fresh = ObjectRows(cls)
        self._pending.append(fresh)
        return fresh

    def ensure_rows(self, cls: type[Any], data: Any, *, on_conflict: Policy = "upsert") -> int:
        """Declare wanted state in bulk: Arrow data, a data frame, or dicts. The number of rows given.

        `on_conflict` says what happens to rows whose identity exists with other values: `upsert` writes a new
        version, `skip` leaves the existing one, `abort` refuses the commit.
        """
        self._check_type(cls)
        if on_conflict not in ("upsert", "skip", "abort"):
            raise InputError(f"on_conflict is {on_conflict!r}; it can be 'upsert', 'skip' or 'abort'.")
        rows, given = bulk_rows(cls, data, on_conflict)
        self._pending.append(rows)
        return given

    def query(self) -> Query:
        """Questions to the committed state."""
        return self._query()

    @property
    def pending(self) -> int:
        """Rows waiting to be committed."""
        return sum(map(len, self._pending))

    def preview(self) -> Summary:
        """What a commit would do now, without doing it."""
        return self._write.preview(self._merged())

    def commit(self, meta: dict[str, str] | None = None, *, progress: Progress | None = None) -> int | None:
        """Write the difference as one commit: its id, or None when nothing differs."""
        metadata = _checked_meta(meta)
        if not self._pending:
            return None
        commit, self.last_summary = self._write.commit(self._merged(), metadata, progress)
        self._pending.clear()
        return None if commit is None else commit.commit_id

    def _merged(self) -> list[PendingRows]:
        """Each class once: what was said later wins over what was said earlier."""
        by_name: dict[str, list[PendingRows]] = {}
        for rows in self._pending:
            by_name.setdefault(rows.cls.__spec__.name, []).append(rows)
        merged: list[PendingRows] = []
        for several in by_name.values():
            cls = several[0].cls
            if len(several) == 1:
                merged.append(several[0])
                continue
            if len({rows.policy for rows in several}) > 1:
                raise InputError(
                    f"{cls.__name__} is given with different on_conflict policies in one commit.",
                    hint="Commit them separately.",
                )
            if all(isinstance(rows, TableRows) for rows in several):
                merged.append(TableRows.united([rows for rows in several if isinstance(rows, TableRows)]))
                continue
            together = ObjectRows(cls, several[0].policy)
            for rows in several:
                for block in rows.blocks():
                    together.add(block)
            together.given = sum(rows.given for rows in several)
            merged.append(together)
        return merged

    def discard(self) -> None:
        """Forget everything that was not committed."""
        self._pending.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def __repr__(self) -> str:
        return f"<Session with {self.pending} pending rows>"


def _same_type(first: type[Any], second: type[Any]) -> bool:
    """Whether two classes are one type, as when a notebook cell that declares it was run again."""
    return first is second or first.__spec__ == second.__spec__


def _checked_meta(meta: dict[str, str] | None) -> dict[str, str]:
    if meta is not None and not isinstance(meta, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"Commit metadata is a dict from text to text, not {meta!r}.")
    for name, value in (meta or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"Commit metadata maps text to text; {name!r} is {value!r}.")
        try:
            f"{name}{value}".encode()
        except UnicodeEncodeError as error:
            raise RowError(f"Commit metadata {name!r} is not valid Unicode.") from error
    return dict(meta or {})
