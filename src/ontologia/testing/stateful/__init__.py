"""A state machine that drives a real store against a plain-Python one and compares every answer.

Subclass `StoreMachine`, say in `new_store` how a fresh store is opened, and hand the class to
`hypothesis.stateful.run_state_machine_as_test`. Sessions, failed commits, every window, figures, traversals,
migrations, reopening and verification happen in any order that hypothesis can think of. Needs `hypothesis` and
`pytest`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import ontologia
from ontologia import DanglingEndpointError, Ontology, SchemaOutdatedError
from ontologia.base.clock import ManualClock
from ontologia.testing.stateful import world
from ontologia.testing.stateful.model import Identity, PlainStore, Span, TypeName, identity_of
from ontologia.testing.stateful.world import ERAS, MARK_CONDITIONS, VISIT_CONDITIONS, Mark, Values, Visit, plain

OpenStore = Callable[..., Ontology]
NAMES: list[TypeName] = ["Node", "Mark", "Link", "Visit"]
names = st.sampled_from(NAMES)
terms = st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=3)
windows = st.tuples(
    st.sampled_from(["latest", "as_of", "moment", "all", "since", "between"]), st.integers(-1, 12), st.integers(0, 12)
)


class StoreMachine(RuleBasedStateMachine):
    """Does to a store what users do, and checks what they would see."""

    def new_store(self) -> OpenStore:
        """Override me: how to open one fresh store, again and again."""
        pytest.fail("A store machine needs a new_store() that opens its backend.")

    @initialize()
    def begin(self) -> None:
        """Open an empty store."""
        self.open_store = self.new_store()
        self.clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.model = PlainStore()
        self.handles: list[Ontology] = []
        self.pending: list[tuple[TypeName, Values]] = []
        self.reopen()

    @rule()
    def reopen(self) -> None:
        """Open the store once more; what was not committed is gone."""
        self.onto = self._open()
        self.session = self.onto.session()
        self.pending.clear()

    def _open(self, **options: Any) -> Ontology:
        era = ERAS[self.model.era]
        onto = self.open_store(
            entity_types=[era.node, Mark],
            relation_types=[era.link, Visit],
            upgraders=[world.to_weight],
            clock=self.clock,
            **options,
        )
        self.handles.append(onto)
        return onto

    def teardown(self) -> None:
        for onto in getattr(self, "handles", ()):
            onto.close()

    def _class(self, name: TypeName) -> type[Any]:
        era = ERAS[self.model.era]
        return {"Node": era.node, "Mark": Mark, "Link": era.link, "Visit": Visit}[name]

    def _drawn(self, data: st.DataObject, name: TypeName) -> list[Values]:
        kinds = {"Node": world.nodes(self.model.era), "Mark": world.marks, "Link": world.links, "Visit": world.visits}
        return data.draw(st.lists(kinds[name], min_size=1, max_size=5), label=name)

    @rule(data=st.data(), name=names, bulk=st.booleans())
    def ensure(self, data: st.DataObject, name: TypeName, *, bulk: bool) -> None:
        """Declare wanted state, as objects or as rows."""
        rows = self._drawn(data, name)
        cls = self._class(name)
        if bulk:
            self.session.ensure_rows(cls, rows)
        else:
            self.session.ensure([cls(**row) for row in rows])
        self.pending.extend((name, row) for row in rows)

    @rule(minutes=st.integers(0, 2), meta=st.dictionaries(st.sampled_from("ab"), st.text(max_size=3), max_size=1))
    def commit(self, minutes: int, meta: dict[str, str]) -> None:
        """Commit what is pending, and compare what the commit says it did."""
        self.clock.set(self.clock.now() + timedelta(minutes=minutes))
        changed = self.model.delta(self.pending)
        before = {name: self.model.current(name) for name in NAMES}
        commit_id = self.session.commit(meta=meta)
        self.pending.clear()
        if not changed:
            assert commit_id is None
            return
        self.model.commit(changed, self.clock.now())
        assert commit_id is not None
        assert commit_id == self.model.head
        commit = self.onto.get_commit(commit_id)
        assert commit.counts == {name: len(rows) for name, rows in changed.items()}
        assert (commit.metadata, commit.created_at) == (meta, self.clock.now())
        assert commit.parent_commit_id == (commit_id - 1 or None)
        told = {
            (
                one.type_name,
                (one.key,) if one.key is not None else (one.left_key, one.right_key, one.instance_key),
                one.op,
            )
            for one in self.onto.changes(commit_id)
        }
        assert told == {
            (name, identity, "update" if identity in before[name] else "insert")
            for name, rows in changed.items()
            for identity in rows
        }

    @rule(data=st.data())
    def a_refused_commit_changes_nothing(self, data: st.DataObject) -> None:
        """A batch with a relation to nowhere, in a store that checks, and then the same without it."""
        strict = self._open(check_endpoints=True)
        session = strict.session()
        rows = self._drawn(data, "Mark")
        session.ensure([Mark(**row) for row in rows])
        session.ensure(self._class("Link")(left_key="nowhere", right_key=77, strength=1))
        with pytest.raises(DanglingEndpointError):
            session.commit()
        assert session.pending > 0
        assert strict.head() == self.model.head

    @rule(name=names, window=windows, chosen=terms, either=st.booleans(), limit=st.integers(0, 4) | st.none())
    def ask(
        self,
        name: TypeName,
        window: tuple[str, int, int],
        chosen: list[tuple[int, bool]],
        *,
        either: bool,
        limit: int | None,
    ) -> None:
        """Rows of a type in a window under a condition: objects, counts, figures, raw rows."""
        query, span = self._windowed(name, window)
        query, wanted = self._filtered(name, query, span, chosen, either=either)
        ordered = query.order_by(self._class(name).left_key) if name == "Link" and not span.history else query
        found = [(one.meta().commit_id, self._identity(one), one.model_dump()) for one in ordered]
        if not span.history:
            found.sort(key=lambda one: one[:2])
        assert [(at, identity, plain(values)) for at, identity, values in found] == [
            (at, identity, plain(values)) for at, identity, values in wanted
        ]
        assert query.count() == len(wanted)
        if limit is not None:
            some = [(one.meta().commit_id, self._identity(one)) for one in query.limit(limit).offset(1)]
            everything = [(one.meta().commit_id, self._identity(one)) for one in query]
            assert some == everything[1 : 1 + limit]
        self._compare_figures(name, query, [values for _, _, values in wanted])

    def _windowed(self, name: TypeName, window: tuple[str, int, int]) -> tuple[Any, Span]:
        kind, first, second = window
        start = self.onto.query()
        query: Any = (
            start.entities(self._class(name)) if name in {"Node", "Mark"} else start.relations(self._class(name))
        )
        head = self.model.head
        match kind:
            case "as_of":
                return query.as_of(first), Span(history=False, low=0, high=first)
            case "moment":
                moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=first)
                return query.as_of(moment), Span(history=False, low=0, high=self.model.at(moment))
            case "all":
                return query.with_history(), Span(history=True, low=0, high=head)
            case "since":
                return query.history_since(first), Span(history=True, low=first, high=head)
            case "between":
                return query.between(first, second), Span(history=True, low=first - 1, high=second)
            case _:
                return query, Span(history=False, low=0, high=head)

    def _filtered(
        self, name: TypeName, query: Any, span: Span, chosen: list[tuple[int, bool]], *, either: bool
    ) -> tuple[Any, list[tuple[int, Identity, Values]]]:
        rows = self.model.window(name, span)
        if not chosen:
            return query, rows
        laws: list[Callable[[Values], bool]] = []
        predicate: Any = None
        for number, negated in chosen:
            expression, law = self._condition(name, number, span)
            term = ~expression if negated else expression
            laws.append((lambda row, law=law: not law(row)) if negated else law)
            predicate = term if predicate is None else (predicate | term if either else predicate & term)
        together = any if either else all
        return query.where(predicate), [row for row in rows if together(law(row[2]) for law in laws)]

    def _condition(self, name: TypeName, number: int, span: Span) -> tuple[Any, Callable[[Values], bool]]:
        era = ERAS[self.model.era]
        if name != "Link":
            known = {"Node": era.conditions, "Mark": MARK_CONDITIONS, "Visit": VISIT_CONDITIONS}[name]
            return known[number % len(known)]
        several = world.link_conditions(era)
        expression, law = several[number % len(several)]
        return expression, lambda row: law(
            row, self.model.ends("Node", row["left_key"], span), self.model.ends("Mark", row["right_key"], span)
        )

    def _identity(self, thing: Any) -> Identity:
        meta = thing.meta()
        return (meta.key,) if meta.key is not None else (meta.left_key, meta.right_key, meta.instance_key)

    def _compare_figures(self, name: TypeName, query: Any, rows: list[Values]) -> None:
        if name == "Mark":
            sizes = [row["size"] for row in rows if row["size"] is not None]
            figures = query.agg(
                total=ontologia.sum(Mark.size), most=ontologia.max(Mark.size), sure=ontologia.sum(Mark.exact)
            )
            assert figures == {
                "total": sum(sizes),
                "most": max(sizes, default=None),
                "sure": sum(row["exact"] for row in rows if row["exact"] is not None),
            }
        if name == "Node":
            groups = query.group_by(self._class("Node").label).agg(n=ontologia.count())
            labels = [row["label"] for row in rows]
            assert {group["label"]: group["n"] for group in groups} == {one: labels.count(one) for one in labels}

    @rule(window=windows.filter(lambda window: window[0] in {"latest", "as_of", "moment"}))
    def follow(self, window: tuple[str, int, int]) -> None:
        """Links with their ends, and the paths along them."""
        query, span = self._windowed("Link", window)
        for link in query:
            wanted = self.model.end("Node", link.left_key, span), self.model.end("Mark", link.right_key, span)
            found = (end and end.model_dump() for end in (link.left, link.right))
            assert [end and plain(end) for end in found] == [end and plain(end) for end in wanted]
        sources, _ = self._windowed("Node", window)
        paths = sorted((path.source.id, path.target.id) for path in sources.via(self._class("Link")))
        assert paths == sorted(
            (values["left_key"], values["right_key"])
            for _, _, values in self.model.window("Link", span)
            if self.model.end("Node", values["left_key"], span) and self.model.end("Mark", values["right_key"], span)
        )

    @rule(name=names, first=st.integers(0, 9), second=st.integers(0, 9))
    def compare_commits(self, name: TypeName, first: int, second: int) -> None:
        """Differences between two commits, and whose value is whose."""
        first, second = (min(at, self.onto.head()) for at in (first, second))
        states = [
            {one: plain(values) for _, one, values in self.model.window(name, Span(history=False, low=0, high=at))}
            for at in (first, second)
        ]
        wanted = {one for one in {*states[0], *states[1]} if states[0].get(one) != states[1].get(one)}
        items = self.onto.diff(first, second, self._class(name))
        told = {identity_of(name, (item.after or item.before).model_dump()) for item in items}
        # Objects that differ only in how a number or an offset is written are equal, and no difference to a user.
        assert told <= wanted
        for one in wanted - told:
            before, after = (self._at(name, one, at) for at in (first, second))
            assert before == after
        for identity in self.model.current(name):
            key = identity[0] if len(identity) == 1 else identity if identity[-1] else identity[:-1]
            blamed = self.onto.blame(self._class(name), key)
            assert {field: blamed[field] for field in blamed if "key" not in field} == {
                field: at for field, at in self.model.blame(name, identity).items() if "key" not in field
            }

    def _at(self, name: TypeName, identity: Identity, commit: int) -> Values | None:
        rows = self.model.window(name, Span(history=False, low=0, high=commit))
        return next((values for _, one, values in rows if one == identity), None)

    @precondition(lambda self: self.model.era < len(ERAS) - 1 and self.model.rows["Node"])
    @rule(through_token=st.booleans())
    def migrate(self, *, through_token: bool) -> None:
        """The next version of the node type; who stays behind is refused."""
        behind, old = self.onto, self._class("Node")
        expected = len(self.model.current("Node"))
        self.model.era += 1
        onto = self._open()
        plan = onto.migrate()
        assert plan.row_estimates == {"Node": expected}
        done = onto.migrate(apply=True, token=plan.token) if through_token else onto.migrate(force=True, apply=True)
        self.model.era -= 1
        self.model.migrate(max(self.clock.now(), self.model.times[-1]))
        assert done.commit_id == self.model.head
        with pytest.raises(SchemaOutdatedError):
            behind.query().entities(old).collect()
        session = behind.session()
        session.ensure_rows(old, [{"id": "n1", "label": "late", **_size(old)}])
        with pytest.raises(SchemaOutdatedError):
            session.commit()
        self.reopen()

    @rule()
    def verify(self) -> None:
        """Nothing but dangling ends is found."""
        assert [finding for finding in self.onto.verify() if finding.severity == "error"] == []

    @invariant()
    def the_head_is_the_last_commit(self) -> None:
        if hasattr(self, "onto"):
            assert self.onto.head() == self.model.head
            assert [commit.commit_id for commit in self.onto.list_commits()] == list(range(self.model.head, 0, -1))


def _size(cls: type[Any]) -> Values:
    return {"size": 1} if "size" in cls.__spec__.by_name else {"weight": 1}
