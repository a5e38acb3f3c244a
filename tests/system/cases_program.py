# SPDX-License-Identifier: Apache-2.0
"""The command `hetccl`, and a program built against NVIDIA's own header."""

import json
import os
import re
import signal
import subprocess
import time

from bench import Failure, Skip, check, die_with_parent, free_port

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


def fake_cuda(bench):
    """Settings for ranks on GPUs of the fake driver, which is slow: every GPU thread is run in its turn."""
    fake = os.path.join(bench.build, "tests", "fake")
    return {"HETCCL_CUDA_LIB": os.path.join(fake, "libcuda", "libcuda.so.1"), "HETCCL_ENGINE": "p2p",
            "FAKE_CUDA_KERNELS": os.path.join(fake, "kernels", "libfake_kernels.so"), "FAKE_CUDA_DEVICES": "2"}


def case_perf_cuda(bench):
    """hetccl perf on GPUs: right results out of device memory, also by replaying a graph; the cost of enqueuing."""
    path = os.path.join(bench.tmp, "perf.json")
    for kind, n_rows, *words in (("all", 9, "-w", "0", "-i", "1"), ("allreduce", 1, "-w", "1", "-i", "2", "--graph", "3")):
        done = bench.run_hetccl("perf", kind, "--device", "cuda", "-n", "3", "--islands", "nvidia:2,amd:1", "-b", "64", "-e", "64",
                                "--json", path, *words, env=fake_cuda(bench))
        check("# Out of bounds values : 0 OK" in done.stdout and "device cuda" in done.stdout, done.stdout)
        check(done.stderr == "", f"noise: {done.stderr}")
        with open(path, encoding="ascii") as file:
            report = json.load(file)
        check(report["device"] == "cuda" and len(report["rows"]) == n_rows, "rows are missing")
        check(all(row["out_of_place"]["enqueue_us"] > 0 for row in report["rows"]), "no time of enqueuing")
    done = bench.run_hetccl("perf", "allreduce", "-n", "2", "--graph", "2", "-e", "64", status=1)
    check("device host has no graphs" in done.stderr, done.stderr)


def case_perf_bad_input(bench):
    """Bad options: one line on stderr, exit status 2; a bad setting: the rank's error, exit status 1."""
    for words in (["perf"], ["perf", "allredoos"], ["perf", "allreduce", "-n", "0"], ["perf", "allreduce", "-b", "x"],
                  ["perf", "allreduce", "-b", "8", "-e", "4"], ["perf", "allreduce", "-f", "1"],
                  ["perf", "allreduce", "-d", "float99"], ["perf", "allreduce", "-o", "plus"],
                  ["perf", "allreduce", "-n", "2", "-r", "2"], ["perf", "allreduce", "-n", "3", "--islands", "nvidia:1,amd:1"],
                  ["perf", "allreduce", "--islands", "intel:1"], ["perf", "allreduce", "--order", "random"],
                  ["perf", "allreduce", "--hosts", "9", "-n", "2"], ["perf", "allreduce", "--link", "pigeon"],
                  ["perf", "allreduce", "--device", "abacus"], ["perf", "allreduce", "--graph", "0"],
                  ["perf", "allreduce", "--nonsense"], ["perf", "allreduce", "-n"], ["perf", "a", "b"], ["nonsense"], [],
                  ["plan"], ["plan", "allredoos"], ["plan", "allreduce", "--rank", "9"],
                  ["plan", "allreduce", "--algo", "nonsense"], ["info", "--nonsense"], ["info", "x"]):
        done = bench.run_hetccl(*words, status=2)
        check(len(done.stderr.splitlines()) == 1 and done.stderr.startswith("hetccl"), f"{words}: {done.stderr!r}")
        check(done.stdout == "", f"{words}: {done.stdout!r}")
    done = bench.run_hetccl("perf", "allreduce", "-n", "2", "-e", "1K", status=1, env={"HETCCL_SOCKET_IFNAME": "eth99"})
    check("eth99" in done.stderr and len(done.stderr.splitlines()) == 1, f"a bad setting: {done.stderr!r}")


def start_perf(bench, *words, env=None):
    return subprocess.Popen([bench.hetccl, "perf", *words], env=bench.environment(env), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)


def rank_pids(process, n):
    """The ranks that a perf has started, by rank."""
    for _ in range(500):
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            pids = [int(word) for word in file.read().split()]
        if len(pids) == n:
            return sorted(pids)
        time.sleep(0.01)
    raise Failure(f"{n} ranks were not started")


def check_perf_failure(process, timeout, *words):
    try:
        _, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as late:
        process.kill()
        raise Failure(f"hetccl perf hangs: {words}") from late
    check(process.returncode == 1, f"exit status {process.returncode}: {stderr!r}")
    for word in words:
        check(word in stderr, f"no {word!r} in {stderr!r}")


def case_perf_failure(bench):
    """A rank that dies or hangs: who and how, the rest is killed, exit status 1."""
    for number, words in ((signal.SIGKILL, ("rank 2", "Killed")), (signal.SIGUSR1, ("rank 2", "User defined"))):
        process = start_perf(bench, "allreduce", "-n", "4", "-i", "100000", "--islands", "nvidia:2,amd:2")
        pids = rank_pids(process, 4)
        time.sleep(0.5)
        os.kill(pids[2], number)
        check_perf_failure(process, bench.seconds(30), *words)
        check(not any(os.path.exists(f"/proc/{pid}") for pid in pids), "a rank was left behind")
    process = start_perf(bench, "allreduce", "-n", "3", "-i", "100000", "--timeout", "2")
    pids = rank_pids(process, 3)
    time.sleep(0.5)
    os.kill(pids[1], signal.SIGSTOP)
    check_perf_failure(process, bench.seconds(30), "no progress", "rank 1", "allreduce")
    # The parent's death is the ranks' death.
    process = start_perf(bench, "allreduce", "-n", "2", "-i", "100000")
    pids = rank_pids(process, 2)
    process.kill()
    process.communicate()
    time.sleep(0.3)
    check(not any(os.path.exists(f"/proc/{pid}/exe") for pid in pids), "a rank outlived the parent")


def case_perf_launched(bench):
    """As a rank of torchrun, of mpirun with a file, of srun with NCCL_COMM_ID."""
    launchers = (
        ({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port() - 1)}, "RANK", "WORLD_SIZE", ()),
        ({}, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("--id-file", os.path.join(bench.tmp, "perf-id"))),
        ({"NCCL_COMM_ID": f"127.0.0.1:{free_port()}"}, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ()),
    )
    for env, rank_name, size_name, words in launchers:
        ranks = [start_perf(bench, "allreduce", "--islands", "nvidia:1,amd:2", "-e", "64K", *words,
                            env={**env, rank_name: str(rank), size_name: "3"}) for rank in range(3)]
        for rank, process in enumerate(ranks):
            stdout, stderr = process.communicate(timeout=bench.seconds(60))
            check(process.returncode == 0 and stderr == "", f"{rank_name}, rank {rank}: {process.returncode} {stderr!r}")
            check((stdout == "") == (rank != 0), f"{rank_name}, rank {rank} printed {stdout[:200]!r}")
            check(rank != 0 or "3 ranks, 2 islands" in stdout, f"{rank_name}: {stdout[:300]}")
    lost = start_perf(bench, "allreduce", env={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"})
    check_perf_failure(lost, bench.seconds(10), "NCCL_COMM_ID", "--id-file")


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
