"""One module per group of commands, each imported when one of its commands is called."""
