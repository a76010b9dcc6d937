"""The embedded model's recipe: corpus and chat text, tokenizer, training, judging, export."""
