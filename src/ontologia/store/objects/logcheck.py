"""The log, read anew from the head to the first commit, and what is wrong with it.

Every manifest is fetched from the bucket; lists of manifests and the cache only serve to guess which come next, so that
they can be fetched side by side. The hash of each is computed from all that it says and must be the one that its
successor, or the head, names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ontologia.base.canonical import sha256_json
from ontologia.errors import IntegrityError
from ontologia.objects.port import Missing
from ontologia.store.objects.records import DataFile, Head, Manifest, decode
from ontologia.store.objects.schema import Schema, TypeName
from ontologia.store.protocol import Finding

if TYPE_CHECKING:
    from ontologia.store.objects.backend import ObjectsBackend

_AHEAD = 128
"""Manifests that are fetched side by side."""


def error(code: str, message: str, commit_id: int | None, **details: Any) -> Finding:
    return Finding("error", code, message, commit_id, details)


class LogCheck:
    """One walk along the log. Afterwards `files` has what each type was said to have, oldest first."""

    def __init__(self, backend: ObjectsBackend, head: Head, schema: Schema) -> None:
        self._backend = backend
        self._head = head
        self._schema = schema
        self._ahead: dict[str, bytes | None] = {}
        self.files: dict[TypeName, list[DataFile]] = {}
        self.complete = False

    def walk(self) -> Iterator[Finding | int]:
        """Findings, and after each commit its number."""
        path, number, wanted = self._head.manifest_path, self._head.commit_id, self._head.commit_sha256
        while path is not None and number > 0:
            try:
                manifest, sha256, intact = self._read(path, number)
            except IntegrityError as problem:
                rest = "" if number == 1 else f" Commits 1 to {number - 1} could not be checked."
                yield error("chain", f"{problem.message}{rest}", number, key=path)
                return
            if not intact or wanted not in (None, sha256):
                yield error("commit-hash", f"The record of commit {number} was changed.", number)
            if number == self._head.commit_id:
                yield from self._at_head(manifest)
            yield from self._one(manifest, number)
            yield number
            path, number, wanted = manifest.parent_manifest_path, number - 1, manifest.parent_sha256
        if path is None and number > 0:
            yield error("chain", f"Commit {number + 1} does not follow commit {number}.", number + 1)
            return
        for files in self.files.values():
            files.reverse()
        self.complete = True

    def _read(self, path: str, number: int) -> tuple[Manifest, str, bool]:
        """A manifest, the hash of what it says, and whether it says so itself."""
        if path not in self._ahead:
            self._guess(path, number)
        data = self._ahead.pop(path)
        if data is None:
            raise IntegrityError(f"The manifest {path} of commit {number} is missing.", key=path)
        manifest = decode(data, path, Manifest.from_json)
        record: dict[str, Any] = json.loads(data)
        said = record.pop("commit_sha256", None)
        sha256 = sha256_json(record)
        return manifest, sha256, said in (None, sha256)

    def _guess(self, path: str, number: int) -> None:
        """Fetch a manifest, and beside it those that are likely to come before it."""
        paths = [path]
        try:
            known = self._backend.manifests.between(max(number - _AHEAD, 0), number + 1, None, self._head)
            paths += [one.parent_manifest_path for one in known if one.parent_manifest_path is not None]
        except IntegrityError:
            pass
        wanted = list(dict.fromkeys(paths))
        found = self._backend.together.all([lambda one=one: self._get(one) for one in wanted])
        self._ahead = dict(zip(wanted, found, strict=True))

    def _get(self, path: str) -> bytes | None:
        try:
            return self._backend.objects.get(path).data
        except Missing:
            return None

    def _at_head(self, manifest: Manifest) -> Iterator[Finding]:
        """The head repeats what the last manifest says, and readers believe it."""
        files = self._head.files
        if files is not None and [one.to_json() for one in files] != [one.to_json() for one in manifest.files]:
            yield error("head", f"The head does not say what commit {manifest.commit_id} wrote.", manifest.commit_id)

    def _one(self, manifest: Manifest, number: int) -> Iterator[Finding]:
        if manifest.commit_id != number or manifest.parent_commit_id != (number - 1 or None):
            yield error("chain", f"Commit {number} does not follow commit {number - 1}.", number)
        for kind, name, version in manifest.registered:
            stored = self._schema.catalog.find(kind, name)
            if stored is None or stored.versions[0].since_commit > number:
                continue
            if version > len(stored.versions) or stored.versions[version - 1].since_commit != number:
                message = f"Schema version {version} of {name} began with commit {number}."
                yield error("schema", message, number, type_name=name)
        for file in manifest.files:
            # Bounds are most of a record, and nothing here needs them.
            slim = replace(file, stats={}, min_key=None, max_key=None)
            self.files.setdefault((file.kind, file.type_name), []).append(slim)
            yield from self._recorded(file, number)

    def _recorded(self, file: DataFile, number: int) -> Iterator[Finding]:
        """Whether the catalog knows the type of a file, and the version that it is in."""
        stored = self._schema.catalog.find(file.kind, file.type_name)
        if stored is not None and stored.versions[0].since_commit <= number:
            if file.schema_version_id not in (None, stored.version_at(number).version):
                message = (
                    f"Schema version {file.schema_version_id} of {file.type_name} is not the one of commit {number}."
                )
                yield error("schema", message, number, type_name=file.type_name)
        elif not any(gone.holds(file.kind, file.type_name, number) for gone in self._schema.dropped):
            message = f"The type {file.type_name} of commit {number} is not recorded."
            yield error("catalog", message, number, type_name=file.type_name)
