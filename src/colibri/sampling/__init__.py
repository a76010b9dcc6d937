"""From logits to a token: SamplingParams say how, a Sampler does it."""

from colibri.sampling.params import SamplingParams
from colibri.sampling.sampler import Sampled, Sampler, check_bias, with_logprobs

__all__ = ["Sampled", "Sampler", "SamplingParams", "check_bias", "with_logprobs"]
