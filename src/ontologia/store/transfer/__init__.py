"""Data in and out of a store as files: JSONL, CSV and Parquet, each of which comes back exactly as it went."""
