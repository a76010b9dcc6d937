"""What every endpoint needs of HTTP: bodies, errors, streams, and an end to patience."""
