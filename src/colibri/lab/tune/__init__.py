"""Settings that make this model faster on this machine, found by trying, kept only if proven."""
