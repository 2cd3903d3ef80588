"""Removing the rows of a purged type for good: its data files, its snapshots, and their copies in the cache.

The manifests that name the files stay, because they are the record of what was committed; the catalog says that what
they name is gone on purpose. A type of the same name that was dropped before, or came after, keeps its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from urllib.parse import unquote

from ontologia.errors import IntegrityError
from ontologia.model.spec import TypeKind
from ontologia.objects.cache import DiskCache
from ontologia.objects.port import Missing, Objects
from ontologia.store.catalog import StoredType
from ontologia.store.objects import keys
from ontologia.store.objects.records import DataFile, Index, decode
from ontologia.store.objects.schema import Dropped

_BATCH = 1000
_DATA = re.compile(rf"{keys.COMMITS}(\d+)-[^/]+/(entities|relations)/([^/]+)\.parquet")
_SNAPSHOT = re.compile(rf"{keys.SNAPSHOTS}(entities|relations)/([^/]+)-(\d+)-(\d+)\.parquet")
_KINDS: dict[str, TypeKind] = {folder: kind for kind, folder in keys.FOLDERS.items()}


def file_of(key: str) -> DataFile | None:
    """Which rows an object has, as far as its key tells; None for what has no rows."""
    match = _DATA.fullmatch(key)
    if match is not None:
        return DataFile(_KINDS[match[2]], unquote(match[3]), key, int(match[1]), int(match[1]))
    match = _SNAPSHOT.fullmatch(key)
    if match is None or int(match[3]) >= int(match[4]):
        return None
    return DataFile(_KINDS[match[1]], unquote(match[2]), key, int(match[3]), int(match[4]))


def holds_rows(kind: TypeKind, name: str, first: int, last: int) -> Callable[[str], bool]:
    """A test of keys: does the object hold rows of this type from these commits?"""

    def test(key: str) -> bool:
        file = file_of(key)
        if file is None or (file.kind, file.type_name) != (kind, name):
            return False
        return first <= file.min_commit_id and file.max_commit_id <= last

    return test


def purge(objects: Objects, cache: DiskCache, stored: StoredType, head: int) -> int:
    """Remove everything that commits up to the head wrote of a type; the number of objects removed.

    What lies under later numbers is left alone: a type of that name may have been made anew since.
    """
    born = stored.versions[0].since_commit
    concerned = holds_rows(stored.kind, stored.name, born, head)
    prefix = keys.snapshot(stored.kind, stored.name, 0, 0).removesuffix("0-0.parquet")
    found = [one.key for folder in (keys.COMMITS, prefix) for one in objects.list(folder) if concerned(one.key)]
    for start in range(0, len(found), _BATCH):
        objects.delete_many(found[start : start + _BATCH])
    forget_retired(objects, stored.kind, stored.name, born, head)
    cache.forget(concerned)
    return len(found)


def forget_retired(objects: Objects, kind: TypeKind, name: str, first: int, last: int) -> None:
    """Take snapshots of purged commits out of the record of those that stand for removed files."""
    key = keys.retired(kind, name)
    try:
        index = decode(objects.get(key).data, key, lambda record: Index.from_json(record, kind))
    except Missing:
        return
    except IntegrityError:
        objects.delete(key)
        return
    kept = tuple(one for one in index.entries if one.max_commit_id < first or one.min_commit_id > last)
    if not kept:
        objects.delete(key)
    elif kept != index.entries:
        objects.put(key, replace(index, entries=kept).encode())


def forget_purged(cache: DiskCache, dropped: Iterable[Dropped]) -> None:
    """Rows that were purged, be it elsewhere, must not live on in the cache of this machine."""
    tests = [holds_rows(one.kind, one.type_name, one.since_commit, one.last_commit) for one in dropped if one.purged]
    if tests:
        cache.forget(lambda key: any(test(key) for test in tests))
