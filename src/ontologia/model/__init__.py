"""What users declare: entities, relations, fields, and what becomes of them when they change. No I/O."""
