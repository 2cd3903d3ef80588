"""Where everything lies under the prefix. The keys are those of the public layout: other programs may read them.

Type names are Python identifiers or what a user gave as `name=`; what could be mistaken for a part of a path is
percent-encoded, so that no name leaves its folder.
"""

from __future__ import annotations

from urllib.parse import quote

from ontologia.model.spec import TypeKind

HEAD = "meta/head.json"
LOCK = "meta/locks/ontology_write.json"
TYPES = "meta/schema/types.json"
REGISTRY = "meta/schema/registry.json"
DROPPED = "meta/schema/dropped.json"
CATALOGS = "meta/schema/catalogs/"
INDICES = "meta/indices/"
RETIRED = "meta/retired/"
MANIFEST_LISTS = "meta/manifests/"
COMMITS = "commits/"
SNAPSHOTS = "snapshots/"

FOLDERS: dict[TypeKind, str] = {"entity": "entities", "relation": "relations"}


def _safe(name: str) -> str:
    return quote(name, safe="")


def versions(kind: TypeKind, name: str) -> str:
    """All schema versions that a type has had."""
    return f"meta/schema/versions/{kind}/{_safe(name)}.json"


def catalog(sha256: str) -> str:
    """One immutable state of the whole catalog; the head names the one in force."""
    return f"{CATALOGS}{sha256}.json"


def index(kind: TypeKind, name: str) -> str:
    return f"{INDICES}{FOLDERS[kind]}/{_safe(name)}.json"


def retired(kind: TypeKind, name: str) -> str:
    """Snapshots that stand for data files which clean-up has removed."""
    return f"{RETIRED}{FOLDERS[kind]}/{_safe(name)}.json"


def attempt(commit_id: int, attempt_id: str) -> str:
    """The folder of one attempt at a commit."""
    return f"{COMMITS}{commit_id}-{attempt_id}/"


def manifest(commit_id: int, attempt_id: str) -> str:
    return f"{attempt(commit_id, attempt_id)}manifest.json"


def data(commit_id: int, attempt_id: str, kind: TypeKind, name: str) -> str:
    return f"{attempt(commit_id, attempt_id)}{FOLDERS[kind]}/{_safe(name)}.parquet"


def snapshot(kind: TypeKind, name: str, first: int, last: int) -> str:
    return f"{SNAPSHOTS}{FOLDERS[kind]}/{_safe(name)}-{first}-{last}.parquet"


def manifest_list(first: int, last: int) -> str:
    return f"{MANIFEST_LISTS}{first}-{last}.json"
