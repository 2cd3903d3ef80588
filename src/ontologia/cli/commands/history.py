"""`commits`, `diff` and `blame`: what was written when, and what it changed.

The answers come from the library; here they become tables, JSON or CSV.
"""

from __future__ import annotations

from typing import Any

import click

from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.options import models_option, type_argument, type_option, upgraders_option
from ontologia.cli.rendering import CUT, fact_lines, plural, show_rows, show_table, text_of
from ontologia.cli.structure import Command, Group
from ontologia.cli.table import terminal_width, visible


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
            one.created_at.strftime("%Y-%m-%d %H:%M:%S"),
            _counts(one.counts),
            ", ".join(f"{name}={value}" for name, value in one.metadata.items()) or "-",
        ]
        for one in listed
    ]
    show_table(invocation, ("commit", "time (UTC)", "rows", "metadata"), rows, whole=2)
    if rest > 0:
        invocation.note(f"{plural(rest, 'older commit')}; --limit shows more.")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items()) or "-"


@commits.command()
@click.argument("commit_id", type=int, metavar="ID")
@pass_invocation
def examine(invocation: Invocation, commit_id: int) -> None:
    """One commit and every row it wrote."""
    with invocation.open() as store:
        commit = store.get_commit(commit_id)
        changes = store.changes(commit_id)
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
    shown = [[str(row["op"]), str(row["type_name"]), _named(row)] for row in rows[:_ROWS]]
    show_table(invocation, ("change", "type", "key"), shown)
    if len(rows) > _ROWS:
        invocation.note(f"{plural(len(rows) - _ROWS, 'more row')}; --json shows all.")


_ROWS = 100


def _named(row: dict[str, Any]) -> str:
    if "key" in row:
        return str(row["key"])
    instance = f" [{row['instance_key']}]" if "instance_key" in row else ""
    return f"{row['left_key']} -> {row['right_key']}{instance}"


@click.command(cls=Command)
@click.argument("first", type=int, metavar="FIRST")
@click.argument("second", type=int, metavar="SECOND")
@type_option("Only this type.")
@models_option
@upgraders_option
@pass_invocation
def diff(
    invocation: Invocation,
    *,
    first: int,
    second: int,
    type_name: str | None,
    models: tuple[str, ...],
    upgraders: tuple[str, ...],
) -> None:
    """Show what differs between two commits.

    Commit 0 is the empty store. Without --type all stored types are compared.
    """
    from ontologia.cli.models import known_classes, load_all_upgraders, named_class
    from ontologia.store.transfer.records import fields_json

    with invocation.open(upgraders=load_all_upgraders(upgraders)) as store:
        for commit_id in (first, second):
            if commit_id != 0:
                store.get_commit(commit_id)
        classes = known_classes(store, models)
        chosen = classes.values() if type_name is None else [named_class(classes, type_name)]
        items: list[dict[str, Any]] = []
        for cls in chosen:
            for key, before, after in store.diff(first, second, cls):
                old = None if before is None else fields_json(before)
                new = None if after is None else fields_json(after)
                items.append(
                    {
                        "kind": cls.__spec__.kind,
                        "type": cls.__spec__.name,
                        "key": key if isinstance(key, str) else list(key),
                        "change": "insert" if old is None else "remove" if new is None else "update",
                        "changed": [
                            name
                            for name in {**(old or {}), **(new or {})}
                            if (old or {}).get(name) != (new or {}).get(name)
                        ],
                        "before": old,
                        "after": new,
                    }
                )
    if not invocation.as_text or not items:
        names = ("kind", "type", "key", "change", "changed", "before", "after")
        show_rows(invocation, names, items, f"Commits {first} and {second} do not differ.")
        return
    lines = [line for item in items for line in _diff_lines(item)]
    width = terminal_width()
    for mark, line in lines:
        colour = {"+": "green", "-": "red"}.get(mark)
        click.echo(click.style(_clipped(line, width), fg=colour))
    if any(len(line) > width for _, line in lines):
        invocation.note(CUT)


def _clipped(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _diff_lines(item: dict[str, Any]) -> list[tuple[str, str]]:
    parts: list[str] = [item["key"]] if isinstance(item["key"], str) else item["key"]
    key = " -> ".join(parts[:2]) + (f" [{parts[2]}]" if len(parts) > 2 else "")
    name = f"{item['type']} {visible(key)}"
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

    KEY is the key of an entity, or the left key, the right key and, for keyed relations, the instance key.
    """
    from ontologia.cli.models import known_classes, load_all_upgraders, named_class
    from ontologia.store.transfer.records import fields_json

    with invocation.open(upgraders=load_all_upgraders(upgraders)) as store:
        cls = named_class(known_classes(store, models), type_name)
        first, *others = key
        if cls.__spec__.kind == "entity" and others:
            raise click.UsageError(f"{type_name} has a single key; {len(key)} were given.")
        origins = store.blame(cls, first if cls.__spec__.kind == "entity" else key)
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
        cells = [[text_of(row[name]) for name in ("field", "value", "commit_id")] for row in rows]
        times_text = [row["created_at"][:19].replace("T", " ") for row in rows]
        show_table(
            invocation,
            ("field", "value", "commit", "time (UTC)"),
            [[*cell, when] for cell, when in zip(cells, times_text, strict=True)],
        )
        return
    show_rows(invocation, ("field", "value", "commit_id", "created_at", "runtime_id", "metadata"), rows, "")


def _row(store: Any, cls: type[Any], key: tuple[str, ...]) -> Any:
    """The present state of one row."""
    spec = cls.__spec__
    if spec.kind == "entity":
        return store.query().entities(cls).get(key[0])
    rows = store.query().relations(cls).where(cls.left_key == key[0], cls.right_key == key[1])
    return (rows.where(getattr(cls, spec.key_field.name) == key[2]) if spec.key_field is not None else rows).one()
