"""The names that a setting chooses from, each list once: types, forms and flags follow from it."""

from typing import Literal

StoredBits = Literal["source", 8, 4]  # of what a trunk becomes
TrunkBits = Literal["auto", "source", 8, 4]
EmbedBits = Literal[8, 4, 32]
CacheBits = Literal["stored", 3]
Activations = Literal["int8x2", "int8"]
CpuPath = Literal["auto", "scalar", "avx2", "avxvnni", "avx512vnni", "neon_dotprod", "neon_i8mm"]
AutoOnOff = Literal["auto", "on", "off"]
OnOff = Literal["on", "off"]
Lookahead = Literal["off", "auto", 1, 2, 3, 4, 5, 6, 7, 8]
PolicyName = Literal["auto", "lru", "slru", "lfru", "s3fifo", "tglru"]
CacheScope = Literal["layer", "global"]
