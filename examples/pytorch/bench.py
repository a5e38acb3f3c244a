#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times torch's collectives over a range of sizes, and compares two backends on the same tensors.

  hetccl run -- torchrun --nproc-per-node 4 bench.py --backends nccl,gloo
  torchrun --nproc-per-node 2 bench.py --backends gloo --device cpu

A size is what nccl-tests takes: the whole vector for all_reduce, broadcast and send/recv, all ranks' parts together for the
others. algbw is size over time; time is the median over repeats of a call's time in a row of calls, on the slowest rank.
"""

import argparse
import sys

import torch
import torch.distributed as dist

from job import Job, add_options, median_seconds

# What Gloo can't do with tensors of a GPU: it fails, or ends the process (torch 2.11).
GLOO_CANT_ON_GPU = ("all_to_all", "send/recv")
NAMES = ("all_reduce", "broadcast", "all_to_all", "send/recv", "all_gather", "reduce_scatter")


def size_of(text):
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in ("K", "M", "G") else (text, "")
    return int(number) << {"": 0, "K": 10, "M": 20, "G": 30}[unit]


def words_of(size):
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def send_recv(job, group, send, receive):
    """To the next rank and from the one before, at once."""
    ops = [dist.P2POp(dist.irecv, receive, (job.rank - 1) % job.size, group=group),
           dist.P2POp(dist.isend, send, (job.rank + 1) % job.size, group=group)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


def make_call(job, group, name, size):
    """A call of that many bytes of float32."""
    n = max(size // 4, job.size)
    n -= n % job.size
    whole, part = torch.zeros(n, device=job.device), torch.zeros(n // job.size, device=job.device)
    other = torch.zeros(n if name in ("all_to_all", "send/recv") else 0, device=job.device)
    return {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "broadcast": lambda: dist.broadcast(whole, 0, group=group),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, group=group),
        "send/recv": lambda: send_recv(job, group, whole, other),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
    }[name]


def measure(job, group, backend, name, size, options):
    """Seconds of a call; None where the backend can't."""
    if backend == "gloo" and job.is_cuda and name in GLOO_CANT_ON_GPU:
        return None
    call = make_call(job, group, name, size)
    for _ in range(3):
        call()
    return median_seconds(job, call, 1 if size >= 4 << 20 else 20, options.repeats)


def measure_ceiling(job):
    """GB/s of a rank between GPU and pinned host memory, both directions at once, while all ranks do that."""
    n = 64 << 20
    device = [torch.zeros(n, dtype=torch.uint8, device=job.device) for _ in range(2)]
    host = [torch.zeros(n, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    streams = [torch.cuda.Stream(job.device) for _ in range(2)]

    def both():
        with torch.cuda.stream(streams[0]):
            host[0].copy_(device[0], non_blocking=True)
        with torch.cuda.stream(streams[1]):
            device[1].copy_(host[1], non_blocking=True)

    both()
    return n / median_seconds(job, both, 8, 9) / 1e9


def print_table(job, name, sizes, results):
    """A row a size; with two backends the ratio of the second's time to the first's."""
    backends = list(results)
    head = ["bytes", *(f"{backend} {unit}" for backend in backends for unit in ("µs", "GB/s"))]
    if len(backends) == 2:
        head.append(f"{backends[1]} / {backends[0]}")
    job.say(f"\n{name}, {job.size} ranks, float32 on {job.device.type}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for number, size in enumerate(sizes):
        row, times = [words_of(size)], [results[backend][number] for backend in backends]
        for seconds in times:
            row += ["-", "-"] if seconds is None else [f"{seconds * 1e6:.1f}", f"{size / seconds / 1e9:.3f}"]
        if len(backends) == 2:
            row.append("-" if None in times else f"{times[1] / times[0]:.1f}")
        job.say(f"| {' | '.join(row)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--backends", help="one or two, separated by a comma (default: what --backend says)")
    parser.add_argument("--sizes", default="1K,64K,1M,16M,128M", help="bytes, with K, M, G")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"of {', '.join(NAMES)}")
    options = parser.parse_args()
    backends = (options.backends or options.backend).split(",")
    if not set(backends) <= {"nccl", "gloo"} or len(backends) > 2 or set(options.only or ()) - set(NAMES):
        parser.error("--backends takes nccl, gloo or both, --only names of collectives")
    options.backend = backends[0]
    job, sizes = Job(options), [size_of(text) for text in options.sizes.split(",")]
    if job.is_cuda:
        ceiling = measure_ceiling(job)
        job.say(f"Ceiling: each rank moves {ceiling:.1f} GB/s each way between GPU and host memory while all do; two equal islands "
                f"that exchange through host memory can reach an all_reduce algbw of {ceiling * job.size / 2:.1f} GB/s.")
    groups = {backend: dist.group.WORLD if backend == job.backend else dist.new_group(backend=backend) for backend in backends}
    for name in options.only or NAMES:
        results = {backend: [measure(job, group, backend, name, size, options) for size in sizes]
                   for backend, group in groups.items()}
        print_table(job, name, sizes, results)
    job.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
