# SPDX-License-Identifier: Apache-2.0
"""The command `hetccl`, and a program built against NVIDIA's own header."""

import json
import os
import re

from bench import Skip, check

PERF = ["--islands", "nvidia:2,amd:3", "--order", "interleaved", "-b", "0", "-w", "1", "-i", "2"]


def case_vendor_header(bench):
    """An unmodified program built against NVIDIA's nccl.h."""
    program = os.path.join(bench.build, "tests/system/vendor_header")
    if not os.path.exists(program):
        raise Skip("cuda-header")
    bench.ct = program
    for env in ({}, {"HETCCL_VENDOR": "nvidia,amd"}):
        bench.job(2, "allreduce", env=env)


def check_perf(bench, *words, most="1M"):
    path = os.path.join(bench.tmp, "perf.json")
    done = bench.run_hetccl("perf", "all", *PERF, "-e", most, "--json", path, *words)
    check("# Out of bounds values : 0 OK" in done.stdout, done.stdout)
    check(done.stderr == "", f"noise: {done.stderr}")
    with open(path, encoding="ascii") as file:
        report = json.load(file)
    rows = report["rows"]
    check({row["collective"] for row in rows} == {"allreduce", "allgather", "reducescatter", "broadcast", "reduce",
                                                  "alltoall", "gather", "scatter", "sendrecv"}, "collectives are missing")
    big = [row for row in rows if not row["small"] and row["bound_bytes"] > 0]
    check(len(big) > 20, f"only {len(big)} rows above the small-message limit")
    for row in big:
        check(row["cross_bytes"] == row["bound_bytes"], f"not at the bound: {row}")
    for row in rows:
        check(row["count"] == 0 or row["plan"], f"no plan named: {row}")
    check(any(row["count"] == 0 for row in rows) and any(row["count"] == 1 for row in rows), "no row of 0 or 1 elements")
    return rows


def case_perf(bench):
    """hetccl perf: 0 wrong, and never more than the bound, on one host and on five."""
    most = bench.scaled("1M", "8M")
    check_perf(bench, most=most)
    check_perf(bench, "--hosts", "5", "--link", "tcp", most=most)
    done = bench.run_hetccl("perf", "allreduce", "-n", "3", "-d", "all", "-o", "all", "-b", "4K", "-e", "64K", "-f", "16", "-i", "1")
    check(len(re.findall(r"premulsum", done.stdout)) >= 12, "not all types and operators")
    bench.run_hetccl("perf", "broadcast", "-n", "3", "-r", "-1", "-e", "1K", "--islands", "nvidia:1,amd:2")


def case_perf_bad_input(bench):
    """Bad options: one line on stderr, exit status 2; a dead rank: its name, exit status 1."""
    for words in (["perf"], ["perf", "allredoos"], ["perf", "allreduce", "-n", "0"], ["perf", "allreduce", "-b", "x"],
                  ["perf", "allreduce", "-b", "8", "-e", "4"], ["perf", "allreduce", "-f", "1"],
                  ["perf", "allreduce", "-d", "float99"], ["perf", "allreduce", "-o", "plus"],
                  ["perf", "allreduce", "-n", "2", "-r", "2"], ["perf", "allreduce", "-n", "3", "--islands", "nvidia:1,amd:1"],
                  ["perf", "allreduce", "--islands", "intel:1"], ["perf", "allreduce", "--order", "random"],
                  ["perf", "allreduce", "--hosts", "9", "-n", "2"], ["perf", "allreduce", "--link", "pigeon"],
                  ["perf", "allreduce", "--nonsense"], ["perf", "allreduce", "-n"], ["perf", "a", "b"], ["nonsense"], [],
                  ["plan"], ["plan", "allredoos"], ["plan", "allreduce", "--rank", "9"],
                  ["plan", "allreduce", "--algo", "nonsense"], ["info", "--nonsense"], ["info", "x"]):
        done = bench.run_hetccl(*words, status=2)
        check(len(done.stderr.splitlines()) == 1 and done.stderr.startswith("hetccl"), f"{words}: {done.stderr!r}")
        check(done.stdout == "", f"{words}: {done.stdout!r}")
    done = bench.run_hetccl("perf", "allreduce", "-n", "2", "-e", "1K", status=1, env={"HETCCL_SOCKET_IFNAME": "eth99"})
    check("eth99" in done.stderr and len(done.stderr.splitlines()) == 1, f"a bad setting: {done.stderr!r}")


def case_plan_info(bench):
    """hetccl plan and hetccl info."""
    for name in ("allreduce", "allgather", "reducescatter", "broadcast", "reduce", "alltoall", "gather", "scatter"):
        done = bench.run_hetccl("plan", name, "-n", "5", "--islands", "nvidia:2,amd:3", "--order", "interleaved", "--hosts", "2",
                                "--size", "8M", "-d", "float32", "--rank", "all", "--root", "1")
        check("cross/bound 1.00" in done.stdout, f"{name} isn't at the bound: {done.stdout[-300:]}")
        for word in ("bytes per link", "predicted", "island 1: amd", "send"):
            check(word in done.stdout, f"{name}: no {word!r}")
    done = bench.run_hetccl("info", "--config")
    for word in ("hetccl 0.1.0", "NCCL API", "host:", "address", "HETCCL_CHUNK_BYTES=1048576", "libnccl.so.2"):
        check(word in done.stdout, f"info: no {word!r} in {done.stdout}")
    done = bench.run_hetccl("info", env={"HETCCL_LINK": "pigeon", "HETCCL_SLOT_BYTES": "x"}, status=2)
    check("HETCCL_SLOT_BYTES" in done.stderr, done.stderr)
