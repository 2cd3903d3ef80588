"""Statements over files give what a window over plain rows gives, and leave to the scan what a scan can do."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_objects.histories import EAST, KEYS, LINK, THING, History, Story, Written, links, stories, things, windows

from ontologia.model.spec import TypeSpec
from ontologia.query import aggregates as agg
from ontologia.query import reference
from ontologia.query.duckdb import register_functions
from ontologia.query.expr import FieldExpr, field_expression
from ontologia.query.plan import Aggregation, Lookup, Mode, Scan, Window
from ontologia.query.predicates import Order, Predicate, Side
from ontologia.query.sql import Sql
from ontologia.store.objects.statements import (
    aggregate_statement,
    changes_statement,
    current_statement,
    identities_statement,
    ordered_statement,
    raw_statement,
    scan_statement,
)
from ontologia.store.rows import Row
from ontologia.testing.strategies import predicates

usually = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


def of(spec: TypeSpec, name: str, side: Side = "self") -> FieldExpr[Any]:
    return field_expression(spec, spec.by_name[name], None, side)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 2}) as connection:
        register_functions(connection)
        yield connection


def run(database: duckdb.DuckDBPyConnection, statement: Sql | None) -> list[Row]:
    return [] if statement is None else database.execute(statement.text, statement.params).fetchall()


def scanned(history: History, scan: Scan) -> Sql | None:
    stored = history.stored[scan.type_name]
    return scan_statement(history.catalog, stored, scan, history.files_of, history.relation, history.head)


def expected(history: History, scan: Scan) -> list[Row]:
    """The scan by its definition."""
    found = history.visible(scan.type_name, scan.window, history.head)
    if scan.lookup is not None:
        at = history.stored[scan.type_name].spec.identity.index(scan.lookup.column)
        found = [one for one in found if one[1][at] in scan.lookup.values]
    if scan.where is not None:
        found = [one for one in found if _holds(history, scan, one)]
    if scan.order:
        found = reference.sort_rows(found, scan.order, key=lambda one: history.values(scan.type_name, one[1]))
    end = None if scan.limit is None else scan.offset + scan.limit
    return [(commit_id, *row) for commit_id, row in found[scan.offset : end]]


def _holds(history: History, scan: Scan, one: Written) -> bool:
    assert scan.where is not None
    row = one[1]
    ends: list[list[dict[str, Any]]] = [[], []]
    if scan.kind == "relation":
        known = history.visible("Thing", scan.window, history.head)
        ends = [[history.values("Thing", end) for _, end in known if end[0] == row[at]] for at in (0, 1)]
    return reference.matches(scan.where, history.values(scan.type_name, row), ends[0], ends[1])


@st.composite
def scans(draw: st.DrawFn, length: int) -> Scan:
    spec = draw(st.sampled_from([THING, LINK]))
    sides: tuple[Side, ...] = ("self",) if spec is THING else ("self", "self", "left", "right")
    lookups = st.builds(
        Lookup,
        st.sampled_from([name for name in spec.identity if name != "instance_key"]),
        st.lists(st.sampled_from((*KEYS, "zz")), max_size=3).map(tuple),
    )
    asked = st.none() | _conditions(spec, sides)
    names = [field.name for field in spec.fields]
    orders = st.lists(st.builds(Order, st.sampled_from(names).map(lambda name: of(spec, name).ref), st.booleans()))
    return Scan(
        spec.kind,
        spec.name,
        draw(windows(length)),
        draw(asked),
        tuple(draw(orders)) if draw(st.booleans()) else (),
        draw(st.none() | st.integers(0, 4)),
        draw(st.just(0) | st.integers(0, 3)),
        draw(st.none() | lookups) if draw(st.booleans()) else None,
    )


@st.composite
def _conditions(draw: st.DrawFn, spec: TypeSpec, sides: Sequence[Side]) -> Predicate:
    """Conditions on values that the histories have; those on ends are on the fields of a thing."""
    side = draw(st.sampled_from(list(sides)))
    if side == "self":
        return draw(_tests(spec, "self") | predicates(spec)) & draw(_tests(spec, "self") | predicates(spec))
    inner = draw(_tests(THING, side))
    return draw(
        st.sampled_from([inner, ~inner, inner & draw(_tests(spec, "self")), inner | draw(_tests(spec, "self"))])
    )


def _tests(spec: TypeSpec, side: Side) -> st.SearchStrategy[Predicate]:
    number, word = of(spec, "n", side), of(spec, "word", side)
    moment, price = of(spec, "at", side), of(spec, "price", side)
    days = st.sampled_from([datetime(2026, 1, day, hour, tzinfo=EAST) for day in (1, 2, 3) for hour in (0, 5)])
    return st.one_of(
        st.integers(-1, 5).map(lambda value: number == value),
        st.integers(-1, 5).map(lambda value: number < value),
        st.integers(-1, 5).map(lambda value: number != value),
        st.sampled_from(["x", "xy", "z"]).map(lambda value: word == value),
        st.sampled_from(["", "x", "xy", "z"]).map(word.startswith),
        st.just(word.is_null()),
        days.map(lambda value: moment >= value),
        days.map(lambda value: moment == value),
        st.sampled_from([1.5, -3, 9, 11]).map(lambda value: price > value),
    )


class Told:
    """A story made into files, in a folder of its own."""

    def __init__(self, story: Story) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.history = story.told(Path(self._folder.name))

    def __enter__(self) -> History:
        return self.history

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


@usually
@given(stories(), st.data())
def test_every_window_over_files_is_the_window_over_rows(
    database: duckdb.DuckDBPyConnection, story: Story, data: st.DataObject
) -> None:
    with Told(story) as history:
        length = history.head
        for _ in range(4):
            # Files may reach beyond the head of a reader: compaction went on since it began.
            history.head = data.draw(st.integers(0, length))
            scan = data.draw(scans(length))
            assert run(database, scanned(history, scan)) == expected(history, scan), scan


@usually
@given(stories(), st.data())
def test_figures_over_files_are_those_over_rows(
    database: duckdb.DuckDBPyConnection, story: Story, data: st.DataObject
) -> None:
    with Told(story) as history:
        length = history.head
        scan = data.draw(scans(length))
        spec = history.stored[scan.type_name].spec
        values = [history.values(scan.type_name, row[1:]) for row in expected(history, scan)]
        figures: list[tuple[str, agg.Aggregate]] = [("count", agg.count())]
        for name in ("n", "word", "at", "price"):
            place = of(spec, name)
            figures += [(f"least {name}", agg.min(place)), (f"most {name}", agg.max(place))]
            figures.append((f"distinct {name}", agg.count_distinct(place)))
        figures += [("sum", agg.sum(of(spec, "price"))), ("mean", agg.avg(of(spec, "price")))]
        figures.append(("whole", agg.sum(of(spec, "n"))))
        group = data.draw(st.lists(st.sampled_from(["word", "at", "price", "n"]), max_size=2, unique=True))
        refs = tuple(of(spec, name).ref for name in group)
        asked = Aggregation(scan, refs, tuple(figures))
        statement, plan = aggregate_statement(
            history.catalog, history.stored[scan.type_name], asked, history.files_of, history.relation, length
        )
        found = plan.result(run(database, statement))
        wanted = reference.grouped(values, refs, figures)
        # By text: an offset and the digits of a decimal are part of a value that is shown.
        assert list(map(repr, found)) == list(map(repr, wanted))


@usually
@given(stories(), st.data())
def test_raw_rows_are_all_rows_of_the_window(
    database: duckdb.DuckDBPyConnection, story: Story, data: st.DataObject
) -> None:
    with Told(story) as history:
        window = data.draw(windows(history.head))
        lookup = data.draw(
            st.none() | st.just(Lookup("left_key", ("a", "c", "q"))) | st.just(Lookup("right_key", ("b",)))
        )
        stored = history.stored["Link"]
        statement = raw_statement(
            stored, stored.current, window, lookup, history.files_of, history.relation, history.head
        )
        assert run(database, statement) == expected(history, Scan("relation", "Link", window, lookup=lookup))


@usually
@given(stories(), st.sampled_from([THING, LINK]), st.data())
def test_writers_find_current_rows_and_identities(
    database: duckdb.DuckDBPyConnection, story: Story, spec: TypeSpec, data: st.DataObject
) -> None:
    with Told(story) as history:
        stored, files = history.stored[spec.name], history.files[spec.name]
        width = len(spec.identity)
        latest = {row[:width]: (commit, *row) for commit, row in history.visible(spec.name, Window(), history.head)}
        if not files:
            return
        found = run(database, identities_statement(stored, files, history.relation))
        assert sorted(found) == sorted((*identity, row[0]) for identity, row in latest.items())
        everything = run(database, ordered_statement(stored, files, history.relation))
        assert everything == [latest[identity] for identity in sorted(latest)]
        wanted = data.draw(st.lists(st.sampled_from([*latest, ("zz",) * width, ("a", "b", "zz")[:width]]), unique=True))
        current = current_statement(stored, files, history.relation, wanted)
        assert run(database, current) == [latest[one] for one in sorted(wanted) if one in latest]


@usually
@given(stories())
def test_a_commit_tells_what_it_inserted_and_what_it_updated(database: duckdb.DuckDBPyConnection, story: Story) -> None:
    with Told(story) as history:
        seen: set[Row] = set()
        for commit_id in range(1, history.head + 1):
            rows = [row[:1] for commit, row in history.written["Thing"] if commit == commit_id]
            covering = [one for one in history.files["Thing"] if one.covers(commit_id)]
            found = [
                row for one in covering for row in run(database, changes_statement(one, commit_id, history.relation))
            ]
            assert sorted(found) == sorted((*identity, identity in seen) for identity in rows)
            seen |= set(rows)


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Three commits of things; the second one updates, the third one only adds."""
    made = History(tmp_path)
    made.add(THING)
    made.add(LINK)
    first = datetime(2026, 1, 1, tzinfo=UTC)
    for commit_id, prefix, count, start, word in (
        (1, "k", 100, 0, "x"),
        (2, "k", 3, 1000, "y"),
        (3, "n", 3, 5000, "z"),
    ):
        some = {
            f"{prefix}{n:03d}": [start + n, word, first + timedelta(days=n), Decimal(n - 1) / 2] for n in range(count)
        }
        made.commit(THING, things(some), commit_id)
    return made


def plan_of(database: duckdb.DuckDBPyConnection, statement: Sql | None) -> dict[str, Any]:
    """The optimised plan of a statement."""
    assert statement is not None
    ((_, text),) = database.execute(f"EXPLAIN (FORMAT json) {statement.text}", statement.params).fetchall()
    return json.loads(text)[0]


def scans_in(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The extra facts of every Parquet scan in a plan."""
    own = [node["extra_info"]] if "PARQUET" in node["name"] or "PARQUET" in str(node["extra_info"]) else []
    return own + [found for child in node["children"] for found in scans_in(child)]


@pytest.mark.parametrize(
    ("predicate", "filtered"),
    [
        (of(THING, "n") == 1001, "n=1001"),
        (of(THING, "n").between(5, 9), "n>=5"),
        (of(THING, "word") == "y", "word='y'"),
        (of(THING, "word").startswith("y"), "word>='y'"),
        (of(THING, "at") >= datetime(2026, 1, 2, tzinfo=EAST), "at>='2026-01-0119:00:00+00'"),
        (of(THING, "price") > 0, "price:order>'b'"),
        (of(THING, "id") == "k001", "entity_key='k001'"),
    ],
    ids=["equal", "range", "text", "prefix", "moment", "decimal", "key"],
)
def test_a_condition_on_a_typed_column_is_a_filter_of_the_scan(
    database: duckdb.DuckDBPyConnection, history: History, predicate: Predicate, filtered: str
) -> None:
    database.execute("SET TimeZone = 'UTC'")
    history.forget_statistics()
    found = scans_in(plan_of(database, scanned(history, Scan("entity", "Thing", where=predicate))))
    filters = [str(one.get("Filters", "")).replace(" ", "") for one in found]
    assert any(filtered in one for one in filters), filters


def test_a_condition_on_an_end_is_a_filter_of_the_scan_of_the_ends(
    database: duckdb.DuckDBPyConnection, history: History
) -> None:
    history.commit(LINK, links({("k001", "k002"): [1, "x", datetime(2026, 1, 1, tzinfo=UTC), Decimal(1)]}), 4)
    predicate = field_expression(THING, THING.by_name["n"], None, "left") == 1001
    statement = scanned(history, Scan("relation", "Link", where=predicate))
    found = scans_in(plan_of(database, statement))
    assert [one["Projections"] for one in found if "n = 1001" in str(one.get("Filters"))] in (
        ["entity_key"],
        [["entity_key", "commit_id"]],
        [["commit_id", "entity_key"]],
    )
    assert len(run(database, statement)) == 1


def test_a_scan_reads_no_columns_that_are_not_asked_for(database: duckdb.DuckDBPyConnection, history: History) -> None:
    stored = history.stored["Thing"]
    asked = Aggregation(Scan("entity", "Thing", where=of(THING, "n") > 3), (), (("sum", agg.sum(of(THING, "n"))),))
    statement, _ = aggregate_statement(history.catalog, stored, asked, history.files_of, history.relation, history.head)
    read = {name for one in scans_in(plan_of(database, statement)) for name in one["Projections"]}
    assert read <= {"n", "commit_id", "entity_key", ":update"}


def test_superseded_rows_are_looked_for_only_in_files_with_updates(history: History) -> None:
    scanned(history, Scan("entity", "Thing"))
    assert [[one.min_commit_id for one in files] for files in history.asked] == [[1, 2, 3], [2]]


@pytest.mark.parametrize(
    ("scan", "commits"),
    [
        (Scan("entity", "Thing", Window(Mode.HISTORY)), [[1, 2, 3]]),
        (Scan("entity", "Thing", Window(Mode.AS_OF, 0, 1)), [[1]]),
        (Scan("entity", "Thing", Window(Mode.HISTORY, 1)), [[2, 3]]),
        (Scan("entity", "Thing", lookup=Lookup("key", ("n001",))), [[3]]),
        (Scan("entity", "Thing", lookup=Lookup("key", ("k050",))), [[1]]),
        (Scan("entity", "Thing", lookup=Lookup("key", ("k001", "n001"))), [[1, 2, 3], [2]]),
        (Scan("entity", "Thing", where=of(THING, "n") > 4000), [[3]]),
        (Scan("entity", "Thing", where=of(THING, "n") == 1001), [[2]]),
        (Scan("entity", "Thing", where=of(THING, "n") == 50), [[1], [2]]),
        (Scan("entity", "Thing", where=(of(THING, "word") == "x") & (of(THING, "n") > 4000)), []),
    ],
    ids=lambda value: "" if isinstance(value, list) else None,
)
def test_only_files_that_can_matter_are_read(history: History, scan: Scan, commits: list[list[int]]) -> None:
    """The first list are the files that are scanned, the second those that say what is superseded."""
    statement = scanned(history, scan)
    assert [[one.min_commit_id for one in files] for files in history.asked] == commits
    assert (statement is None) == (not commits)


def test_a_row_that_no_longer_matches_still_hides_the_one_that_did(
    database: duckdb.DuckDBPyConnection, history: History
) -> None:
    assert run(database, scanned(history, Scan("entity", "Thing", where=of(THING, "n") == 1))) == []
    (found,) = run(database, scanned(history, Scan("entity", "Thing", where=of(THING, "n") == 1001)))
    assert found[:2] == (2, "k001")


def test_rows_of_another_version_in_a_file_of_unknown_version_are_left_out(
    database: duckdb.DuckDBPyConnection, history: History
) -> None:
    history.forget_statistics()
    stored = history.stored["Thing"]
    history.stored["Thing"] = replace(stored, versions=(replace(stored.current, version=2),))
    assert run(database, scanned(history, Scan("entity", "Thing"))) == []


def test_values_and_names_of_users_are_not_in_the_text(history: History) -> None:
    evil = "x'; DROP TABLE t; --"
    predicate = (of(THING, "word") == evil) | of(THING, "id").in_([evil, "b"])
    history.forget_statistics()
    statement = scanned(history, Scan("entity", "Thing", where=predicate, lookup=Lookup("key", (evil, "c"))))
    assert statement is not None
    assert "DROP" not in statement.text
    assert str(history.folder) not in statement.text


def test_a_long_lookup_is_one_parameter(database: duckdb.DuckDBPyConnection, history: History) -> None:
    keys = tuple(f"k{number:03d}" for number in range(50, 40_000))
    statement = scanned(history, Scan("entity", "Thing", Window(Mode.HISTORY), lookup=Lookup("key", keys)))
    assert statement is not None
    assert statement.text.count("?") == 2
    assert len(run(database, statement)) == 50


def test_figures_without_files_are_those_of_no_rows(database: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    empty = History(tmp_path)
    stored = empty.add(THING)
    figures = (("count", agg.count()), ("sum", agg.sum(of(THING, "price"))), ("least", agg.min(of(THING, "at"))))
    for group in ((), (of(THING, "word").ref, of(THING, "at").ref)):
        asked = Aggregation(Scan("entity", "Thing"), group, figures)
        statement, plan = aggregate_statement(empty.catalog, stored, asked, empty.files_of, empty.relation, 0)
        assert plan.result(run(database, statement)) == reference.grouped([], group, figures)
