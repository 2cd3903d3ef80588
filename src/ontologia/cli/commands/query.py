"""`query entities`, `query relations` and `query traverse`: questions, as of now or of any commit.

JSON and CSV are complete and stream; text shows as much as a person reads and says how much more there is.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import date, time
from decimal import Decimal
from itertools import islice
from typing import Any, TypeVar

import click

from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.options import as_of_option, complete_types, models_option, type_argument, upgraders_option
from ontologia.cli.rendering import plural, show_facts, show_rows, show_table, text_of
from ontologia.cli.structure import Command, Group

F = TypeVar("F", bound=Callable[..., Any])
SHOWN = 100
"""Rows that text output shows unless `--limit` says otherwise."""
_UNARY = {"is_null", "is_not_null", "is_true", "is_false"}


class Question(Command):
    """A command with filters, whose operators without a value (`is_null`) may be written without one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spelled: list[str] = []
        position = 0
        while position < len(args):
            width = {"--filter": 2, "--any": 3}.get(args[position], 0)
            taken = args[position : position + width + 1]
            spelled += taken
            if width and len(taken) == width + 1 and taken[-1] in _UNARY:
                spelled.append("")
            position += len(taken)
        return super().parse_args(ctx, spelled)


def question_options(function: F) -> F:
    """The options of every question, in the order that help shows them."""
    options = [
        click.option(
            "--filter",
            "filters",
            nargs=3,
            multiple=True,
            metavar="PATH OP VALUE",
            help="A condition; repeatable, all must hold.",
        ),
        click.option(
            "--any",
            "any_filters",
            nargs=4,
            multiple=True,
            metavar="PATH INSIDE OP VALUE",
            help="A condition on some item of a list.",
        ),
        click.option(
            "--order-by",
            "orders",
            multiple=True,
            metavar="[-]FIELD",
            help="Sort; - for downwards; repeatable. Default: by commit, then key.",
        ),
        click.option("--limit", type=click.IntRange(0), help=f"At most this many; text shows {SHOWN} unless told."),
        click.option("--offset", type=click.IntRange(0), default=0, help="Leave out the first ones."),
        as_of_option,
        click.option("--history", is_flag=True, help="Every version of every row."),
        click.option("--since", type=int, metavar="COMMIT", help="Every version written after a commit."),
        click.option(
            "--between", type=int, nargs=2, metavar="FIRST LAST", help="Versions written from commit to commit."
        ),
        click.option("--raw", is_flag=True, help="Rows as they were written, each in its own schema version."),
        click.option("--count", "only_count", is_flag=True, help="Only how many."),
        click.option("--explain", is_flag=True, help="How the store would answer, instead of the answer."),
        models_option,
        upgraders_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.group(cls=Group)
def query() -> None:
    """Ask for entities, relations and paths.

    Rows come by the commit that wrote them, then by key, unless --order-by says otherwise.

    \b
    A filter is a path, an operator and a JSON value:
      onto query entities Customer --filter '$.tier' eq '"Gold"'
      onto query relations Subscription --filter 'left.$.tier' in '["Gold", "Silver"]'
      onto query entities Customer --filter '$.email' is_null
    Operators: eq ne gt gte lt lte in not_in between startswith endswith contains
    icontains matches is_null is_not_null is_true is_false.
    """  # noqa: D301 - \b keeps click from reflowing the paragraph


@query.command(cls=Question)
@type_argument("entity")
@question_options
@pass_invocation
def entities(invocation: Invocation, type_name: str, **asked: Any) -> None:
    """Entities of a type."""
    _answer(invocation, "entity", type_name, asked)


@query.command(cls=Question)
@type_argument("relation")
@question_options
@pass_invocation
def relations(invocation: Invocation, type_name: str, **asked: Any) -> None:
    """Relations of a type; `left.$.field` and `right.$.field` reach their ends."""
    _answer(invocation, "relation", type_name, asked)


@query.command(cls=Question)
@type_argument("entity")
@click.option(
    "--via",
    "hops",
    multiple=True,
    required=True,
    metavar="RELATION",
    shell_complete=complete_types("relation"),
    help="Follow a relation; repeatable. RELATION:reverse says the direction where both ends fit.",
)
@click.option("--targets", is_flag=True, help="The distinct entities at the end, instead of the paths.")
@question_options
@pass_invocation
def traverse(invocation: Invocation, type_name: str, hops: tuple[str, ...], targets: bool, **asked: Any) -> None:  # noqa: FBT001 - click passes by name
    """Paths from entities of a type along relations; filters choose where they start."""
    from ontologia.cli.models import known_classes, load_all_upgraders, named_class
    from ontologia.store.transfer.records import record_of

    if asked["raw"]:
        raise click.UsageError("--raw shows the rows of one type; a path has several.")
    with invocation.open(upgraders=load_all_upgraders(asked["upgraders"])) as store:
        classes = known_classes(store, asked["models"])
        everything = store.query().entities(named_class(classes, type_name, "entity"))
        start = _rows(everything, asked, sliced=False)
        if asked["explain"]:
            _show_explanation(invocation, start.explain())
            return
        walk: Any = start
        for hop in hops:
            name, _, direction = hop.partition(":")
            if direction not in {"", "forward", "reverse"}:
                raise click.BadParameter(f"{hop!r}: a direction is forward or reverse.")
            walk = walk.via(named_class(classes, name, "relation"), reverse=_REVERSE[direction])
        found = walk.targets() if targets else walk.collect()
        total = len(found)
        found = (
            found[asked["offset"] :]
            if asked["limit"] is None
            else found[asked["offset"] : asked["offset"] + asked["limit"]]
        )
        if asked["only_count"]:
            _show_count(invocation, len(found))
        elif targets:
            _show_objects(invocation, named_target(walk), iter(found), total, asked, start=everything)
        elif invocation.as_json:
            paths = [
                {
                    "nodes": [record_of(node, meta=True) for node in path.nodes],
                    "edges": [record_of(edge, meta=True) for edge in path.edges],
                }
                for path in found
            ]
            invocation.emit_json(paths)
        else:
            _show_paths(invocation, found, asked["limit"])
        if not found and not targets:
            invocation.note(_nothing(asked, everything))


_REVERSE = {"": None, "forward": False, "reverse": True}


def named_target(walk: Any) -> type[Any]:
    """The class at the end of a traversal."""
    return walk.hops[-1].target


def _show_paths(invocation: Invocation, found: list[Any], limit: int | None) -> None:
    if not found:
        return
    columns = [f"{number}:{node.__spec__.name}" for number, node in enumerate(found[0].nodes)]
    rows = [[_key(node) for node in path.nodes] for path in found]
    if invocation.format == "csv":
        invocation.emit_csv(columns, rows)
        return
    shown = rows if limit is not None else rows[:SHOWN]
    show_table(invocation, columns, shown)
    _note_rest(invocation, len(rows) - len(shown))


def _key(node: Any) -> str:
    from ontologia.model.rows import identity

    return identity(node)[0]


def _answer(invocation: Invocation, kind: str, type_name: str, asked: dict[str, Any]) -> None:
    from ontologia.cli.models import known_classes, load_all_upgraders, named_class

    with invocation.open(upgraders=load_all_upgraders(asked["upgraders"])) as store:
        cls = named_class(known_classes(store, asked["models"]), type_name, kind)
        start = store.query().entities(cls) if kind == "entity" else store.query().relations(cls)
        rows = _rows(start, asked, sliced=True)
        if asked["explain"]:
            _show_explanation(invocation, rows.explain())
        elif asked["only_count"]:
            _show_count(invocation, sum(1 for _ in rows.rows()) if asked["raw"] else rows.count())
        elif asked["raw"]:
            _show_raw(invocation, list(rows.rows()), asked, start)
        else:
            limited = invocation.as_text and asked["limit"] is None
            total = rows.count() if limited else None
            _show_objects(invocation, cls, iter(rows.limit(SHOWN) if limited else rows), total, asked, start=start)


def _rows(rows: Any, asked: dict[str, Any], *, sliced: bool) -> Any:
    """The query that the options describe."""
    from ontologia.cli.filters import condition, condition_on_items, moment, order

    windows = [asked["as_of"] is not None, asked["history"], asked["since"] is not None, bool(asked["between"])]
    if sum(windows) > 1:
        raise click.UsageError("Use one of --as-of, --history, --since and --between.")
    for path, operator, value in asked["filters"]:
        rows = rows.where(condition(rows.cls, path, operator, value))
    for path, inside, operator, value in asked["any_filters"]:
        rows = rows.where(condition_on_items(rows.cls, path, inside, operator, value))
    rows = rows.order_by(*(order(rows.cls, text) for text in asked["orders"]))
    if asked["as_of"] is not None:
        rows = rows.as_of(moment(asked["as_of"]))
    elif asked["history"]:
        rows = rows.with_history()
    elif asked["since"] is not None:
        rows = rows.history_since(asked["since"])
    elif asked["between"]:
        rows = rows.between(*asked["between"])
    if sliced and asked["limit"] is not None:
        rows = rows.limit(asked["limit"])
    return rows.offset(asked["offset"]) if sliced and asked["offset"] else rows


def _show_objects(
    invocation: Invocation,
    cls: type[Any],
    found: Iterator[Any],
    total: int | None,
    asked: dict[str, Any],
    *,
    start: Any,
) -> None:
    """Objects in the form that was asked for; JSON and CSV stream."""
    from ontologia.store.transfer.records import fields_json, record_of
    from ontologia.store.transfer.write import csv_columns, write_lines

    first = list(islice(found, 1))
    everything = (thing for part in (first, found) for thing in part)
    if invocation.as_json:
        _stream_json(record_of(thing, meta=True) for thing in everything)
    elif invocation.format == "csv":
        write_lines(everything, cls.__spec__, "csv", sys.stdout, meta=True)
    elif first:
        in_history = bool(asked["history"] or asked["since"] is not None or asked["between"])
        columns = csv_columns(cls.__spec__, meta=False)
        listed = list(islice(everything, SHOWN if asked["limit"] is None else None))
        rows = [_text_row(thing, columns, fields_json(thing), history=in_history) for thing in listed]
        show_table(invocation, [*(["commit"] if in_history else []), *columns], rows)
        _note_rest(invocation, 0 if total is None else total - len(listed))
    if not first:
        invocation.note(_nothing(asked, start))


def _text_row(thing: Any, columns: list[str], values: dict[str, Any], *, history: bool) -> list[str]:
    cells = [text_of(values.get(name, getattr(thing, name))) for name in columns]
    return [str(thing.meta().commit_id), *cells] if history else cells


def _show_raw(invocation: Invocation, rows: list[dict[str, Any]], asked: dict[str, Any], start: Any) -> None:
    """Rows of several schema versions, under the columns of all of them."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    shown = rows[:SHOWN] if invocation.as_text and asked["limit"] is None else rows
    plain = [{name: _plain(row.get(name)) for name in row} for row in shown]
    show_rows(invocation, columns, plain, "" if plain else _nothing(asked, start))
    _note_rest(invocation, len(rows) - len(shown))


def _plain(value: Any) -> Any:
    """A stored value as JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal | date | time) else value


def _stream_json(records: Iterable[dict[str, Any]]) -> None:
    separator = "[\n"
    for record in records:
        click.echo(f"{separator}{json.dumps(record, ensure_ascii=False)}", nl=False)
        separator = ",\n"
    click.echo("[]" if separator == "[\n" else "\n]")


def _note_rest(invocation: Invocation, rest: int) -> None:
    if rest > 0:
        invocation.note(f"{plural(rest, 'more row')}; --limit and --offset choose, --json shows all.")


def _nothing(asked: dict[str, Any], start: Any) -> str:
    """What to say about an empty answer; `start` is the question without conditions and windows."""
    from ontologia.cli.filters import moment

    filtered = bool(asked["filters"] or asked["any_filters"])
    if asked["as_of"] is not None:
        before = start.as_of(moment(asked["as_of"])).limit(1)
        filtered = filtered and any(True for _ in before.rows())
    if filtered:
        return "Nothing fits; leave out a --filter to see more."
    if asked["as_of"] is not None:
        return "There was nothing of this type then; `onto commits` shows what was written when."
    return "There is nothing of this type; `onto info` shows what the store holds."


def _show_count(invocation: Invocation, number: int) -> None:
    if invocation.as_text:
        click.echo(str(number))
    else:
        show_facts(invocation, {"count": number})


def _show_explanation(invocation: Invocation, explanation: Any) -> None:
    if invocation.as_text:
        click.echo(str(explanation))
        return
    show_facts(
        invocation,
        {
            "sql": explanation.sql,
            "parameters": [
                value if isinstance(value, str | int | float | None) else str(value) for value in explanation.parameters
            ],
            "plan": list(explanation.plan),
            "native": explanation.native,
            "note": explanation.note,
        },
    )
