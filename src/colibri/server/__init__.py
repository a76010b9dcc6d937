"""HTTP: the OpenAI and Anthropic APIs over one model. Token ids and arrays stay below."""
