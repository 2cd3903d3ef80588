"""The embedded backend: one SQLite file in WAL mode, shared by threads and processes."""
