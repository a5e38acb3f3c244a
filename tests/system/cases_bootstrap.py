# SPDX-License-Identifier: Apache-2.0
"""A07-A10: bootstrap."""

import contextlib
import os
import random
import signal
import socket
import struct
import time

from bench import SUCCESS, check, free_port, listener_address, listeners_of, rss_of


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
        check(result.wall_s <= quiet_s + 1, f"{result.wall_s - quiet_s:.1f} s slower than undisturbed: {result}")
    for rank, bytes_before in before.items():
        check(most[rank] - bytes_before < 10 << 20, f"rank {rank} grew by {most[rank] - bytes_before} bytes")
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
        check(4.5 <= result.wall_s <= 8.5, f"fails after {result.wall_s:.1f} s: {result}")
        check("missing" in result.error and "rank 2" in result.error, f"doesn't name rank 2: {result}")


def case_A09(bench):
    """An id from a previous life."""
    first = free_port()
    env = {"HETCCL_PORT_RANGE": f"{first}-{first + 15}" if first < 65500 else "50100-50115"}
    old = bench.new_idfile()
    ranks = bench.start_job(4, "loop", idfile=old, env=env, iters=1000000)
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
    ranks = bench.start_job(4, "latency", env=env, iters=2000, hold_ms=4000)
    time.sleep(0.5)
    intruder = bench.start(2, 4, "allreduce", kept, {**env, "HETCCL_INIT_TIMEOUT_S": "30"})
    (result,) = bench.wait([intruder], 15)
    check(result.code != SUCCESS and result.wall_s <= 10, f"the intruder: {result}")
    check("another run" in result.error, f"the text doesn't say that the id is another run's: {result}")
    for result in bench.wait(ranks, 30):
        check(result.code == SUCCESS, f"the running job was disturbed: {result}")


def case_A10(bench):
    """Open to the world: listeners at one address, and hostile first messages."""
    ranks = [bench.start(rank, 3, "allreduce", idfile, delay_ms=2500 if rank == 2 else 0)
             for idfile in [bench.new_idfile()] for rank in range(3)]
    time.sleep(0.6)
    entries = set().union(*[listeners_of(rank.pid) for rank in ranks])
    check(entries, "no listener was seen")
    check(not any(set(address) == {"0"} for address, _ in entries), f"a listener on all addresses: {entries}")
    before = rss_of(ranks[0].pid)
    generator = random.Random(3)
    for number in range(bench.scaled(600, 10000)):
        head = generator.choice((b"HetCCL", b"HETC", b"hccl", b""))
        length = generator.choice((0, 1, 2**31, 2**63, 2**64 - 1, 128))
        body = head + struct.pack("<QiQ", length, generator.choice((-1, 3, 2**31 - 1)), length) + generator.randbytes(number % 200)
        address = listener_address(generator.choice(sorted(entries)))
        with contextlib.suppress(OSError), socket.create_connection(address, 1) as visitor:
            visitor.sendall(body)
    grown = rss_of(ranks[0].pid) - before
    check(grown < 10 << 20, f"rank 0 grew by {grown} bytes")
    for result in bench.wait(ranks, 30):
        check(result.code == SUCCESS, str(result))
