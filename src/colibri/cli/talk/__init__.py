"""What `coli chat` is made of: a conversation, where its answers come from, how they are shown."""
