"""Lines about relations: how many statements a question takes when there are more edges, sources or targets."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import Result, Statements, fact, seconds
from workload import Joined, Member, PartOf, Sizes, Team, arrow, fresh, people

from ontologia import Ontology, left


@dataclass(frozen=True, slots=True)
class _Network:
    """A store with edges, and a count of what it asks SQLite."""

    onto: Ontology
    statements: Statements
    edges: int


def follow_relations(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """Each question on a quarter of the edges and on all of them: the number of statements must be the same."""
    few, many = sizes.sources // 4, sizes.sources
    with (
        _network(fresh(folder, "small.db"), sizes.edges // 4) as small,
        _network(fresh(folder, "large.db"), sizes.edges) as large,
    ):
        for name, work, ask_few, ask_many in (
            ("ends", f"endpoint filter, {sizes.edges:,} edges", _gold_edges(small), _gold_edges(large)),
            ("all", f"all of {sizes.edges:,} edges with their ends", _all_edges(small), _all_edges(large)),
            ("two", f"2 hops from {many:,} sources", _two_hops(large, few), _two_hops(large, many)),
            ("reverse", "reverse hop from every team", _reverse(large, 5), _reverse(large, many)),
        ):
            yield _compared(name, work, (small if name in ("ends", "all") else large, ask_few), (large, ask_many))


def _compared(
    name: str, work: str, less: tuple[_Network, Callable[[], list[Any]]], more: tuple[_Network, Callable[[], list[Any]]]
) -> Result:
    first = less[0].statements.during(less[1])
    second = more[0].statements.during(more[1])
    found = len(more[1]())
    took = min(seconds(more[1]) for _ in range(3))
    note = f"{found:,} found in {took * 1e3:.0f} ms, {took / max(found, 1) * 1e6:.1f} us each"
    figure = f"{first} = {second}" if first == second else f"{first} -> {second}"
    return fact(f"hops.{name}", work, figure, "fixed", note, passed=first == second and 0 < second < 20)


@contextmanager
def _network(path: Path, edges: int) -> Generator[_Network]:
    statements = Statements()
    with (
        statements.watching(),
        Ontology(path, entity_types=[Member, Team], relation_types=[Joined, PartOf]) as onto,
    ):
        _fill(onto, edges)
        yield _Network(onto, statements, edges)


def _fill(onto: Ontology, edges: int) -> None:
    members, teams = max(edges // 10, 1), max(edges // 100, 6)
    with onto.session() as session:
        session.ensure_rows(Member, arrow(people(members)))
        session.ensure_rows(Team, [{"id": f"t{n:05d}", "name": f"Team {n}"} for n in range(teams)])
        session.ensure_rows(
            Joined,
            [
                {"left_key": f"p{n % members:07d}", "right_key": f"t{(n * 7 + n // members) % teams:05d}", "since": n}
                for n in range(edges)
            ],
        )
        session.ensure_rows(
            PartOf,
            [
                {"left_key": f"t{n:05d}", "right_key": f"t{(n * 3 + step) % teams:05d}", "weight": step}
                for n in range(teams)
                for step in range(2)
            ],
        )


def _gold_edges(network: _Network) -> Callable[[], list[Any]]:
    return network.onto.query().relations(Joined).where(left(Joined).tier == "Gold").collect


def _all_edges(network: _Network) -> Callable[[], list[Any]]:
    return network.onto.query().relations(Joined).collect


def _two_hops(network: _Network, sources: int) -> Callable[[], list[Any]]:
    return network.onto.query().entities(Member).limit(sources).via(Joined).via(PartOf, reverse=False).collect


def _reverse(network: _Network, sources: int) -> Callable[[], list[Any]]:
    return network.onto.query().entities(Team).limit(sources).via(Joined).collect
