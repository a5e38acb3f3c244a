#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives captured in CUDA graphs and replayed with changed inputs, mixed with plain calls.

  hetccl run -- torchrun --nproc-per-node 4 graph.py
"""

import argparse
import sys

import torch
import torch.distributed as dist

from job import Checks, Job, add_options, same


def values(job, rank, n, turn):
    """What a rank puts in at a turn: small integers, whose sums are exact."""
    index = torch.arange(n, dtype=torch.int64)
    return ((index * 7 + rank * 13 + turn * 29) % 11 - 5).float()


class Collective:
    """A call on buffers of its own, how they are filled, and what must be in them afterwards."""

    def __init__(self, job, kind, n):
        self.job, self.kind, self.n = job, kind, n
        n_in = n * job.size if kind in ("reduce_scatter", "all_to_all") else n
        n_out = n * job.size if kind in ("all_gather", "all_to_all") else n
        self.input = torch.zeros(n_in, device=job.device)
        self.output = self.input if kind in ("all_reduce", "broadcast") else torch.zeros(n_out, device=job.device)

    def fill(self, turn):
        if self.output is not self.input:
            self.output.fill_(-77)
        self.input.copy_(values(self.job, self.job.rank, self.input.numel(), turn).to(self.job.device))

    def call(self):
        if self.kind == "all_reduce":
            dist.all_reduce(self.input)
        elif self.kind == "broadcast":
            dist.broadcast(self.input, self.job.size - 1)
        elif self.kind == "all_gather":
            dist.all_gather_into_tensor(self.output, self.input)
        elif self.kind == "reduce_scatter":
            dist.reduce_scatter_tensor(self.output, self.input)
        else:
            dist.all_to_all_single(self.output, self.input)

    def check(self, turn):
        job, ranks = self.job, range(self.job.size)
        rows = [values(job, rank, self.input.numel(), turn) for rank in ranks]
        if self.kind == "all_reduce":
            expected = sum(rows)
        elif self.kind == "broadcast":
            expected = rows[-1]
        elif self.kind == "all_gather":
            expected = torch.cat(rows)
        elif self.kind == "reduce_scatter":
            expected = sum(rows).chunk(job.size)[job.rank]
        else:
            expected = torch.cat([row.chunk(job.size)[job.rank] for row in rows])
        same(self.output, expected, f"{self.kind} of {self.n}, turn {turn}")


KINDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")


def capture(job, function, mode):
    """A graph of what the function does; it is run before, as the first call of a shape sets things up."""
    stream = torch.cuda.Stream(job.device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
    torch.cuda.current_stream().wait_stream(stream)
    job.synchronize()
    dist.barrier(group=job.control)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        function()
    return graph


def alone(job, kind, n, options):
    """One collective a graph, replayed; every second turn has a plain call of the same before it."""
    collective, plain = Collective(job, kind, n), Collective(job, kind, n + 1)
    graph = capture(job, collective.call, options.capture_mode)
    for turn in range(options.turns):
        if turn % 2:
            plain.fill(turn + 100)
            plain.call()
        collective.fill(turn)
        graph.replay()
        collective.check(turn)
        if turn % 2:
            plain.check(turn + 100)


def all_in_one(job, options):
    """All kinds in one graph with computation between; two such graphs replayed in turn, without a wait between."""
    sets = [[Collective(job, kind, n) for kind in KINDS for n in (1003, 262147)] for _ in range(2)]

    def calls(collectives):
        for collective in collectives:
            collective.input.mul_(2).mul_(0.5)
            collective.call()
            collective.output.add_(1).sub_(1)

    graphs = [capture(job, lambda collectives=collectives: calls(collectives), options.capture_mode) for collectives in sets]
    for turn in range(options.turns):
        for number, collectives in enumerate(sets):
            for collective in collectives:
                collective.fill(turn * 2 + number)
        for graph in graphs:
            graph.replay()
        for number, collectives in enumerate(sets):
            for collective in collectives:
                collective.check(turn * 2 + number)


def back_to_back(job, options):
    """Many replays in a row on accumulating data: sums over size ranks, size ** k after k."""
    data = torch.ones(65537, device=job.device)
    graph = capture(job, lambda: dist.all_reduce(data), options.capture_mode)
    n = 12 if job.size == 2 else 6
    data.fill_(1)
    for _ in range(n):
        graph.replay()
    same(data, torch.full((65537,), float(job.size ** n)))


def made_again(job, options):
    """Graphs are destroyed and made anew."""
    for turn in range(4):
        alone(job, "all_reduce", 5003 + turn, argparse.Namespace(turns=2, capture_mode=options.capture_mode))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--turns", type=int, default=8, help="replays of each graph")
    parser.add_argument("--capture-mode", choices=("global", "thread_local", "relaxed"), default="global")
    options = parser.parse_args()
    job = Job(options)
    if not job.is_cuda:
        parser.error("graphs are CUDA's: --device cuda")
    checks = Checks(job)
    for kind in KINDS:
        for n in (1, 4099, 1 << 20):
            checks.run(f"{kind} of {n}, captured", alone, job, kind, n, options)
    checks.run("all kinds in two graphs", all_in_one, job, options)
    checks.run("replays back to back", back_to_back, job, options)
    checks.run("graphs made again", made_again, job, options)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
