# SPDX-License-Identifier: Apache-2.0
"""A01-A06: addresses and settings."""

import os
import re
import socket
import subprocess
import sys
import time

from bench import INVALID_USAGE, SUCCESS, NetNamespace, check, die_with_parent, free_range, listeners_of

TWO_HOSTS = [{"HETCCL_HOST_ID": "a"}, {"HETCCL_HOST_ID": "b"}]


def needs_namespaces(function):
    function.needs_namespaces = True
    return function


def join_namespaces(bench, a, b, name, address_a, address_b):
    """One cable between two namespaces."""
    bench.command("ip", "link", "add", "cable0", "type", "veth", "peer", "name", "cable1")
    a.take("cable0", name, *address_a)
    b.take("cable1", name, *address_b)
    for host in (a, b):
        host.wait_for_carrier(name)


@needs_namespaces
def case_A01(bench):
    """A bridge with the same address on every machine."""
    hosts = [NetNamespace(bench), NetNamespace(bench)]
    for host in hosts:
        host.run("ip", "link", "add", "docker0", "type", "bridge", "mcast_snooping", "0")
        host.run("ip", "link", "set", "docker0", "addrgenmode", "none")  # no packets of the kernel's own
        host.run("ip", "addr", "add", "172.17.0.1/16", "dev", "docker0")
        host.run("ip", "link", "set", "docker0", "up")
    join_namespaces(bench, *hosts, "eth0", ["10.1.0.1/24"], ["10.1.0.2/24"])
    time.sleep(0.5)
    before = [host.packets("docker0") for host in hosts]
    for envs in (None, TWO_HOSTS):
        results = bench.job(2, "allreduce", count=100000, envs=envs, env={"HETCCL_DEBUG": "INFO"},
                            prefixes=[host.prefix for host in hosts], timeout=20)
        for result in results:
            check(result.wall_s <= bench.seconds(5), f"took too long: {result}")
            check("eth0" in result.stderr, f"the log doesn't name eth0: {result.stderr}")
    check([host.packets("docker0") for host in hosts] == before, "packets went over docker0")


LOOKOUT = r"""
import socket, sys
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
print("ready", flush=True)
while True:
    packet, where = tap.recvfrom(65536)
    if where[0] == "eth0" and packet[12:14] == b"\x08\x00":
        print(packet[34:].hex(), flush=True)
"""


@needs_namespaces
def case_A02(bench):
    """The own host name resolves to loopback, or not at all."""
    hosts = [NetNamespace(bench, "-u", "-m"), NetNamespace(bench, "-u", "-m")]
    join_namespaces(bench, *hosts, "eth0", ["10.1.0.1/24"], ["10.1.0.2/24"])
    for text in ("127.0.1.1 foo\n127.0.0.1 localhost\n", ""):
        path = os.path.join(bench.tmp, "hosts")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        for host in hosts:
            host.run("hostname", "foo")
            host.run("mount", "--bind", path, "/etc/hosts")
        lookout = subprocess.Popen([*hosts[1].prefix, sys.executable, "-c", LOOKOUT], stdout=subprocess.PIPE,
                                   preexec_fn=die_with_parent, text=True)
        bench.helpers.append(lookout)
        check(lookout.stdout.readline() == "ready\n", "no packet socket")
        bench.job(2, "allreduce", dtype="int8", count=64, envs=TWO_HOSTS, prefixes=[host.prefix for host in hosts],
                  timeout=20)
        time.sleep(0.3)
        lookout.kill()
        packets = [bytes.fromhex(line) for line in lookout.stdout.read().split()]
        check(len(packets) > 10, "nothing went between the hosts")
        for address in (socket.inet_aton("127.0.0.1"), socket.inet_aton("127.0.1.1"), b"127.0."):
            check(not any(address in packet for packet in packets), f"{address} was sent to the other host")
        for host in hosts:
            host.run("umount", "/etc/hosts")


@needs_namespaces
def case_A03(bench):
    """IPv6 link-local addresses without scope."""
    hosts = [NetNamespace(bench), NetNamespace(bench)]
    prefixes = [host.prefix for host in hosts]
    join_namespaces(bench, *hosts, "eth0", [], [])
    time.sleep(2.5)  # duplicate address detection
    results = bench.job(2, "allreduce", envs=TWO_HOSTS, prefixes=prefixes, env={"HETCCL_INIT_TIMEOUT_S": "8"}, timeout=15,
                        expect=None)
    for result in results:
        check(result.wall_s < bench.seconds(10), f"took too long: {result}")
        check(result.code == SUCCESS or "eth0" in result.error, f"fails without naming the interface: {result}")
    bench.say(f"link-local only: codes {[result.code for result in results]}")

    hosts = [NetNamespace(bench), NetNamespace(bench)]
    prefixes = [host.prefix for host in hosts]
    for number, host in enumerate(hosts):
        bench.command("ip", "link", "add", f"lone{number}", "type", "veth", "peer", "name", f"end{number}")
        host.take(f"lone{number}", "aaa0")
        NetNamespace(bench).take(f"end{number}", "end0")
    join_namespaces(bench, *hosts, "eth0", ["10.1.0.1/24"], ["10.1.0.2/24"])
    time.sleep(2.5)
    for result in bench.job(2, "allreduce", count=100000, envs=TWO_HOSTS, prefixes=prefixes, timeout=15,
                            env={"HETCCL_DEBUG": "INFO"}):
        check("eth0" in result.stderr and "aaa0" not in result.stderr, f"not only the good interface: {result.stderr}")


def case_A04(bench):
    """A wrong setting is silent."""
    for name, value, words in (("HETCCL_SOCKET_IFNAME", "eth99", ("HETCCL_SOCKET_IFNAME|NCCL_SOCKET_IFNAME", "eth99", r"\blo\b")),
                               ("HETCCL_SLOT_BYTES", "12abc", ("HETCCL_SLOT_BYTES", "12abc", "4096")),
                               ("HETCCL_DEVICE", "gpu", ("HETCCL_DEVICE", "gpu", "host")),
                               ("HETCCL_PORT_RANGE", "9-1", ("HETCCL_PORT_RANGE", "9-1", "65535")),
                               ("HETCCL_VENDOR", "intel", ("HETCCL_VENDOR", "intel", "nvidia")),
                               ("HETCCL_LINK", "pigeon", ("HETCCL_LINK", "pigeon", "tcp"))):
        (result,) = bench.job(1, "allreduce", env={name: value}, expect=INVALID_USAGE, timeout=10)
        check(result.wall_s <= bench.seconds(2), f"{name}: took {result.wall_s:.1f} s")
        for word in words:
            check(re.search(word, result.error), f"{name}={value}: no {word} in {result.error!r}")
        check(not re.search("not supported|errno", result.error), f"a later error: {result.error!r}")

    results = bench.job(2, "allreduce", env={"HETCCL_SOKET_IFNAME": "eth0", "HETCCL_DEBUG": "WARN"})
    for result in results:
        warnings = [line for line in result.stderr.splitlines() if "HETCCL_SOKET_IFNAME" in line]
        check(len(warnings) == 1, f"{len(warnings)} warnings: {result.stderr}")
        check("HETCCL_SOCKET_IFNAME" in warnings[0], f"no suggestion: {warnings[0]}")
    results = bench.job(1, "allreduce", env={"NCCL_IB_RETRY_CNT": "7", "NCCL_NVLS_ENABLE": "0", "NCCL_DEBUG": "INFO"})
    lines = [line for line in results[0].stderr.splitlines() if "NCCL_NVLS_ENABLE" in line]
    check(len(lines) == 1, f"settings that are not honoured are listed {len(lines)} times: {results[0].stderr}")


def case_A05(bench):
    """Only some ports are open."""
    ports = free_range(32)
    first, last = map(int, ports.split("-"))
    for env in ({}, {"HETCCL_LINK": "tcp", "HETCCL_VENDOR": "nvidia,amd"}, {"HETCCL_HOST_ID": "a,b,c,d,e,f"},
                {"HETCCL_VENDOR": "nvidia,amd"}):
        ranks = bench.start_job(6, "allreduce", env={"HETCCL_PORT_RANGE": ports, **env}, count=100000, hold_ms=700)
        seen = set()
        while not all([rank.has_ended() for rank in ranks]) and time.monotonic() < ranks[0].started + 30:
            for rank in ranks:
                seen |= {port for _, port in listeners_of(rank.pid)}
            time.sleep(0.02)
        for result in bench.wait(ranks, 20):
            check(result.code == SUCCESS, str(result))
        check(seen, "no listener was seen")
        check(all(first <= port <= last for port in seen), f"listeners outside of the range: {sorted(seen)}")
    ports = free_range(2)
    results = bench.job(6, "allreduce", env={"HETCCL_PORT_RANGE": ports, "HETCCL_INIT_TIMEOUT_S": "4"}, expect=None,
                        timeout=15)
    refused = [result for result in results if ports in result.error]
    check(len(refused) >= 4, "the full range isn't named: " + "; ".join(map(str, results)))
    for result in results:
        check(result.code != SUCCESS and result.wall_s <= bench.seconds(5), f"has to fail within 5 s: {result}")
    for result in refused:
        check(re.search(r"\b[26]\b|ports?", result.error), f"how many are needed isn't said: {result.error!r}")


@needs_namespaces
def case_A06(bench):
    """Several jobs on one machine, with few ports, and with the same process ids."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w", encoding="ascii") as file:
        file.write("40000 40063")
    n_right = 0
    rounds = bench.scaled(4, 50)
    for number in range(rounds):
        # In their own PID namespaces the ranks of two jobs have the same process ids.
        prefix = ["unshare", "-pf", "--kill-child"] if number % 2 == 1 else []
        jobs = [bench.start_job(4, "all", count="1000", seed=number * 10 + job, prefixes=[prefix] * 4,
                                env={"HETCCL_VENDOR": "nvidia,amd"} if job % 2 == 0 else {}) for job in range(6)]
        for job in jobs:
            results = bench.wait(job, 60)
            for result in results:
                check(result.code == SUCCESS, str(result))
            n_right += 1
    check(n_right == rounds * 6, "not all jobs ran")
