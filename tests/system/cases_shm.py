# SPDX-License-Identifier: Apache-2.0
"""A11-A13: shared memory and containers."""

import contextlib
import os
import random
import re
import signal
import time

from bench import SUCCESS, NetNamespace, check, shm_names
from cases_address import needs_namespaces


def mount_shm(bench, options):
    bench.command("mount", "-t", "tmpfs", "-o", options, "tmpfs", "/dev/shm")


def check_full_shm(bench, what):
    """A right result, or an error with both numbers; one warning a rank that names path, needed and free bytes."""
    for env in ({}, {"HETCCL_VENDOR": "nvidia,amd"}, {"HETCCL_VENDOR": "nvidia,nvidia,amd,amd"}):
        results = bench.job(4, "allreduce", count=bench.scaled(1 << 19, 1 << 24), env={"HETCCL_DEBUG": "WARN", **env},
                            expect=None, timeout=60)
        for result in results:
            check(result.code == SUCCESS or re.search(r"/dev/shm.*\d+.*\d+", result.error), f"{what}: {result}")
            warnings = [line for line in result.stderr.splitlines() if "/dev/shm" in line and not line.startswith("ct[")]
            check(len(warnings) <= 1, f"{what}: {len(warnings)} warnings for one cause: {result.stderr}")
        said = [result for result in results if re.search(r"/dev/shm", result.stderr)]
        check(said, f"{what}: nobody says that shared memory is short: {results[0].stderr!r}")
        bench.say(f"{what}: codes {[result.code for result in results]}, links {results[0].notes.get('link')}")


def fill_up(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while True:
            os.write(fd, bytes(4096))
    os.close(fd)


@needs_namespaces
def case_A11(bench):
    """/dev/shm is too small, full, or read-only."""
    mount_shm(bench, "size=1m")
    check_full_shm(bench, "1 MiB")
    fill_up("/dev/shm/filler")
    check_full_shm(bench, "full")
    bench.command("umount", "/dev/shm")
    mount_shm(bench, "size=64m,ro")
    check_full_shm(bench, "read-only")


@needs_namespaces
def case_A12(bench):
    """Segments left behind by killed processes."""
    mount_shm(bench, "size=256m")
    generator = random.Random(12)
    for number in range(bench.scaled(24, 200)):
        env = {"HETCCL_VENDOR": "nvidia,nvidia,amd,amd"} if number % 2 else {}
        ranks = bench.start_job(4, "loop", env=env, iters=1000000)
        time.sleep(generator.uniform(0.02, 0.6))
        for rank in ranks:
            rank.signal((signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[number % 3])
        bench.wait(ranks, 10)
        left = shm_names()
        check(len(left) <= 64, f"{len(left)} names after one killed run: {sorted(left)[:5]}")
        bench.job(2, "allreduce", env={"HETCCL_VENDOR": "nvidia,amd"} if number % 2 else {})
        check(not shm_names(), f"the next run left names there: {sorted(shm_names())[:5]} of {sorted(left)[:5]}")
    # In steady state there is no name at all.
    ranks = bench.start_job(4, "latency", env={"HETCCL_VENDOR": "nvidia,nvidia,amd,amd"}, iters=100, hold_ms=1500)
    time.sleep(1.0)
    names = shm_names()
    for rank in ranks:
        rank.signal(signal.SIGKILL)
    bench.wait(ranks, 10)
    check(not names, f"names in steady state: {names}")
    # A name whose owner lives is not taken away by another job's init.
    ranks = bench.start_job(4, "loop", iters=1000000)
    for _ in range(5):
        bench.job(2, "allreduce")
    check(not any([rank.has_ended() for rank in ranks]), "another job's init broke a running one: " +
          str([str(rank.result()) for rank in ranks if rank.has_ended()]))
    for rank in ranks:
        rank.signal(signal.SIGKILL)
    bench.wait(ranks, 10)


@needs_namespaces
def case_A13(bench):
    """The same machine, but separate containers."""
    apart = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh"]
    for env in ({}, {"HETCCL_VENDOR": "nvidia,amd"}):
        for result in bench.job(2, "all", count="1,100000", env={"HETCCL_DEBUG": "INFO", **env}, prefixes=[apart, apart]):
            check(result.notes["hosts"] == "2" and result.notes["link"] == "tcp", f"not tcp: {result.notes}")
            check(re.search(r"shared memory|/dev/shm", result.stderr), f"the reason isn't logged: {result.stderr}")
    own_pids = ["unshare", "-pf", "--kill-child"]
    for result in bench.job(2, "all", count="1,100000", prefixes=[own_pids, own_pids]):
        check(result.notes["hosts"] == "1" and result.notes["link"] == "engine", f"not shared memory: {result.notes}")
    for result in bench.job(2, "all", count="1,100000", env={"HETCCL_VENDOR": "nvidia,amd"}, prefixes=[own_pids, own_pids]):
        check(result.notes["hosts"] == "1" and result.notes["link"] == "shm", f"not shared memory: {result.notes}")
    network = NetNamespace(bench)
    bench.command("ip", "link", "add", "cable0", "type", "veth", "peer", "name", "cable1")
    network.take("cable1", "eth0", "10.1.0.2/24")
    bench.command("ip", "addr", "add", "10.1.0.1/24", "dev", "cable0")
    bench.command("ip", "link", "set", "cable0", "up")
    bench.job(2, "all", count="1,100000", prefixes=[[], network.prefix])
