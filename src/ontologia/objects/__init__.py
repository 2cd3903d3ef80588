"""Object storage: one small port, S3 and its compatibles behind it, and wrappers that count and break requests."""
