"""`commits`, `diff` and `blame`: what was written when, and what it changed.

The answers come from the library; here they become tables, JSON or CSV.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.options import models_option, type_argument, type_option, upgraders_option
from ontologia.cli.rendering import CUT, fact_lines, plural, show_rows, show_table, text_of
from ontologia.cli.structure import Command, Group
from ontologia.cli.table import terminal_width, visible
from ontologia.errors import SchemaError

if TYPE_CHECKING:
    from ontologia.model.spec import TypeSpec
    from ontologia.ontology import Ontology
    from ontologia.store.commits import Change, Commit


@click.group(cls=Group, invoke_without_command=True)
@click.option("--limit", type=click.IntRange(1), help="At most this many; text shows 20 unless told.")
@click.option("--since", type=int, metavar="COMMIT", help="Only commits after this one.")
@click.pass_context
def commits(context: click.Context, limit: int | None, since: int | None) -> None:
    """List commits, newest first."""
    if context.invoked_subcommand is not None:
        return
    invocation = context.ensure_object(Invocation)
    with invocation.open() as store:
        shown = limit if limit is not None else 20 if invocation.as_text else None
        listed = store.list_commits(limit=shown, since=since)
        rest = listed[-1].commit_id - 1 - (since or 0) if listed and limit is None else 0
    if invocation.as_json or invocation.format == "csv" or not listed:
        names = ("commit_id", "created_at", "runtime_id", "counts", "metadata", "parent_commit_id", "commit_sha256")
        show_rows(invocation, names, [one.to_dict() for one in listed], "There are no commits yet.")
        return
    rows = [
        [
            str(one.commit_id),
            _time(one),
            _counts(one.counts),
            _metadata(one) or "-",
        ]
        for one in listed
    ]
    show_table(invocation, ("commit", "time (UTC)", "rows", "metadata"), rows)
    if rest > 0:
        invocation.note(f"{plural(rest, 'older commit')}; --limit shows more.")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items()) or "-"


def _time(commit: Commit) -> str:
    return commit.created_at.strftime("%Y-%m-%d %H:%M:%S")


def _metadata(commit: Commit) -> str:
    return ", ".join(f"{name}={value}" for name, value in commit.metadata.items())


@commits.command()
@click.argument("commit_id", type=int, metavar="ID")
@pass_invocation
def examine(invocation: Invocation, commit_id: int) -> None:
    """One commit and every row it wrote."""
    with invocation.open() as store:
        commit = store.get_commit(commit_id)
        changes = store.changes(commit_id)
        few = invocation.as_text and len(changes) <= _FEW
        fields = _changed_fields(store, commit_id, changes) if few else {}
    rows = [
        {name: value for name, value in change._asdict().items() if value is not None and value != ""}
        for change in changes
    ]
    if invocation.as_json:
        invocation.emit_json({**commit.to_dict(), "changes": rows})
        return
    columns = ("kind", "type_name", "key", "left_key", "right_key", "instance_key", "op")
    if invocation.format == "csv":
        show_rows(invocation, columns, rows, "")
        return
    facts = {
        "commit": commit.commit_id,
        "parent": commit.parent_commit_id,
        "time": commit.created_at.isoformat(),
        "runtime": commit.runtime_id,
        "metadata": commit.metadata,
        "rows": _counts(commit.counts),
        "sha256": commit.commit_sha256,
    }
    click.echo("\n".join(fact_lines(facts)))
    click.echo()
    columns = ("change", "type", "key", *(["changed fields"] if fields else []))
    shown = [[str(row["op"]), str(row["type_name"]), _named(row)] for row in rows[:_ROWS]]
    if fields:
        for cells in shown:
            cells.append(", ".join(fields.get((cells[1], cells[2]), ())) or "-")
    show_table(invocation, columns, shown)
    if len(rows) > _ROWS:
        invocation.note(f"{plural(len(rows) - _ROWS, 'more row')}; --json shows all.")


_ROWS = 100
"""Rows that text shows."""
_FEW = 1000
"""Rows of a commit for which it is quick to say what they changed."""


def _changed_fields(store: Ontology, commit_id: int, changes: list[Change]) -> dict[tuple[str, str], list[str]]:
    """Names of the fields that a commit's updates changed, by type and key; none across a change of the type."""
    from ontologia.cli.models import known_classes

    found: dict[tuple[str, str], list[str]] = {}
    classes = known_classes(store)
    for name in {change.type_name for change in changes if change.op == "update"} & classes.keys():
        try:
            items = [_item(classes[name], *one) for one in store.diff(commit_id - 1, commit_id, classes[name])]
        except SchemaError:
            continue
        found |= {(name, _key_text(item["key"])): item["changed"] for item in items if item["change"] == "update"}
    return found


def _key_text(key: str | list[str]) -> str:
    if isinstance(key, str):
        return key
    return " -> ".join(key[:2]) + (f" [{key[2]}]" if len(key) > 2 else "")


def _named(row: dict[str, Any]) -> str:
    if "key" in row:
        return str(row["key"])
    return _key_text([row["left_key"], row["right_key"], *([row["instance_key"]] if "instance_key" in row else [])])


@click.command(cls=Command)
@click.argument("first", type=int, metavar="FIRST")
@click.argument("second", type=int, metavar="[SECOND]", required=False)
@type_option("Only this type.")
@models_option
@upgraders_option
@pass_invocation
def diff(
    invocation: Invocation,
    *,
    first: int,
    second: int | None,
    type_name: str | None,
    models: tuple[str, ...],
    upgraders: tuple[str, ...],
) -> None:
    """Show what differs between two commits.

    SECOND is the last commit unless given; commit 0 is the empty store. Without --type all stored types are compared.
    """
    from ontologia.cli.models import known_classes, load_all_upgraders, named_class

    with invocation.open(upgraders=load_all_upgraders(upgraders)) as store:
        second = store.head() if second is None else second
        for commit_id in (first, second):
            if commit_id != 0:
                store.get_commit(commit_id)
        classes = known_classes(store, models)
        chosen = classes.values() if type_name is None else [named_class(classes, type_name)]
        items = [_item(cls, *one) for cls in chosen for one in store.diff(first, second, cls)]
    if not invocation.as_text or not items:
        names = ("kind", "type", "key", "change", "changed", "before", "after")
        show_rows(invocation, names, items, f"Commits {first} and {second} do not differ.")
        return
    lines = [line for item in items[:_ROWS] for line in _diff_lines(item)]
    width = terminal_width()
    for mark, line in lines:
        colour = {"+": "green", "-": "red"}.get(mark)
        click.echo(click.style(_clipped(line, width), fg=colour))
    if any(len(line) > width for _, line in lines):
        invocation.note(CUT)
    if len(items) > _ROWS:
        invocation.note(f"{plural(len(items) - _ROWS, 'more row')}; --type chooses, --json shows all.")


def _item(cls: type[Any], key: Any, before: Any, after: Any) -> dict[str, Any]:
    """One difference as JSON-able data."""
    from ontologia.store.transfer.records import fields_json

    old = None if before is None else fields_json(before)
    new = None if after is None else fields_json(after)
    names = {**(old or {}), **(new or {})}
    return {
        "kind": cls.__spec__.kind,
        "type": cls.__spec__.name,
        "key": key if isinstance(key, str) else list(key),
        "change": "insert" if old is None else "remove" if new is None else "update",
        "changed": [name for name in names if (old or {}).get(name) != (new or {}).get(name)],
        "before": old,
        "after": new,
    }


def _clipped(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _diff_lines(item: dict[str, Any]) -> list[tuple[str, str]]:
    name = f"{item['type']} {visible(_key_text(item['key']))}"
    if item["change"] != "update":
        mark, fields = ("+", item["after"]) if item["change"] == "insert" else ("-", item["before"])
        values = ", ".join(f"{field}={visible(text_of(value))}" for field, value in fields.items())
        return [(mark, f"{mark} {name}  {values}")]
    lines = [("~", f"~ {name}")]
    for field in item["changed"]:
        before, after = (visible(text_of(item[side].get(field))) for side in ("before", "after"))
        lines.append(("~", f"    {field}: {before} → {after}"))
    return lines


@click.command(cls=Command)
@type_argument()
@click.argument("key", nargs=-1, required=True, metavar="KEY...")
@models_option
@upgraders_option
@pass_invocation
def blame(
    invocation: Invocation, *, type_name: str, key: tuple[str, ...], models: tuple[str, ...], upgraders: tuple[str, ...]
) -> None:
    """Show which commit each value of a row comes from.

    Beside it stands the commit's metadata, or else the runtime id of the process that wrote it.
    KEY is the key of an entity, or the left key, the right key and, for keyed relations, the instance key.
    """
    from ontologia.cli.models import known_classes, load_all_upgraders, named_class
    from ontologia.store.transfer.records import fields_json

    with invocation.open(upgraders=load_all_upgraders(upgraders)) as store:
        cls = named_class(known_classes(store, models), type_name)
        _check_key(cls, key)
        origins = store.blame(cls, key[0] if cls.__spec__.kind == "entity" else key)
        values = fields_json(_row(store, cls, key))
        times = {commit_id: store.get_commit(commit_id) for commit_id in set(origins.values())}
    rows: list[dict[str, Any]] = [
        {
            "field": name,
            "value": values[name],
            "commit_id": commit_id,
            "created_at": times[commit_id].created_at.isoformat(),
            "runtime_id": times[commit_id].runtime_id,
            "metadata": times[commit_id].metadata,
        }
        for name, commit_id in origins.items()
    ]
    if invocation.as_text:
        cells: list[list[str]] = []
        for row in rows:
            commit = times[row["commit_id"]]
            by = _metadata(commit) or commit.runtime_id
            cells.append([row["field"], text_of(row["value"]), str(commit.commit_id), _time(commit), by])
        show_table(invocation, ("field", "value", "commit", "time (UTC)", "by"), cells)
        return
    show_rows(invocation, ("field", "value", "commit_id", "created_at", "runtime_id", "metadata"), rows, "")


def _check_key(cls: type[Any], key: tuple[str, ...]) -> None:
    """Refuse a key with too few or too many parts."""
    spec: TypeSpec = cls.__spec__
    names = ["KEY"]
    if spec.kind == "relation":
        names = ["LEFT_KEY", "RIGHT_KEY", *([spec.key_field.name.upper()] if spec.key_field is not None else [])]
    if len(key) != len(names):
        given = "1 was" if len(key) == 1 else f"{len(key)} were"
        raise click.UsageError(
            f"The key of {spec.name} has {plural(len(names), 'part')}; {given} given. "
            f"Write: onto blame {spec.name} {' '.join(names)}"
        )


def _row(store: Any, cls: type[Any], key: tuple[str, ...]) -> Any:
    """The present state of one row."""
    spec = cls.__spec__
    if spec.kind == "entity":
        return store.query().entities(cls).get(key[0])
    rows = store.query().relations(cls).where(cls.left_key == key[0], cls.right_key == key[1])
    return (rows.where(getattr(cls, spec.key_field.name) == key[2]) if spec.key_field is not None else rows).one()
