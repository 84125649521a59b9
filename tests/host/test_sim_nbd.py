"""The NBD front with clients that are not ours: nbdinfo, nbdcopy, qemu-io and fio."""

import json
import os
import random
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ssdbench.errors import CommandFailed, DeviceError
from ssdbench.host.command import run
from ssdbench.sim.drive import SimDrive, data_path
from ssdbench.sim.spec import parse
from tests.support.nbdserver import NbdServer

pytestmark = pytest.mark.host

MIB = 1 << 20
GIB = 1 << 30
OPTION_MAGIC = b"IHAVEOPT"
REQUEST = struct.Struct(">IHHQQI")
REQUEST_MAGIC = 0x25609513
REPLY_MAGIC = 0x67446698
READ, WRITE, DISC, FLUSH, TRIM, CACHE, ZEROES = range(7)
EIO, EINVAL, ENOSPC = 5, 22, 28

A_MODEL = """\
title: A quick drive
sources: [planted]
params:
  {capacity: 1GiB, erase_block: 64KiB, op: 28%, t_read: 20us, t_prog: 200us, fw_read: 5us,
   fw_write: 5us}
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    model, path = tmp_path / "quick.yaml", tmp_path / "drive.ssdb"
    model.write_text(A_MODEL)
    SimDrive.create(parse(f"sim:{model}"), path).close()
    return path


@pytest.fixture
def server(state: Path) -> Iterator[NbdServer]:
    with NbdServer(state, state.with_suffix(".sock"), data=data_path(state)) as server:
        yield server


class Client:
    """A client that says exactly what a test wants it to say."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        self.greeting = self.take(18)

    def take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("the server hung up")
            data += part
        return data

    def transmission(self) -> "Client":
        """NBD_OPT_EXPORT_NAME, the oldest way in; answers with the export's size."""
        self.socket.sendall(struct.pack(">I", 3) + OPTION_MAGIC + struct.pack(">II", 1, 0))
        self.size, self.flags = struct.unpack(">QH", self.take(10))
        return self

    def request(
        self,
        kind: int,
        offset: int = 0,
        count: int = 0,
        *,
        payload: bytes = b"",
        flags: int = 0,
        magic: int = REQUEST_MAGIC,
    ) -> int:
        """Send a request and answer the error of its reply."""
        self.socket.sendall(REQUEST.pack(magic, flags, kind, 77, offset, count) + payload)
        reply, error, handle = struct.unpack(">IIQ", self.take(16))
        assert (reply, handle) == (REPLY_MAGIC, 77)
        return int(error)

    def hung_up(self) -> bool:
        """Whether the server closed the connection."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


Connect = Callable[[NbdServer], Client]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Clients that are gone when the test is."""
    clients = []

    def connected(server: NbdServer) -> Client:
        clients.append(Client(server.socket_path))
        return clients[-1]

    yield connected
    for client in clients:
        client.socket.close()


def test_nbdinfo_sees_size_blocks_and_abilities(server: NbdServer) -> None:
    export = json.loads(run(["nbdinfo", "--json", server.uri]).stdout)["exports"][0]

    assert export["export-size"] == GIB
    assert (export["block_size_minimum"], export["block_size_preferred"]) == (512, 4096)
    able = ("can_flush", "can_fua", "can_trim", "can_zero", "can_multi_conn")
    assert all(export[name] for name in able)


def test_nbdinfo_lists_the_one_export(server: NbdServer) -> None:
    found = json.loads(run(["nbdinfo", "--json", "--list", server.uri]).stdout)

    assert [export["export-name"] for export in found["exports"]] == [""]


def test_what_nbdcopy_writes_over_many_connections_it_reads_again(
    server: NbdServer, tmp_path: Path
) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(random.Random(1).randbytes(64 * MIB))

    run(["nbdcopy", "--connections=4", str(source), server.uri], timeout_s=120)
    run(["qemu-img", "convert", "-f", "raw", "-O", "raw", server.uri, str(back)], timeout_s=120)

    assert back.read_bytes()[: 64 * MIB] == source.read_bytes()


def test_qemu_writes_zeroes_discards_and_flushes(server: NbdServer) -> None:
    commands = ["write -P 7 0 1M", "read -P 7 0 1M", "discard 0 512k", "read -P 0 0 512k",
                "read -P 7 512k 512k", "write -z 512k 64k", "read -P 0 512k 64k", "write -f 0 4k",
                "flush"]  # fmt: skip

    done = run(
        ["qemu-io", "-f", "raw", *(word for c in commands for word in ("-c", c)), server.uri]
    )

    assert "failed" not in done.stdout


def test_fio_verifies_what_it_wrote_through_its_nbd_engine(server: NbdServer) -> None:
    argv = ["fio", "--name=v", "--ioengine=nbd", f"--uri={server.uri}", "--rw=randwrite",
            "--bs=4096", "--size=16m", "--iodepth=16", "--verify=crc32c", "--do_verify=1",
            "--verify_state_save=0", "--output-format=json"]  # fmt: skip

    job = json.loads("{" + run(argv, timeout_s=120).stdout.partition("{")[2])["jobs"][0]

    assert job["error"] == 0
    assert job["write"]["total_ios"] == job["read"]["total_ios"] == 4096


@pytest.mark.timed
def test_latencies_are_those_of_the_drive(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(A_MODEL.replace("fw_write: 5us", "fw_write: 5ms"))
    state = tmp_path / "slow.ssdb"
    SimDrive.create(parse(f"sim:{tmp_path / 'slow.yaml'}"), state).close()
    options = ["--rw=randwrite", "--bs=4096", "--iodepth=1", "--runtime=3", "--time_based"]

    with NbdServer(state, tmp_path / "s.sock") as server:
        argv = ["fio", "--name=w", "--ioengine=nbd", f"--uri={server.uri}", *options]
        output = run([*argv, "--output-format=json"], timeout_s=120).stdout

    job = json.loads("{" + output.partition("{")[2])["jobs"][0]
    # Real time: a busy machine makes most requests late, but none can be faster than the drive,
    # and of some hundred a twentieth is answered in time.
    assert job["write"]["lat_ns"]["min"] >= 5_000_000 * 0.98
    assert job["write"]["clat_ns"]["percentile"]["5.000000"] == pytest.approx(5_000_000, rel=0.1)


def test_state_and_data_survive_the_server(state: Path, tmp_path: Path) -> None:
    for step in ("write", "read"):
        with NbdServer(state, tmp_path / "s.sock", data=data_path(state)) as server:
            run(["qemu-io", "-f", "raw", "-c", f"{step} -P 9 0 1M", server.uri])
            assert server.stop() == 0

    with SimDrive.open(state) as drive:
        assert drive.counters()["host_write_bytes"] == MIB
        assert drive.core.broken_invariant() == 0


def test_without_a_data_store_what_is_read_is_zeros(state: Path, tmp_path: Path) -> None:
    with NbdServer(state, tmp_path / "s.sock") as server:
        run(["qemu-io", "-f", "raw", "-c", "write -P 9 0 1M", "-c", "read -P 0 0 1M", server.uri])


def test_one_state_has_one_server(server: NbdServer, state: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="in use by another process"):
        NbdServer(state, tmp_path / "second.sock").__enter__()


def test_one_socket_has_one_server(server: NbdServer, tmp_path: Path) -> None:
    other = tmp_path / "other.ssdb"
    SimDrive.create(parse(f"sim:{tmp_path / 'quick.yaml'}"), other).close()

    with pytest.raises(CommandFailed, match="another server answers"):
        NbdServer(other, server.socket_path).__enter__()


def test_a_socket_that_a_killed_server_left_is_taken_over(state: Path, tmp_path: Path) -> None:
    with NbdServer(state, tmp_path / "s.sock") as server:
        server.process.kill()

    assert (tmp_path / "s.sock").exists()
    with NbdServer(state, tmp_path / "s.sock") as server:
        assert "export-size" in run(["nbdinfo", server.uri]).stdout


@pytest.mark.parametrize(
    ("kind", "offset", "count", "flags", "error"),
    [
        (READ, GIB, 4096, 0, EINVAL),
        (READ, GIB - 512, 4096, 0, EINVAL),
        (READ, 2**64 - 4096, 8192, 0, EINVAL),
        (READ, 100, 512, 0, EINVAL),
        (READ, 0, 0, 0, EINVAL),
        (READ, 0, 64 * MIB, 0, EINVAL),
        (READ, 0, 512, 1 << 9, EINVAL),
        (TRIM, GIB, 4096, 0, ENOSPC),
        (ZEROES, GIB, 4096, 0, ENOSPC),
        (CACHE, 0, 4096, 0, EINVAL),
        (FLUSH, 4096, 0, 0, EINVAL),
        (99, 0, 4096, 0, EINVAL),
    ],
)
def test_a_wrong_request_is_answered_and_the_connection_lives(
    server: NbdServer, kind: int, offset: int, count: int, flags: int, error: int, connect: Connect
) -> None:
    client = connect(server).transmission()

    assert client.request(kind, offset, count, flags=flags) == error
    assert client.request(FLUSH) == 0


def test_a_write_beyond_the_end_is_answered_after_its_payload(
    server: NbdServer, connect: Connect
) -> None:
    client = connect(server).transmission()

    assert client.request(WRITE, GIB, 4096, payload=bytes(4096)) == ENOSPC
    assert client.request(WRITE, 0, 4096, payload=bytes(4096), flags=1) == 0


def test_a_planted_media_error_reaches_the_client_as_eio(tmp_path: Path, connect: Connect) -> None:
    (tmp_path / "quick.yaml").write_text(A_MODEL)
    target = f"sim:{tmp_path / 'quick.yaml'},error_ops=both,error_offset=1MiB,error=1MiB"
    state = tmp_path / "drive.ssdb"
    SimDrive.create(parse(target), state).close()

    with NbdServer(state, tmp_path / "s.sock") as server:
        client = connect(server).transmission()

        assert client.request(TRIM, 0, 4096) == 0
        assert client.request(WRITE, MIB, 512, payload=bytes(512)) == EIO


@pytest.mark.parametrize(
    "said",
    [
        struct.pack(">I", 0xFFFFFFFF),
        struct.pack(">I", 3) + b"NOTMAGIC" + struct.pack(">II", 1, 0),
        struct.pack(">I", 3) + OPTION_MAGIC + struct.pack(">II", 7, 0xFFFFFFFF),
        struct.pack(">I", 3) + OPTION_MAGIC + struct.pack(">II", 1, 5) + b"other",
        struct.pack(">I", 3) + OPTION_MAGIC + struct.pack(">II", 1, 0) + bytes(28),
        struct.pack(">I", 3) + OPTION_MAGIC + struct.pack(">II", 1, 0)
        + REQUEST.pack(REQUEST_MAGIC, 0, WRITE, 1, 0, 0xFFFFFFFF),
    ],
    ids=["flags", "magic", "huge-option", "unknown-export", "request-magic", "huge-write"],
)  # fmt: skip
def test_a_client_that_talks_nonsense_is_hung_up_on_and_the_server_lives(
    server: NbdServer, said: bytes, connect: Connect
) -> None:
    client = connect(server)
    client.socket.sendall(said)

    while not client.hung_up():
        pass
    assert connect(server).transmission().size == GIB


@pytest.mark.parametrize("option", [6, 7])
@pytest.mark.parametrize(
    "data",
    [b"", b"\0\0\0\xff\0\0", struct.pack(">IH", 0, 9), struct.pack(">I", 2**32 - 1) + b"\0\0"],
    ids=["empty", "name-too-long", "infos-missing", "overflow"],
)
def test_a_malformed_option_is_refused_and_the_next_is_heard(
    server: NbdServer, option: int, data: bytes, connect: Connect
) -> None:
    client = connect(server)
    head = OPTION_MAGIC + struct.pack(">II", option, len(data))
    client.socket.sendall(struct.pack(">I", 3) + head + data)

    reply = struct.unpack(">QIII", client.take(20))

    assert reply[1:] == (option, 0x80000003, 0)
    client.socket.sendall(OPTION_MAGIC + struct.pack(">II", 1, 0))
    assert struct.unpack(">QH", client.take(10))[0] == GIB


def test_random_bytes_never_end_the_server(server: NbdServer, connect: Connect) -> None:
    chance = random.Random(7)
    for _ in range(200):
        client = connect(server)
        head = struct.pack(">I", 3) + OPTION_MAGIC + struct.pack(">II", 1, 0)
        noise = chance.randbytes(chance.randrange(200))
        requests = b"".join(
            REQUEST.pack(
                REQUEST_MAGIC,
                chance.getrandbits(chance.choice([1, 16])),
                chance.randrange(9),
                chance.getrandbits(64),
                chance.getrandbits(chance.choice([20, 30, 64])),
                chance.getrandbits(chance.choice([12, 20, 32])),
            )
            for _ in range(5)
        )
        try:
            client.socket.sendall(chance.choice([head + requests, head + noise, noise]))
        except ConnectionError:
            continue
        client.socket.close()

    assert server.process.poll() is None
    assert connect(server).transmission().request(FLUSH) == 0


def test_a_client_that_leaves_in_the_middle_of_a_write_changes_nothing(
    server: NbdServer, connect: Connect
) -> None:
    client = connect(server).transmission()
    client.socket.sendall(REQUEST.pack(REQUEST_MAGIC, 0, WRITE, 1, 0, 8192) + b"\xff" * 4096)
    client.socket.close()

    run(["qemu-io", "-f", "raw", "-c", "read -P 0 0 8192", server.uri])


def kill_at_work(state: Path, socket_path: Path, connect: Connect, after_s: float) -> None:
    with NbdServer(state, socket_path, data=data_path(state)) as server:
        client = connect(server).transmission()
        places = random.Random(after_s)
        for _ in range(64):
            offset = places.randrange(GIB // 4096) * 4096
            client.socket.sendall(REQUEST.pack(REQUEST_MAGIC, 0, WRITE, 1, offset, 4096))
            client.socket.sendall(bytes(4096))
        time.sleep(after_s)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()


def kill_and_mend(state: Path, socket_path: Path, connect: Connect, times: int) -> None:
    for attempt in range(times):
        kill_at_work(state, socket_path, connect, 0.0005 * (attempt % 10))
        try:
            SimDrive.open(state).close()
        except DeviceError as error:
            assert (
                "is incomplete: the last program died in the middle of a request" in error.message
            )
        with SimDrive.open(state, repair=True) as drive:
            assert drive.core.broken_invariant() == 0


def test_a_server_killed_at_work_leaves_a_state_that_can_be_mended(
    state: Path, tmp_path: Path, connect: Connect
) -> None:
    kill_and_mend(state, tmp_path / "s.sock", connect, 5)


@pytest.mark.soak
def test_two_hundred_servers_killed_at_work_leave_states_that_can_be_mended(
    state: Path, tmp_path: Path, connect: Connect
) -> None:
    kill_and_mend(state, tmp_path / "s.sock", connect, 200)


def test_a_full_file_system_is_enospc_and_not_the_end(
    state: Path, tmp_path: Path, connect: Connect
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)])
    try:
        with NbdServer(state, tmp_path / "s.sock", data=small / "data") as server:
            client = connect(server).transmission()

            assert client.request(WRITE, 0, 2 * MIB, payload=b"x" * 2 * MIB) == ENOSPC
            assert client.request(TRIM, 0, 2 * MIB) == 0
            assert client.request(WRITE, 0, 4096, payload=b"x" * 4096) == 0
            said = server.socket_path.with_suffix(".log").read_text()
        assert said.count(f"{small}/data: No space left on device") == 1
    finally:
        run(["umount", str(small)])


def test_a_state_that_has_holes_on_a_full_disk_is_refused_with_a_sentence(
    state: Path, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)])
    try:
        with (small / "d.ssdb").open("wb") as copy:  # its header alone, as a copy with holes
            copy.write(state.read_bytes()[:8192])
            copy.truncate(2 * MIB)
        with pytest.raises(CommandFailed, match=r"d\.ssdb needs 2 MiB, and its disk has no room"):
            NbdServer(small / "d.ssdb", tmp_path / "s.sock").__enter__()
    finally:
        run(["umount", str(small)])


def test_a_state_that_is_cut_off_under_the_server_ends_it_with_a_sentence(
    state: Path, tmp_path: Path, connect: Connect
) -> None:
    with NbdServer(state, tmp_path / "s.sock") as server:
        client = connect(server).transmission()
        os.truncate(state, 4096)
        with suppress(ConnectionError):
            for offset in range(0, GIB, 16 * MIB):
                client.request(WRITE, offset, 4096, payload=b"x" * 4096)

        assert server.process.wait(120) == 1
        said = server.socket_path.with_suffix(".log").read_text().splitlines()[-1]

    assert said.startswith(f"ssdb-nbd: {state} has lost a page: its disk is full or fails")


def test_requests_under_way_are_answered_before_the_end(
    state: Path, tmp_path: Path, connect: Connect
) -> None:
    with NbdServer(state, tmp_path / "s.sock") as server:
        client = connect(server).transmission()
        client.socket.sendall(REQUEST.pack(REQUEST_MAGIC, 0, WRITE, 5, 0, 4 * MIB))
        client.socket.sendall(bytes(4 * MIB))
        client.take(16)

        assert server.stop() == 0
