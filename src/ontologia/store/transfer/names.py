"""Names of types and fields from the names that files and columns have.

What comes out is a Python identifier; that it is a good one is a guess, which people see before it is used.
"""

from __future__ import annotations

import re


def plain_name(column: str) -> str:
    """A column's name as a field would be called: `First Name` is `first_name`."""
    return re.sub(r"\W+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.strip())).strip("_").lower()


def class_name(stem: str) -> str:
    """The name of one thing, from the name of a file of them: `loan_applications` is `LoanApplication`."""
    words = [word for word in plain_name(stem).split("_") if word]
    last = words[-1] if words else "row"
    for ending, single in (("ies", "y"), ("sses", "ss"), ("ses", "se"), ("ss", "ss"), ("us", "us"), ("s", "")):
        if last.endswith(ending) and len(last) > len(ending) + 1:
            last = last[: -len(ending)] + single
            break
    name = "".join(word.capitalize() for word in [*words[:-1], last])
    return name if name[0].isalpha() else f"T{name}"
