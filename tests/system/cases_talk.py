# SPDX-License-Identifier: Apache-2.0
"""A33: noise and empty errors."""

import os
import signal
import time

from bench import SUCCESS, check, free_range


def case_A33(bench):
    """Nothing is said unasked, and every error has a cause, a place and a hint."""
    for result in bench.job(3, "all", count="1,1000", env={"HETCCL_VENDOR": "nvidia,amd"}):
        bench.check_talk(result)
    failing = [bench.job(1, "allreduce", env={name: value}, expect=None)
               for name, value in (("HETCCL_SOCKET_IFNAME", "eth99"), ("HETCCL_SLOT_BYTES", "12abc"))]
    failing.append(bench.job(4, "allreduce", env={"HETCCL_PORT_RANGE": free_range(2), "HETCCL_INIT_TIMEOUT_S": "2"}, expect=None))
    failing.append(bench.job(3, "allreduce", env={"HETCCL_INIT_TIMEOUT_S": "2"}, skip_ranks=[1], expect=None))
    ranks = bench.start_job(3, "allreduce", count=100000, iters=1000000, env={"HETCCL_VENDOR": "nvidia,amd"})
    time.sleep(0.6)
    ranks[2].signal(signal.SIGKILL)
    failing.append([result for result in bench.wait(ranks, 20) if result.rank != 2])
    for results in failing:
        for result in results:
            check(result.code != SUCCESS, f"should have failed: {result}")
            bench.check_talk(result)
    bench.job(2, "allreduce", env={"HETCCL_SOKET_IFNAME": "eth0"})

    # A debug file takes all, from the first line on.
    path = os.path.join(bench.tmp, "log.%h.%p")
    for result in bench.job(2, "allreduce", env={"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": path, "HETCCL_SOKET_IFNAME": "x"}):
        bench.check_talk(result)
    logs = [name for name in os.listdir(bench.tmp) if name.startswith("log.")]
    check(len(logs) == 2, f"log files {logs}")
    for name in logs:
        with open(os.path.join(bench.tmp, name), encoding="utf-8") as file:
            text = file.read()
        check("HETCCL_SOKET_IFNAME" in text, f"the first warning isn't in the file: {text!r}")
