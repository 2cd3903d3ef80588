"""Frames as people have them: unusual columns work or are refused by name, never with an error of a library."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ontologia.errors import InputError, RowError
from ontologia.model.arrow import physical_arrays, physical_from_dicts, table_from_any
from ontologia.model.declare import Entity
from ontologia.model.fields import Field
from ontologia.model.rows import encoder


class Guest(Entity):
    id: Field[str] = Field(primary_key=True)
    name: Field[str] = Field(default="x")
    number: Field[int] = Field(default=0)
    tier: Field[Literal["a", "b"]] = Field(default="a")


def rows_of(data: Any) -> list[tuple[Any, ...]]:
    found = table_from_any(data)
    if not isinstance(found, pa.Table):
        return physical_from_dicts(Guest, found)
    return list(zip(*(column.to_pylist() for column in physical_arrays(Guest, found)), strict=True))


def row(**values: Any) -> tuple[Any, ...]:
    return encoder(Guest)(Guest(**values))


def test_none_among_dicts_is_a_bad_row_and_not_the_end():
    with pytest.raises(RowError, match="Row 0 is not a dict but NoneType"):
        rows_of([None, {"id": "a"}])


def test_a_null_inside_a_dictionary_is_a_null():
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    for columns in ({"id": values}, {"id": ["1", "2"], "name": values}):
        with pytest.raises(RowError, match=r"Row 1, .*: a value is needed") as error:
            rows_of(pa.table(columns))
        assert error.value.row == 1


def test_categories_of_polars_are_text():
    frame = pl.DataFrame({"id": ["1", "2"], "tier": pl.Series(["a", "b"], dtype=pl.Categorical)})
    assert rows_of(frame) == [row(id="1", tier="a"), row(id="2", tier="b")]
    named = pl.DataFrame({"id": ["1"], "name": pl.Series(["Ann"], dtype=pl.Categorical)})
    assert rows_of(named) == [row(id="1", name="Ann")]


def test_long_integers_of_pandas_survive():
    assert rows_of(pd.DataFrame({"id": ["a"], "number": [2**70]})) == [row(id="a", number=2**70)]


@pytest.mark.parametrize("data", [pd.Series({"id": "a"}), pl.Series(["a"])])
def test_a_single_column_is_no_frame(data: Any):
    with pytest.raises(InputError, match="Cannot read rows from Series"):
        table_from_any(data)


def test_batches_of_different_columns_or_types_are_refused():
    first = pa.table({"id": ["1"], "number": [1]})
    with pytest.raises(InputError, match="Batch 1 has the columns id, the first one has id, number"):
        table_from_any([first, pa.table({"id": ["2"]})])
    with pytest.raises(InputError, match="do not have the same types"):
        table_from_any([first, pa.table({"id": ["2"], "number": ["2"]})])
    swapped = pa.table({"number": [2], "id": ["2"]})
    assert rows_of([first, swapped]) == [row(id="1", number=1), row(id="2", number=2)]


def test_text_that_is_not_unicode_names_its_row():
    broken = pa.array([b"ok", b"\xff\xfe"]).view(pa.string())
    for name in ("name", "tier"):
        with pytest.raises(RowError, match=f"Row 1, {name}") as error:
            rows_of(pa.table({"id": ["1", "2"], name: broken}))
        assert error.value.row == 1
