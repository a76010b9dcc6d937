"""The public class: a model that answers text with text."""

from colibri.llm.files import embedded_model
from colibri.llm.model import LLM

__all__ = ["LLM", "embedded_model"]
