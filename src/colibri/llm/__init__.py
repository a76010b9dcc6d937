"""The public class: a model that answers text with text."""

from colibri.llm.model import LLM, embedded_model

__all__ = ["LLM", "embedded_model"]
