"""Variables that users of the C engine know: which of our names each is, or that it is none.

Most have everyday names (CTX, SEED, PIN), which anybody may have set for something else: they
count only where COLI_UPSTREAM=1 says so. Those that begin with COLI_ always count.
The first name of a setting stands with it (`Setting.upstream`), the others here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from colibri.config.settings import SETTINGS, Setting, Upstream
from colibri.config.settings.translations import autopin, pilot, same
from colibri.config.sizes import shown
from colibri.errors import ConfigError

SWITCH = "COLI_UPSTREAM"

FURTHER: tuple[tuple[str, Upstream], ...] = (
    ("readers", Upstream("PIPE_WORKERS", same)),
    ("lookahead", Upstream("PILOT_REAL", pilot, "0 (off) or a number of layers")),
    ("pin", Upstream("AUTOPIN", autopin, "1 (auto) or 0")),
)


@dataclass(frozen=True)
class SamplingName:
    """A variable that stands for a flag of sampling. `common`: the system sets it too, so a value
    that is no number is not meant for us."""

    env: str
    field: str  # of SamplingParams
    kind: type[int] | type[float]
    common: bool = False

    def read(self, environ: Mapping[str, str]) -> float | None:
        text = environ.get(self.env, "").strip()
        try:
            return self.kind(text) if text else None
        except ValueError:
            if self.common:
                return None
            raise ConfigError(f"{self.env}: {shown(text)} is not a number") from None


SAMPLING_NAMES: tuple[SamplingName, ...] = (
    SamplingName("COLI_TEMP", "temperature", float),
    SamplingName("TEMP", "temperature", float, common=True),  # often a folder
    SamplingName("NGEN", "max_tokens", int),
    SamplingName("SEED", "seed", int),
)


@dataclass(frozen=True)
class Absent:
    """A variable of a feature that is not here, or is not switched. `quiet`: values that ask for
    what happens anyway."""

    env: str
    says: str
    quiet: tuple[str, ...] = ("0",)


_NO_GPU = "there are no GPU kernels here"
_NO_DRAFTS = "there is no speculative decoding here"
_FP32_STATE = "keys and values are kept at fp32 here"
_NO_SUCH_MODE = "experts are never dropped, nor chosen otherwise, by this variable"
_FITS = "the expert cache always fills --ram"

ABSENT: tuple[Absent, ...] = (
    Absent("PIPE", "reads always overlap arithmetic here; --readers says how many", ("1",)),
    Absent("URING", "experts are read by threads here; --readers says how many"),
    Absent("COLI_MMAP", "experts are read into the cache here, never mapped"),
    Absent("COUPLE", "lookahead asks the next layer's router here; see --lookahead"),
    Absent(
        "PIN", "which experts are pinned follows from --usage here, how many from --pin", ("auto",)
    ),
    Absent("USAGE_SAVE", "usage is remembered here unless --usage is off", ("1",)),
    Absent("COLI_USAGE_DECAY", "how usage ages is told by --usage-half-life here"),
    Absent("ROUTE_TRACE", "--trace records routing here, in a form of its own"),
    Absent("CAP_RAISE", _FITS, ("0", "1")),
    Absent("RSS_GUARD_GB", "--ram is the bound of the whole process here"),
    Absent("COLI_RAM_OVERCOMMIT", "what does not fit --ram is refused here"),
    Absent("TRUNK_RESIDENT_LAYERS", "the whole trunk is in memory here; see --trunk-bits"),
    Absent("DRAFT", _NO_DRAFTS),
    Absent("SPEC_PIN", _NO_DRAFTS),
    Absent("GRAMMAR", "a grammar binds an answer here: --grammar FILE"),
    Absent("SCHEMA", "a schema binds an answer here: --json-schema FILE"),
    Absent("CACHE_ROUTE", "that is --router cache-aware:J=2,M=12 here"),
    Absent("DEGRADE_ZERO", _NO_SUCH_MODE),
    Absent("EXPERT_BUDGET", _NO_SUCH_MODE),
    Absent("KVSAVE", "conversations are not kept on disk here"),
    Absent("KV8", _FP32_STATE),
    Absent("KV_TQ", _FP32_STATE),
    Absent("COLI_COMPACT", "a conversation longer than the context is refused here"),
    Absent("CUDA_EXPERT_GB", _NO_GPU),
    Absent("COLI_CUDA", _NO_GPU),
)


def counts(name: str, environ: Mapping[str, str]) -> bool:
    """Whether a variable of the C engine is heeded. Raises ConfigError where that is not clear."""
    return name.startswith("COLI_") or _switched_on(environ)


def _switched_on(environ: Mapping[str, str]) -> bool:
    text = environ.get(SWITCH, "").strip()
    if text not in ("", "0", "1"):
        raise ConfigError(f"{SWITCH}: {shown(text)} is not 1 or 0")
    return text == "1"


def names_of(setting: Setting) -> Iterator[Upstream]:
    """The variables of the C engine that stand for a setting; the first that is set counts."""
    if setting.upstream is not None:
        yield setting.upstream
    yield from (upstream for name, upstream in FURTHER if name == setting.field)


def set_for(setting: Setting, environ: Mapping[str, str]) -> Upstream | None:
    """The one of them that is set and counts."""
    names = (u for u in names_of(setting) if counts(u.env, environ) and environ.get(u.env))
    return next(names, None)


def sampling_from(
    environ: Mapping[str, str], unset: Collection[str]
) -> dict[str, tuple[str, float]]:
    """The unset fields of SamplingParams that the C engine's variables give: field -> variable and
    value. What loses to a flag is not read. Raises ConfigError."""
    given: dict[str, tuple[str, float]] = {}
    for name in SAMPLING_NAMES:
        if name.field in given or name.field not in unset or not counts(name.env, environ):
            continue
        if (value := name.read(environ)) is not None:
            given[name.field] = (name.env, value)
    return given


def taken(environ: Mapping[str, str], flags: Mapping[str, object]) -> list[tuple[str, str]]:
    """The C engine's variables that decide something of a command that has these flags, each with
    the flag it stands for."""
    unset = {field for field, value in flags.items() if value is None}
    settings = [s for s in SETTINGS if s.field in unset and not environ.get(s.env)]
    pairs = [(u.env, s.flag) for s in settings if (u := set_for(s, environ)) is not None]
    sampling = [(f, name) for f, (name, _) in sampling_from(environ, unset).items()]
    return pairs + [(name, "--" + field.replace("_", "-")) for field, name in sampling]


def notices(environ: Mapping[str, str]) -> list[str]:
    """One line for each variable that is set, counts and does nothing here."""
    return [
        f"{absent.env} is set, but {absent.says}"
        for absent in ABSENT
        if environ.get(absent.env, "").strip() not in ("", *absent.quiet)
        and counts(absent.env, environ)
    ]


def idle(environ: Mapping[str, str]) -> list[str]:
    """Variables with a name of the C engine that are set and not heeded."""
    return sorted(name for name in known_names() if environ.get(name) and not counts(name, environ))


def known_names() -> set[str]:
    """All variables of the C engine that are read or answered for."""
    of_settings = {u.env for setting in SETTINGS for u in names_of(setting)}
    return of_settings | {n.env for n in SAMPLING_NAMES} | {a.env for a in ABSENT}
