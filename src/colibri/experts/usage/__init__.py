"""How often experts are used: counted, kept in a file, and what follows from it (pins)."""
