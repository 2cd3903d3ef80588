"""What type checkers make of declared classes: right uses pass, wrong ones are found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from model import typing_sample

from ontologia.query.expr import FieldExpr

WRONG = """
from ontologia.model.declare import Entity, Relation
from ontologia.model.fields import Field

class Customer(Entity):
    id: Field[str] = Field(primary_key=True)
    seats: Field[int]

class Knows(Relation[Customer, Customer]):
    since: Field[int]

Customer(id="a", seats="x")
Customer(id="a")
Customer(id="a", seats=3, zz=1)
Customer("a", 3)
customer = Customer(id="a", seats=3)
name: str = customer.seats
customer.seats = None
Customer.nope
Knows(left_key="a", since=1)
left: Customer = Knows(left_key="a", right_key="b", since=1).left
"""
FIRST_WRONG_LINE, LAST_WRONG_LINE = 12, 21


def test_the_sample_does_at_run_time_what_it_says_to_the_checker():
    assert isinstance(typing_sample.Customer.tier, FieldExpr)
    assert typing_sample.customer.tier == "Gold"
    assert len(typing_sample.members) == 2


def test_a_checker_accepts_the_sample_and_finds_every_wrong_use(tmp_path: Path):
    root = Path(__file__).parents[2]
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    checker = Path(sys.executable).with_name("basedpyright")
    if not checker.exists():
        pytest.fail("basedpyright is part of the development tools: run `make setup`.")
    settings: dict[str, Any] = {
        "typeCheckingMode": "strict",
        "include": [str(wrong), str(root / "tests/model/typing_sample.py")],
        "extraPaths": [str(root / "src"), str(root / "tests")],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [str(checker), "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    errors = [item for item in report["generalDiagnostics"] if item["severity"] == "error"]
    assert {Path(item["file"]).name for item in errors} == {"wrong.py"}
    lines = {item["range"]["start"]["line"] + 1 for item in errors}
    # Line 16 makes the object that the lines after it misuse.
    assert lines == set(range(FIRST_WRONG_LINE, LAST_WRONG_LINE + 1)) - {16}
