"""The one meaning of queries, in plain Python: what every backend and every SQL dialect must agree with.

This is the door to it: `evaluate` says what predicates and orders mean, `figures` what aggregates and groups mean.
"""

from ontologia.query.evaluate import End, Row, evaluator, matches, order_key, sort_rows, value_of, versions
from ontologia.query.figures import aggregate, figure, finish_groups, grouped, having_matches

__all__ = [
    "End",
    "Row",
    "aggregate",
    "evaluator",
    "figure",
    "finish_groups",
    "grouped",
    "having_matches",
    "matches",
    "order_key",
    "sort_rows",
    "value_of",
    "versions",
]
