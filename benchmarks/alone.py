"""Work that is measured in a process of its own, because its peak memory is what counts.

`alone.py import PATH ROWS` makes an Arrow table and commits it; `alone.py iterate PATH` walks a history.
Each prints one JSON object.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from workload import Person, arrow, people

from ontologia import Ontology


def _peak_mb() -> float:
    # Linux hands the peak of the process that started this one on to `ru_maxrss`; VmHWM is this program's own.
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def _import(path: str, number: int) -> dict[str, Any]:
    import pyarrow as pa

    # In slices, so that the rows as Python tuples are not what sets the peak.
    step = 50_000
    slices = (arrow(people(min(step, number - start), start=start)) for start in range(0, number, step))
    data = pa.concat_tables(slices).combine_chunks()
    before = _peak_mb()
    with Ontology(path, entity_types=[Person]) as onto, onto.session() as session:
        session.ensure_rows(Person, data)
        session.commit()
    return {"peak_mb": _peak_mb(), "before_mb": before}


def _iterate(path: str) -> dict[str, Any]:
    with Ontology(path, entity_types=[Person], read_only=True) as onto:
        total = onto.query().entities(Person).with_history().count()
        half = 0.0
        seen = 0
        for _ in onto.query().entities(Person).with_history():
            seen += 1
            if seen == total // 2:
                half = _peak_mb()
    return {"rows": seen, "half_mb": half, "peak_mb": _peak_mb()}


def main(arguments: list[str]) -> None:
    """Do what the arguments say."""
    work, path, *rest = arguments
    print(json.dumps(_import(path, int(rest[0])) if work == "import" else _iterate(path)))


if __name__ == "__main__":
    main(sys.argv[1:])
