# SPDX-License-Identifier: Apache-2.0
"""A07-A10: bootstrap."""

import contextlib
import os
import random
import signal
import socket
import struct
import time

from bench import SUCCESS, check, free_port, free_range, listener_address, listeners_of, rss_of


def disturb(address, how):
    """One uninvited visitor."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family) as visitor:
        visitor.settimeout(1)
        visitor.connect(address)
        if how == 1:
            visitor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == 2:
            visitor.sendall(b"abc")
        elif how == 3:
            visitor.sendall(b"GET / HTTP/1.0\r\n\r\n")
        elif how == 4:
            visitor.sendall(random.Random(1).randbytes(1 << 20))


def case_A07(bench):
    """Something connects and goes away, or stays and says nothing."""
    delay_ms = bench.scaled(2500, 5000)
    results = bench.wait([bench.start(rank, 4, "allreduce", idfile, delay_ms=delay_ms if rank == 3 else 0)
                          for idfile in [bench.new_idfile()] for rank in range(4)], 30)
    quiet_s = max(result.wall_s for result in results)
    idfile = bench.new_idfile()
    ranks = [bench.start(rank, 4, "allreduce", idfile, delay_ms=delay_ms if rank == 3 else 0) for rank in range(4)]
    time.sleep(0.5)
    before = {rank.rank: rss_of(rank.pid) for rank in ranks[:3]}
    most = dict(before)
    silent = []
    n_visits = 0
    while time.monotonic() < ranks[0].started + delay_ms / 1000 - 0.2:
        for rank in ranks[:3]:
            for entry in listeners_of(rank.pid):
                disturb(listener_address(entry), n_visits % 5)
                n_visits += 1
                if len(silent) < 20:
                    with contextlib.suppress(OSError):
                        silent.append(socket.create_connection(listener_address(entry), 1))
            most[rank.rank] = max(most[rank.rank], rss_of(rank.pid))
    results = bench.wait(ranks, 30)
    for connection in silent:
        connection.close()
    check(n_visits > 10, f"only {n_visits} visits")
    for result in results:
        check(result.code == SUCCESS, str(result))
        check(result.wall_s <= quiet_s + bench.seconds(1), f"{result.wall_s - quiet_s:.1f} s slower than undisturbed: {result}")
    for rank, bytes_before in before.items():
        bench.check_bytes(most[rank] - bytes_before, 10 << 20, f"rank {rank} grew")
    bench.say(f"{n_visits} visits")


def case_A08(bench):
    """Ranks start in any order, minutes apart."""
    wait_s = bench.scaled(3, 90)
    env = {"NCCL_COMM_ID": f"127.0.0.1:{free_port()}"}
    ranks = [bench.start(rank, 4, "allreduce", None, env) for rank in (3, 2, 1)]
    time.sleep(wait_s)
    check(not any([rank.has_ended() for rank in ranks]), "a rank gave up: " + str([str(r.result()) for r in ranks if r.has_ended()]))
    ranks.append(bench.start(0, 4, "allreduce", None, env))
    for result in bench.wait(ranks, 30):
        check(result.code == SUCCESS, str(result))

    idfile = bench.new_idfile()
    ranks = [bench.start(0, 4, "allreduce", idfile)]
    while not os.path.exists(idfile):
        time.sleep(0.001)
    ranks[0].signal(signal.SIGSTOP)
    ranks += [bench.start(rank, 4, "allreduce", idfile) for rank in (3, 2, 1)]
    time.sleep(bench.scaled(4, 30))
    check(not any([rank.has_ended() for rank in ranks]), "a rank gave up while rank 0 was stopped")
    ranks[0].signal(signal.SIGCONT)
    for result in bench.wait(ranks, 40):
        check(result.code == SUCCESS, str(result))

    results = bench.job(4, "allreduce", skip_ranks=[2], env={"HETCCL_INIT_TIMEOUT_S": "5"}, expect=None, timeout=20)
    for result in results:
        check(result.code != SUCCESS, f"succeeded without rank 2: {result}")
        check(4.5 <= result.wall_s <= 5 + bench.seconds(3.5), f"fails after {result.wall_s:.1f} s: {result}")
        check("missing" in result.error and "rank 2" in result.error, f"doesn't name rank 2: {result}")


def case_A09(bench):
    """An id from a previous life."""
    # Rank 0 of both jobs has the same and only port.
    envs = [{"HETCCL_PORT_RANGE": free_range(1)}, {}, {}, {}]
    old = bench.new_idfile()
    ranks = bench.start_job(4, "loop", idfile=old, envs=envs, iters=1000000)
    # The loop takes a new id for every communicator; the first one serves.
    while not os.path.exists(old + ".1"):
        time.sleep(0.001)
    with open(old + ".1", "rb") as file:
        old_id = file.read()
    time.sleep(0.3)
    for rank in ranks:
        rank.signal(signal.SIGKILL)
    bench.wait(ranks, 10)
    kept = os.path.join(bench.tmp, "kept")
    with open(kept, "wb") as file:
        file.write(old_id)
    ranks = bench.start_job(4, "latency", envs=envs, iters=2000, hold_ms=4000)
    time.sleep(0.5)
    intruder = bench.start(2, 4, "allreduce", kept, {"HETCCL_INIT_TIMEOUT_S": "30"})
    (result,) = bench.wait([intruder], 15)
    check(result.code != SUCCESS and result.wall_s <= bench.seconds(10), f"the intruder: {result}")
    check("another run" in result.error, f"the text doesn't say that the id is another run's: {result}")
    for result in bench.wait(ranks, 30):
        check(result.code == SUCCESS, f"the running job was disturbed: {result}")


def record_hello(bench):
    """What a rank says first to whoever listens at the root's address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(bench.seconds(5))
        rank = bench.start(1, 2, "allreduce", None, {"NCCL_COMM_ID": "127.0.0.1:%d" % server.getsockname()[1]})
        connection, _ = server.accept()
        with connection:
            connection.settimeout(1)
            hello = connection.recv(65536)
    rank.signal(signal.SIGKILL)
    bench.wait([rank], 5)
    check(len(hello) > 16, f"a hello of {len(hello)} bytes")
    return hello


def mutate(hello, generator):
    """A hello with some fields changed to what breaks decoders, perhaps cut short or with something behind it."""
    record = bytearray(hello)
    for _ in range(generator.randint(1, 3)):
        value = generator.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 3, generator.getrandbits(64)))
        field = value.to_bytes(8, "little")[:generator.choice((1, 2, 4, 8))]
        at = generator.randrange(len(record))
        record[at:at + len(field)] = field
    how = generator.randrange(4)
    if how == 0:
        del record[generator.randrange(len(record)):]
    elif how == 1:
        record += generator.randbytes(generator.randrange(4096))
    return bytes(record)


def case_A10(bench):
    """Open to the world: listeners at one address, and hostile first messages."""
    hello = record_hello(bench)
    idfile = bench.new_idfile()
    ranks = [bench.start(rank, 3, "allreduce", idfile) for rank in range(2)]
    time.sleep(0.6)
    entries = sorted(set().union(*[listeners_of(rank.pid) for rank in ranks]))
    check(entries, "no listener was seen")
    check(not any(set(address) == {"0"} for address, _ in entries), f"a listener on all addresses: {entries}")
    before = rss_of(ranks[0].pid)
    generator = random.Random(10)
    for _ in range(bench.scaled(1500, 10000)):
        with contextlib.suppress(OSError), socket.create_connection(listener_address(generator.choice(entries)), 1) as visitor:
            visitor.sendall(mutate(hello, generator))
            visitor.settimeout(0.001)
            visitor.recv(4096)
    bench.check_bytes(rss_of(ranks[0].pid) - before, 10 << 20, "rank 0 grew")
    check(not any([rank.has_ended() for rank in ranks]), "a rank ended: " +
          str([str(rank.result()) for rank in ranks if rank.has_ended()]))
    ranks.append(bench.start(2, 3, "allreduce", idfile))
    for result in bench.wait(ranks, 30):
        check(result.code == SUCCESS, str(result))
