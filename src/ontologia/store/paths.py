"""Walking a traversal: a fixed number of reads per hop, however many rows there are.

All reads of one traversal are from the same snapshot. Ends that do not exist end no path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ontologia.model.rows import identity
from ontologia.query.plan import Lookup, Scan, Window
from ontologia.query.traverse import Hop, Path
from ontologia.store.protocol import Snapshot
from ontologia.store.reads import Reader, resolve


def traverse(reader: Reader, cls: type[Any], scan: Scan, hops: Sequence[Hop]) -> list[Path]:
    """Every path from the sources of a scan along the hops."""
    with reader.backend.snapshot() as snapshot:
        concrete = resolve(snapshot, scan)
        sources = reader.built(cls, reader.rows(snapshot, cls, concrete))
        paths = [Path((source,), ()) for source in sources]
        for hop in hops:
            paths = _follow(reader, snapshot, paths, hop, concrete.window)
    return paths


def _follow(reader: Reader, snapshot: Snapshot, paths: list[Path], hop: Hop, window: Window) -> list[Path]:
    near, far = (1, 0) if hop.reverse else (0, 1)
    sides = ("left", "right")
    here = {identity(path.target)[0]: path.target for path in paths}
    spec = hop.relation.__spec__
    lookup = Lookup(f"{sides[near]}_key", tuple(sorted(here)))
    scan = Scan("relation", spec.name, window, where=hop.where, lookup=lookup)
    found = reader.built(hop.relation, reader.rows(snapshot, hop.relation, scan))
    edges = [(identity(edge), edge) for edge in found]
    targets = reader.by_key(snapshot, hop.target, {keys[far] for keys, _ in edges}, window)
    leaving: dict[str, list[tuple[Any, Any]]] = {}
    for keys, edge in edges:
        target = targets.get(keys[far])
        if target is not None:
            edge.attach(sides[near], here[keys[near]])
            edge.attach(sides[far], target)
            leaving.setdefault(keys[near], []).append((edge, target))
    return [
        Path((*path.nodes, target), (*path.edges, edge))
        for path in paths
        for edge, target in leaving.get(identity(path.target)[0], ())
    ]
