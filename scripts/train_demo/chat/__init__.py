"""Generated conversations: every sentence is ours, every answer follows from the question."""
