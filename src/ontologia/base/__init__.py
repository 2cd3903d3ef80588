"""Pure building blocks that every layer may use: time, canonical text, identifiers."""
