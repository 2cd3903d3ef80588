"""Questions: expressions, plans, their one meaning, and their SQL. No I/O."""
