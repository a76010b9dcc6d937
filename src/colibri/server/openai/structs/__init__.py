"""What crosses the wire of OpenAI's API, a struct an object."""
