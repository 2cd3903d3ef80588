"""Results as tables for other libraries, through Arrow.

Anything that gives an Arrow table gains frames, the PyCapsule interface and a notebook view; libraries load on use.
"""

from __future__ import annotations

from html import escape
from typing import Any, Protocol

_PREVIEW = 10


class _HasArrow(Protocol):
    def to_arrow(self) -> Any: ...


class Tabular:
    """Anything with `to_arrow()` can be handed to pandas, polars, DuckDB and notebooks."""

    def to_pandas(self: _HasArrow) -> Any:
        """A pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self: _HasArrow) -> Any:
        """A polars DataFrame."""
        import polars as pl

        return pl.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self: _HasArrow, requested_schema: Any = None) -> Any:
        """The Arrow PyCapsule interface: `pl.DataFrame(q)`, `duckdb.sql("from q")`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        limited: Any = self
        table = limited.limit(_PREVIEW).to_arrow() if limited.scan.limit is None else limited.to_arrow()
        head = "".join(f"<th>{escape(name)}</th>" for name in table.column_names)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row.values()) + "</tr>"
            for row in table.slice(0, _PREVIEW).to_pylist()
        )
        return f"<p>{escape(repr(self))}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
