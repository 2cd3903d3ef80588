"""The store on object storage: an append-only log of Parquet files, a head moved by compare-and-swap."""
