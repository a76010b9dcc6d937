from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri.config import (
    OTHER_VARIABLES,
    SETTINGS,
    EngineConfig,
    EngineSettings,
    ServerConfig,
    default_file,
    parse_bytes,
    unknown_variables,
)
from colibri.errors import ConfigError


def resolve(environ: dict[str, str] | None = None, file: Path | None = None, **flags: Any) -> Any:
    return EngineConfig.resolve(environ=environ or {}, file=file, **flags)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("6GB", 6 * 10**9),
        ("6 gb", 6 * 10**9),
        ("5.5GiB", 11 * 2**29),
        ("800MB", 800 * 10**6),
        ("750MiB", 750 * 2**20),
        ("64KB", 64_000),
        ("64KiB", 65_536),
        ("1.5TB", 15 * 10**11),
        ("1000000B", 1_000_000),
        ("60%", 600),
        ("12.5%", 125),
        (123_456, 123_456),
    ],
)
def test_sizes(text: str | int, expected: int) -> None:
    assert parse_bytes(text, total=1000) == expected


@pytest.mark.parametrize(
    ("text", "defect"),
    [
        ("nan", "not a size"),
        ("NaNGB", "not a size"),
        ("infGB", "not a size"),
        ("-1GB", "not a size"),
        ("0GB", "not a positive"),
        ("0.0000000001B", "not a positive"),
        ("0%", "not a positive"),
        ("8", "no unit"),
        ("8.5", "no unit"),
        ("", "not a size"),
        ("GB", "not a size"),
        ("6 GB 1", "not a size"),
        ("1e9B", "not a size"),
        ("٣GB", "not a size"),
        ("9" * 100 + "GB", "not a size"),
        ("2000TB", "more than any"),
        ("101%", "more than the whole"),
        (0, "not a positive"),
        (-5, "not a positive"),
        (2**51, "more than any"),
        (True, "not a size"),
        (1.5, "not a size"),
        (None, "not a size"),
    ],
)
def test_bad_sizes_name_the_value_and_the_forms(text: Any, defect: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_bytes(text, total=1000)
    message = str(raised.value)
    assert defect in message
    assert repr(text)[:20] in message
    assert "5.5GiB" in message
    assert len(message) < 250


def test_a_share_needs_a_whole() -> None:
    with pytest.raises(ConfigError, match="whole is not known"):
        parse_bytes("60%")


@given(st.text(max_size=30) | st.integers() | st.floats() | st.none())
def test_any_size_is_positive_or_refused(value: Any) -> None:
    with contextlib.suppress(ConfigError):
        assert 0 < parse_bytes(value, total=10**9) <= 1 << 50


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('ram = "1GB"\ntrunk_bits = 8\nreaders = 2\n')
    config = resolve({"COLI_RAM": "2GB", "COLI_READERS": "3"}, file, ram="3GB")
    assert (config.ram, config.readers, config.trunk_bits) == ("3GB", 3, 8)
    assert config.direct == "auto"


_EXAMPLES = {
    "model": "dir",
    "ram": "2GB",
    "trunk_bits": "8",
    "embed_bits": "4",
    "activations": "int8",
    "verify_reads": "on",
    "numa": "on",
    "cpu": "avx2",
    "direct": "on",
    "lookahead": "2",
    "router": "cache-aware:J=1",
    "expert_top_p": "0.9",
    "policy": "lfru",
    "cache_scope": "global",
    "cache_bits": "3",
    "trace": "run.trace",
    "trace_logits": "on",
    "pin": "50%",
    "usage": "file",
    "usage_half_life": "5000",
}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.field)
def test_each_setting_reads_the_same_from_everywhere(setting: Any, tmp_path: Path) -> None:
    value = _EXAMPLES.get(setting.field, "7")
    file = tmp_path / "config.toml"
    file.write_text(f'{setting.field} = "{value}"\n')
    expected = resolve(**{setting.field: value})
    assert getattr(expected, setting.field) != getattr(EngineConfig(), setting.field)
    assert resolve({setting.env: value}) == expected
    assert resolve(file=file) == expected


def test_table_covers_exactly_the_fields() -> None:
    from dataclasses import fields

    assert [s.field for s in SETTINGS] == [f.name for f in fields(EngineConfig)]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"RAM_GB": "24"}, {"ram": "24GB"}),
        ({"RAM_GB": "5.5"}, {"ram": "5.5GB"}),
        ({"CAP": "16"}, {"cache_experts": 16}),
        ({"CTX": "4096"}, {"context": 4096}),
        ({"DIRECT": "1"}, {"direct": "on"}),
        ({"DIRECT": "0"}, {"direct": "off"}),
        ({"PILOT": "0"}, {"lookahead": "off"}),
        ({"PIN_GB": "0"}, {"pin": "0"}),
        ({"PIN_GB": "10"}, {"pin": "10GB"}),
        ({"COLI_MODEL_MIRROR": "/a;/b,c"}, {"mirror": ("/a", "/b,c")}),
        ({"COLI_MODEL_MIRROR": "/a", "COLI_MIRROR": "/b"}, {"mirror": ("/b",)}),
        ({"COLI_MODEL_DIRS": "/a, /b"}, {"model_dirs": ("/a", "/b")}),
        ({"COLI_MODEL_DIRS": "/a,b;/c"}, {"model_dirs": ("/a,b", "/c")}),
        ({"COLI_DISK_WEIGHTS": "2, 1.5"}, {"disk_weights": (2.0, 1.5)}),
        ({"COLI_DISK_WEIGHTS": "Auto"}, {}),
        ({"PILOT": "1"}, {"lookahead": 1}),
        ({"PILOT_REAL": "0"}, {"lookahead": "off"}),
        ({"PILOT": "2", "PILOT_REAL": "0"}, {"lookahead": 2}),
        ({"PIPE_WORKERS": "8"}, {"readers": 8}),
        ({"AUTOPIN": "0"}, {"pin": "0"}),
        ({"AUTOPIN": "0", "PIN_GB": "2"}, {"pin": "2GB"}),
        ({"COLI_NUMA": "1"}, {"numa": "on"}),
        ({"COLI_NUMA": "0"}, {"numa": "off"}),
        ({"PILOT": "1", "COLI_LOOKAHEAD": "auto"}, {"lookahead": "auto"}),
        ({"COLI_READERS": "Auto"}, {"readers": "auto"}),
        ({"RAM_GB": "24", "COLI_RAM": "2GB"}, {"ram": "2GB"}),
        ({"COLI_RAM": "", "COLI_CPU": ""}, {}),
    ],
)
def test_upstream_variables(environ: dict[str, str], expected: dict[str, Any]) -> None:
    assert resolve(environ | {"COLI_UPSTREAM": "1"}) == EngineConfig(**expected)


@pytest.mark.parametrize("switch", [{}, {"COLI_UPSTREAM": "0"}, {"COLI_UPSTREAM": ""}])
@pytest.mark.parametrize(
    "environ",
    [
        {"CTX": "prod"},
        {"CAP": "abc"},
        {"CTX": "100", "RAM_GB": "2", "PIN_GB": "1"},
        {"DIRECT": "/srv", "PIPE_WORKERS": "many", "PILOT": "yes", "AUTOPIN": "no"},
    ],
)
def test_everyday_names_are_not_ours_unasked(environ: dict[str, str], switch: Any) -> None:
    assert resolve(environ | switch) == EngineConfig()


def test_what_loses_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('ram = 5\nreaders = "none"\n')
    environ = {"COLI_RAM": "2GB", "COLI_CONTEXT": "prod", "COLI_READERS": "x"}
    config = resolve(environ, file, context="512", readers=2)
    assert (config.ram, config.context, config.readers) == ("2GB", 512, 2)
    upstream = {"COLI_UPSTREAM": "1", "CTX": "prod", "COLI_CONTEXT": "256", "RAM_GB": "x"}
    assert resolve(upstream, ram="1GB").context == 256
    with pytest.raises(ConfigError, match=r"config.toml: ram: 5"):
        resolve({}, file, readers=2)


_OF_A_SERVICE = {
    "COLI_PORT": "tcp://10.96.12.7:8000",
    "COLI_SERVICE_HOST": "10.96.12.7",
    "COLI_SERVICE_PORT": "8000",
    "COLI_SERVICE_PORT_HTTP": "8000",
    "COLI_PORT_8000_TCP": "tcp://10.96.12.7:8000",
    "COLI_PORT_8000_TCP_PROTO": "tcp",
    "COLI_PORT_8000_TCP_PORT": "8000",
    "COLI_PORT_8000_TCP_ADDR": "10.96.12.7",
}


def test_what_kubernetes_sets_for_a_service_is_one_warning_and_no_value(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("port = 9000\n")
    assert ServerConfig.resolve(environ=_OF_A_SERVICE, file=None).port == 8000
    assert ServerConfig.resolve(environ=_OF_A_SERVICE, file=file).port == 9000
    assert ServerConfig.resolve(environ=_OF_A_SERVICE, file=file, port="8765").port == 8765
    (warning,) = unknown_variables(_OF_A_SERVICE)
    assert warning.startswith("COLI_PORT (and 7 more like it)")
    assert "enableServiceLinks" in warning
    others = {"COLI_MODEL_PORT": "udp://[fd00::1]:53", "COLI_MODEL_SERVICE_HOST": "fd00::1"}
    (warning,) = unknown_variables(others)
    assert "COLI_MODEL_PORT (and 1 more like it)" in warning


@pytest.mark.parametrize("text", ["tcp", "tcp://", "8000/tcp", "http://host:1"])
def test_a_bad_port_is_still_one(text: str) -> None:
    with pytest.raises(ConfigError, match="COLI_PORT"):
        ServerConfig.resolve(environ={"COLI_PORT": text}, file=None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COLI_THREADS", "0"),
        ("COLI_THREADS", "1.5"),
        ("COLI_THREADS", "9" * 5000),
        ("COLI_TRUNK_BITS", "16"),
        ("COLI_CPU", "sse"),
        ("COLI_CONTEXT", "-1"),
        ("COLI_MODEL", "a\0b"),
        ("COLI_UPSTREAM", "yes"),
        ("RAM_GB", "lots"),
        ("RAM_GB", "24GB"),
        ("DIRECT", "yes"),
        ("COLI_DISK_WEIGHTS", "2:1"),
        ("COLI_DISK_WEIGHTS", "0,0"),
        ("COLI_DISK_WEIGHTS", "1,-1"),
        ("COLI_DISK_WEIGHTS", "nan"),
        ("COLI_DISK_WEIGHTS", "inf,1"),
        ("COLI_MODEL_MIRROR", "a\0b"),
    ],
)
def test_bad_variable_is_named_with_its_range(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name) as raised:
        resolve({"COLI_UPSTREAM": "1", name: value})
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rams = '1GB'", "did you mean ram"),
        ("zzz = 1", "known: model, ram"),
        ("ram = 6", "ram: 6 has no unit"),
        ("ram = 1.5", "ram: 1.5 has no unit"),
        ("readers = true", "readers: True"),
        ("readers = 1.5", "readers: 1.5"),
        ("cpu = ['avx2']", "cpu: "),
        ("[engine]\nram = '1GB'", "unknown key 'engine'"),
        ("ram = ", "not valid TOML"),
        ("x = " + "[" * 3000, "not valid TOML"),
    ],
)
def test_bad_file_is_named_with_its_key(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        resolve(file=file)
    assert str(file) in str(raised.value)
    assert says in str(raised.value)


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        resolve(file=tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match="directory"):
        resolve(file=tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"model = '\xe9'")
    with pytest.raises(ConfigError, match="UTF-8"):
        resolve(file=tmp_path / "latin.toml")


def test_where_the_file_is_looked_for(tmp_path: Path) -> None:
    assert default_file({"COLI_CONFIG": "x.toml", "HOME": str(tmp_path)}) == Path("x.toml")
    assert default_file({"HOME": str(tmp_path)}) is None
    assert default_file({}) is None
    file = tmp_path / ".config" / "colibri" / "config.toml"
    file.parent.mkdir(parents=True)
    file.touch()
    assert default_file({"HOME": str(tmp_path)}) == file
    assert default_file({"HOME": "/x", "XDG_CONFIG_HOME": str(tmp_path / ".config")}) == file


def test_unknown_variables_are_said_with_near_names() -> None:
    known = {s.env: "x" for s in SETTINGS} | {name: "x" for name, _ in OTHER_VARIABLES}
    assert unknown_variables(known | {"PATH": "x"}) == []
    (warning,) = unknown_variables({"COLI_TREADS": "4"})
    assert "COLI_TREADS" in warning
    assert "COLI_THREADS" in warning


@pytest.mark.parametrize(
    "fields", [{"trunk_bits": "8"}, {"ram": None}, {"ram": "x"}, {"threads": 0}, {"cpu": "AVX2"}]
)
def test_the_constructor_checks_too(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(fields))):
        EngineConfig(**fields)


@pytest.mark.parametrize("text", ["", ",", "/a,", ",/a", "/a,,/b", " , /a"])
@pytest.mark.parametrize("field", ["model_dirs", "mirror", "cors_origin", "allowed_host"])
def test_an_empty_part_of_a_list_is_refused(field: str, text: str) -> None:
    kind = EngineConfig if field in ("model_dirs", "mirror") else ServerConfig
    text = text.replace(",", ";") if field == "mirror" else text
    with pytest.raises(ConfigError, match=f"--{field.replace('_', '-')}: .*empty.*leave it out"):
        kind.resolve(environ={}, file=None, **{field: text})
    with pytest.raises(ConfigError, match="has an empty part"):
        kind.resolve(environ={}, file=None, **{field: ("a", text and "")})


def test_a_path_begins_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "config.toml"
    file.write_text('usage = "~/u"\nmodel_dirs = ["~/a", "/b"]\n')
    config = resolve({"COLI_MODEL": "~/m", "COLI_MIRROR": "~/x;./~"}, file, trace="~/t")
    home = str(tmp_path)
    assert (config.model, config.usage, config.trace) == (f"{home}/m", f"{home}/u", f"{home}/t")
    assert (config.model_dirs, config.mirror) == ((f"{home}/a", "/b"), (f"{home}/x", "./~"))
    assert EngineConfig(model="~/m", mirror=("~/x",)).mirror == (f"{home}/x",)
    assert default_file({"COLI_CONFIG": "~/c.toml"}) == tmp_path / "c.toml"


def test_unknown_flag_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'frob'"):
        resolve(frob=1)


def test_keyword_arguments_of_llm_are_the_settings() -> None:
    fields = {field.name for field in dataclasses.fields(EngineConfig)}
    assert set(EngineSettings.__annotations__) == fields - {"model", "profile"}
