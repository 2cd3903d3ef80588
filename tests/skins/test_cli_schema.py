"""`migrate` and `schema`: previews, tokens, and what happens to old rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from skins.runs import MODELS, onto, program, shop

from ontologia.cli import exits

REVISED = MODELS.replace("    name: Field[str]\n", "    name: Field[str]\n    country: Field[str] = 'NO'\n", 1)
BROKEN = MODELS.replace('tier: Field[str] = Field(default="Standard", index=True)', "rank: Field[int]")
MIGRATIONS = """
from ontologia import upgrader

@upgrader("Customer", from_version=1)
def ranked(row):
    tier = row.pop("tier")
    return {**row, "rank": 1 if tier == "Gold" else 0}
"""


@pytest.fixture(autouse=True)
def in_a_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return shop(tmp_path / "onto.db")


def test_models_that_fit_need_no_migration(tmp_path: Path) -> None:
    (tmp_path / "same.py").write_text(MODELS)
    run = onto("migrate", "--models", "./same.py")
    assert (run.code, run.out) == (0, "Nothing to migrate.\n")


def test_a_migration_is_previewed_and_applied_with_its_token(tmp_path: Path) -> None:
    (tmp_path / "later.py").write_text(REVISED)
    plan = onto("migrate", "--models", "later.py", "--json").json
    assert plan["applied"] is False
    assert plan["types"] == [
        {
            "kind": "entity",
            "type": "Customer",
            "rows": 3,
            "changes": [{"field": "country", "change": "added", "old": None, "new": "str", "needs_upgrader": False}],
        }
    ]
    assert onto("info", "--json").json["head"] == 3
    without = onto("migrate", "--models", "later.py", "--apply")
    assert without.code == exits.REFUSED
    assert without.err.startswith("error[migration-token]: ")
    stale = onto("migrate", "--models", "later.py", "--apply", "--token", "0" * 16)
    assert stale.code == exits.REFUSED
    done = onto("migrate", "--models", "later.py", "--apply", "--token", plan["token"], "--json").json
    assert (done["applied"], done["commit_id"]) == (True, 4)
    record = onto("query", "entities", "Customer", "--as-of", "1", "--json").json[0]
    assert record["fields"]["country"] == "NO", "an added field needs no upgrader"
    versions = onto("schema", "history", "Customer", "--json").json
    assert [(one["version"], one["since_commit"]) for one in versions] == [(1, 1), (2, 4)]
    assert versions[1]["changes"] == ["added country: str with a default"]
    assert onto("verify").code == 0


def test_a_change_that_needs_an_upgrader_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(BROKEN)
    (tmp_path / "migrations.py").write_text(MIGRATIONS)
    plan = onto("migrate", "--models", "ranks.py", "--json").json
    assert plan["missing_upgraders"] == [{"type": "Customer", "from_version": 1}]
    refused = onto("migrate", "--models", "ranks.py", "--apply", "--token", plan["token"])
    assert refused.code == exits.SCHEMA
    assert "--upgraders" in refused.err
    done = onto("migrate", "--models", "ranks.py", "--upgraders", "./migrations.py", "--apply", "--force", "--json")
    assert done.json["commit_id"] == 4
    boundary = onto("query", "entities", "Customer", "--as-of", "1")
    assert boundary.code == exits.SCHEMA
    assert "--upgraders" in boundary.err
    upgraded = onto("query", "entities", "Customer", "--as-of", "1", "--upgraders", "./migrations.py", "--json").json
    assert [record["fields"]["rank"] for record in upgraded] == [0, 1, 0]
    raw = onto("query", "entities", "Customer", "--as-of", "1", "--raw", "--json").json
    assert [row["tier"] for row in raw] == ["Standard", "Gold", ""]
    assert (
        onto("diff", "1", "4", "--upgraders", "./migrations.py", "--type", "Customer", "--json").json[0]["key"] == "c1"
    )


def test_importing_with_models_that_differ_is_a_schema_mismatch(tmp_path: Path) -> None:
    (tmp_path / "later.py").write_text(REVISED)
    (tmp_path / "Customer.csv").write_text("id,name\nc9,New\n")
    run = onto("import", "Customer.csv", "--models", "later.py")
    assert run.code == exits.SCHEMA
    assert "onto migrate" in run.err
    assert onto("info", "--json").json["head"] == 3


def test_a_migration_needs_models_and_apply_goes_with_its_options(tmp_path: Path) -> None:
    assert onto("migrate").code == exits.USAGE
    (tmp_path / "later.py").write_text(REVISED)
    assert onto("migrate", "--models", "later.py", "--force").code == exits.USAGE
    assert onto("migrate", "--models", "later.py", "--token", "x").code == exits.USAGE


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("raise RuntimeError('mine')", "RuntimeError: mine"),
        ("x = 1", "declares no entity"),
        ("from ontologia import Entity, Field\nclass A(Entity):\n    name: Field[str]\n", "no primary key"),
        ("def broken(:\n", "SyntaxError"),
    ],
)
def test_a_mistake_in_the_users_module_is_shown_as_theirs(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "mine.py").write_text(content)
    run = onto("query", "entities", "Customer", "--models", "mine.py")
    assert run.code == exits.USAGE
    assert run.err.startswith("error[config]: ")
    assert words in run.err


def test_a_module_is_found_in_the_working_directory_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "myapp"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "models.py").write_text(REVISED)
    (folder / "migrations.py").write_text(MIGRATIONS)
    run = program("migrate", "--models", "myapp.models", "--upgraders", "myapp.migrations", "--json", cwd=tmp_path)
    assert run.code == 0, run.err
    assert run.json["types"][0]["type"] == "Customer"


def test_an_exported_schema_serves_as_models(tmp_path: Path) -> None:
    assert onto("schema", "export", "--output", "schema.json").code == 0
    (tmp_path / "Customer.csv").write_text("id,name\nc9,New\n")
    run = onto("import", "Customer.csv", "--db", "new.db", "--models", "schema.json", "--json")
    assert run.json["inserted"] == 1
    both = [onto("schema", "history", "Customer", "--db", name, "--json").json[0] for name in ("onto.db", "new.db")]
    assert both[0]["fingerprint"] == both[1]["fingerprint"]
    (only,) = onto("schema", "export", "--type", "Product").json["types"]
    assert only["name"] == "Product"
    assert onto("schema", "export", "--type", "Nothing").code == exits.USAGE
    (tmp_path / "bad.json").write_text("{}")
    assert onto("query", "entities", "Customer", "--models", "bad.json").code == exits.USAGE


def test_dropping_a_type_needs_its_token_and_no_dependents() -> None:
    blocked = onto("schema", "drop", "entity", "Customer", "--json").json
    assert blocked["dependents"] == ["Subscription"]
    refused = onto("schema", "drop", "entity", "Customer", "--apply", "--token", blocked["token"])
    assert refused.code == exits.REFUSED
    plan = onto("schema", "drop", "relation", "Subscription", "--json").json
    assert (plan["current_rows"], plan["applied"]) == (2, False)
    purge = onto("schema", "drop", "relation", "Subscription", "--purge-history", "--apply", "--token", plan["token"])
    assert purge.code == exits.REFUSED, "the token is for keeping the history"
    done = onto("schema", "drop", "relation", "Subscription", "--apply", "--token", plan["token"], "--json").json
    assert done["applied"] is True
    assert [one["name"] for one in onto("info", "--json").json["types"]] == ["Customer", "Product"]
    assert onto("verify").code == 0


def test_purging_removes_the_rows_for_good() -> None:
    plan = onto("schema", "drop", "relation", "Subscription", "--purge-history", "--json").json
    arguments = ["schema", "drop", "relation", "Subscription", "--purge-history", "--apply", "--token", plan["token"]]
    assert onto(*arguments, "--json").json["removed_rows"] == 2
    assert onto("verify").code == 0
