"""What crosses the wire, a struct an object. A field that is not here is refused by its name."""
