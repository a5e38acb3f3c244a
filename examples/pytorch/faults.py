#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that die and ranks that don't come: the others must hear of it, and must be able to go on.

  hetccl run -- python faults.py --ranks 4

Starts its ranks itself, as torchrun would end all of them with the first. Cases:
  kill      a rank is killed in the middle of an all_reduce; the others get an error within 10 s and leave cleanly
  watchdog  the same with torch's default settings: its watchdog ends the others
  stuck     a rank doesn't call; the others abort within 2 s, all make a new process group, and that works
"""

import argparse
import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from job import same

ERROR_S, ABORT_S, WATCHDOG_S, CASE_S = 10.0, 2.0, 30.0, 90.0
N_LARGE = 32 << 20
# Exit status of a rank that found something wrong itself; what is said on stdout tells more.
EXIT_WRONG = 9


# --- what a rank does ---

def report(**facts):
    print(json.dumps({"at": time.monotonic(), **facts}), flush=True)


def start(options, port_offset=0):
    """This rank, tensor and all, after a first call that works."""
    kind = options.device or ("cuda" if options.backend == "nccl" else "cpu")
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cpu")
    if kind == "cuda":
        device = torch.device("cuda", rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    port = int(os.environ["MASTER_PORT"]) + port_offset
    dist.init_process_group(options.backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=60))
    tensor = torch.full((1000,), float(rank), device=device)
    dist.all_reduce(tensor)
    same(tensor, torch.full((1000,), size * (size - 1) / 2))
    return rank, size, device


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def rank_kill(options):
    rank, size, device = start(options)
    data = torch.ones(N_LARGE, device=device)
    for turn in range(1000):
        work = dist.all_reduce(data, dist.ReduceOp.MAX, async_op=True)
        if rank == size - 1 and turn == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            # With a time limit torch polls the work, and the communicator's asynchronous error with it.
            work.wait(datetime.timedelta(seconds=60))
            synchronize(device)
        except Exception as error:
            report(error=f"{type(error).__name__}: {error}"[:2000])
            break
    else:
        return EXIT_WRONG
    before = time.monotonic()
    abort(options)
    report(abort_s=time.monotonic() - before)
    return 0


def rank_watchdog(options):
    rank, size, device = start(options)
    data = torch.ones(N_LARGE, device=device)
    for turn in range(1000):
        dist.all_reduce(data, dist.ReduceOp.MAX)
        if rank == size - 1 and turn == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        synchronize(device)
    return EXIT_WRONG


def rank_stuck(options):
    rank, size, device = start(options)
    works = []
    if rank != size - 1:
        works = [dist.all_reduce(torch.ones(n, device=device), async_op=True) for n in (1000, N_LARGE)]
    time.sleep(1.0)
    if any(work.is_completed() for work in works):
        return EXIT_WRONG
    before = time.monotonic()
    abort(options)
    synchronize(device)
    report(abort_s=time.monotonic() - before)
    start(options, port_offset=1)
    report(again=True)
    dist.destroy_process_group()
    return 0


def abort(options):
    if options.backend == "gloo":
        dist.destroy_process_group()
    else:
        distributed_c10d._abort_process_group()


# --- the parent ---

class Rank:
    def __init__(self, options, case, rank, port):
        self.rank, self.ended = rank, None
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        env = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(options.ranks),
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        if case != "watchdog":
            env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
        command = [sys.executable, os.path.abspath(__file__), "--child", case, "--backend", options.backend]
        if options.device:
            command += ["--device", options.device]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err)

    def has_ended(self):
        if self.ended is None and self.process.poll() is not None:
            self.ended = time.monotonic()
        return self.ended is not None

    def facts(self):
        """All that the rank reported, in one dictionary; "at" is when it said "error"."""
        self.out.seek(0)
        found = {}
        for line in self.out.read().decode(errors="replace").splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                found.update({"error_at": row["at"]} if "error" in row else {}, **row)
        return found

    def last_words(self):
        self.err.seek(0)
        lines = self.err.read().decode(errors="replace").strip().splitlines()
        return f"rank {self.rank}, exit status {self.process.returncode}: " + " | ".join(lines[-3:])[-600:]


def free_port():
    """A port that is free, as is the next."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            try:
                two.bind(("127.0.0.1", one.getsockname()[1] + 1))
            except OSError:
                continue
            return one.getsockname()[1]


def run_ranks(options, case):
    """The ranks when all have ended; those that haven't in time are killed and are an error."""
    port = free_port()
    ranks = [Rank(options, case, rank, port) for rank in range(options.ranks)]
    deadline = time.monotonic() + CASE_S
    while not all([rank.has_ended() for rank in ranks]) and time.monotonic() < deadline:
        time.sleep(0.01)
    late = [rank for rank in ranks if not rank.has_ended()]
    for rank in late:
        rank.process.kill()
        rank.process.wait()
    if late:
        raise AssertionError(f"hang, killed after {CASE_S:.0f} s: " + "; ".join(rank.last_words() for rank in late))
    return ranks


def expect(condition, rank, text):
    if not condition:
        raise AssertionError(f"{text}; {rank.last_words()}")


def check_kill(options):
    *others, victim = run_ranks(options, "kill")
    expect(victim.process.returncode == -signal.SIGKILL, victim, "the victim ended otherwise")
    for rank in others:
        facts = rank.facts()
        expect("error" in facts, rank, "no error")
        expect(facts["error_at"] - victim.ended < ERROR_S, rank, f"heard after {facts['error_at'] - victim.ended:.1f} s")
        expect(facts.get("abort_s", 99) < ABORT_S, rank, f"abort took {facts.get('abort_s')} s")
        expect(rank.process.returncode == 0, rank, "didn't leave cleanly")
    slowest = max(rank.facts()["error_at"] - victim.ended for rank in others)
    return f"the last heard after {slowest:.2f} s: {others[0].facts()['error'][:160]}"


def check_watchdog(options):
    *others, victim = run_ranks(options, "watchdog")
    expect(victim.process.returncode == -signal.SIGKILL, victim, "the victim ended otherwise")
    for rank in others:
        expect(rank.process.returncode not in (0, EXIT_WRONG), rank, "wasn't ended")
        expect(rank.ended - victim.ended < WATCHDOG_S, rank, f"ended after {rank.ended - victim.ended:.1f} s")
    return f"the last ended after {max(rank.ended for rank in others) - victim.ended:.1f} s"


def check_stuck(options):
    ranks = run_ranks(options, "stuck")
    for rank in ranks:
        facts = rank.facts()
        expect(facts.get("abort_s", 99) < ABORT_S, rank, f"abort took {facts.get('abort_s')} s")
        expect(facts.get("again") and rank.process.returncode == 0, rank, "no new process group")
    return f"the slowest abort took {max(rank.facts()['abort_s'] for rank in ranks):.2f} s"


CASES = {"kill": (rank_kill, check_kill), "watchdog": (rank_watchdog, check_watchdog), "stuck": (rank_stuck, check_stuck)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", metavar="case", help="kill, watchdog, stuck (default: all that the backend can)")
    options = parser.parse_args()
    if options.child:
        return CASES[options.child][0](options)
    failed = 0
    # Gloo has neither a watchdog nor an abort.
    cases = options.cases or (list(CASES) if options.backend == "nccl" else ["kill"])
    if set(cases) - set(CASES):
        parser.error("cases are kill, watchdog, stuck")
    for case in cases:
        try:
            print(f"ok   {case}: {CASES[case][1](options)}", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"FAIL {case}: {error}", flush=True)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
