"""NUMA: two sockets are mocked; the system calls are real, on this machine's own nodes."""

import errno
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from colibri.errors import ConfigError
from colibri.hardware.numa import DEFAULT, INTERLEAVE, Policies, memory_nodes, spread

NODES = "sys/devices/system/node"


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def two_sockets(tmp_path: Path) -> Path:
    return machine(tmp_path, {f"{NODES}/online": "0-1\n", f"{NODES}/has_memory": "0-1\n"})


class Mocked(Policies):
    def __init__(self, policy: int = DEFAULT, refuses: bool = False) -> None:
        self.set_to: list[tuple[int, tuple[int, ...]]] = []
        self._policy, self._refuses = policy, refuses

    def get(self) -> int:
        return self._policy

    def set(self, policy: int, nodes: Sequence[int]) -> None:
        if self._refuses:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        self.set_to.append((policy, tuple(nodes)))


def test_nodes_with_memory_that_the_process_may_use(tmp_path: Path) -> None:
    files = {
        f"{NODES}/online": "0-3\n",
        f"{NODES}/has_memory": "0-1,3\n",
        "proc/self/status": "Name:\tcoli\nMems_allowed:\t3\nMems_allowed_list:\t0-2,3\n",
    }
    assert memory_nodes(machine(tmp_path, files)) == (0, 1, 3)
    (tmp_path / "proc/self/status").write_text("Mems_allowed_list:\t1\n")
    assert memory_nodes(tmp_path) == (1,)


def test_nodes_of_systems_that_say_less(tmp_path: Path) -> None:
    assert memory_nodes(tmp_path) == ()
    assert memory_nodes(machine(tmp_path, {f"{NODES}/online": "0\n"})) == (0,)
    (tmp_path / NODES / "online").write_text("nonsense, 1-, \n")
    assert memory_nodes(tmp_path) == ()


def failing_load(root: Path, policies: Mocked) -> None:
    with spread("auto", root, policies) as nodes:
        assert nodes == (0, 1)
        assert policies.set_to == [(INTERLEAVE, (0, 1))]
        raise KeyError


def test_two_sockets_are_interleaved_while_loading_only(two_sockets: Path) -> None:
    policies = Mocked()
    with pytest.raises(KeyError):
        failing_load(two_sockets, policies)
    assert policies.set_to == [(INTERLEAVE, (0, 1)), (DEFAULT, ())]


def test_what_is_left_as_it_is(two_sockets: Path, caplog: pytest.LogCaptureFixture) -> None:
    policies = Mocked()
    with spread("off", two_sockets, policies) as nodes:
        assert nodes == ()
    one = machine(two_sockets / "one", {f"{NODES}/online": "0\n"})
    with spread("auto", one, policies) as nodes:
        assert nodes == ()
    numactl = Mocked(policy=INTERLEAVE)
    with spread("auto", two_sockets, numactl) as nodes:
        assert nodes == ()
    assert policies.set_to == numactl.set_to == []
    assert not caplog.records
    with spread("on", one, policies):
        assert "one memory node" in caplog.text


def test_a_system_that_refuses(two_sockets: Path, caplog: pytest.LogCaptureFixture) -> None:
    with spread("auto", two_sockets, Mocked(refuses=True)) as nodes:
        assert nodes == ()
    assert "Operation not permitted" in caplog.text
    with (
        pytest.raises(ConfigError, match=r"--numa on: .*not permitted"),
        spread("on", two_sockets, Mocked(refuses=True)),
    ):
        pass


def test_the_system_calls() -> None:
    """In a thread of its own: the policy is the thread's."""
    seen: list[object] = []

    def work() -> None:
        policies = Policies()
        try:
            policies.set(INTERLEAVE, memory_nodes() or (0,))
            seen.append(policies.get())
            policies.set(DEFAULT, ())
            seen.append(policies.get())
            policies.set(INTERLEAVE, (1000,))
        except PermissionError:  # a container's filter may forbid it
            seen[:] = [INTERLEAVE, DEFAULT, errno.EINVAL]
        except OSError as error:
            seen.append(error.errno)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [INTERLEAVE, DEFAULT, errno.EINVAL]
