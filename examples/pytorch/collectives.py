#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every collective of torch.distributed, checked against values computed locally.

  hetccl run -- torchrun --nproc-per-node 4 collectives.py
  torchrun --nproc-per-node 4 collectives.py --backend gloo
"""

import argparse
import random
import sys
import time

import torch
import torch.distributed as dist

from job import Checks, Job, add_options, same

SIZES = (1, 17, 4099, (1 << 20) + 3)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTS = (torch.int8, torch.uint8, torch.int32, torch.int64)
NARROW = (torch.float8_e4m3fn, torch.float8_e5m2)
REDUCED = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}
GLOO_MOVES = (*FLOATS, *INTS)


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


class Trial:
    """The group that is tried, and what its ranks put in. Values are small integers: any order of adding is exact."""

    def __init__(self, job, group=None, ranks=None):
        self.job, self.group, self.device = job, group, job.device
        self.ranks = list(ranks) if ranks is not None else list(range(job.size))
        self.size, self.me = len(self.ranks), self.ranks.index(job.rank)

    def values(self, rank, n, dtype=torch.float32, salt=0):
        """What a rank of the group puts in."""
        index = torch.arange(n, dtype=torch.int64)
        mixed = (index * 7 + (rank + 1) * 13 + salt * 5 + index // 64 * 3) % 97
        if dtype == torch.bool:
            return mixed % 5 == 0
        if dtype in NARROW:
            return (mixed % 3 % 2).to(torch.float32).to(dtype)
        if dtype.is_complex:
            return torch.complex((mixed % 9 - 4).float(), (mixed % 7 - 3).float())
        return (mixed % 5 if dtype == torch.uint8 else mixed % 5 - 2).to(dtype)

    def mine(self, n, dtype=torch.float32, salt=0):
        return self.values(self.me, n, dtype, salt).to(self.device)

    def all(self, n, dtype=torch.float32, salt=0):
        return [self.values(rank, n, dtype, salt) for rank in range(self.size)]

    def poison(self, n, dtype=torch.float32):
        return torch.full((n,), 1 if dtype == torch.bool else 99, dtype=torch.float32).to(dtype).to(self.device)

    def reduced(self, op, n, dtype=torch.float32, salt=0):
        rows = [row.float() if dtype in NARROW else row for row in self.all(n, dtype, salt)]
        total = rows[0]
        for row in rows[1:]:
            total = {"sum": lambda a, b: a | b if dtype == torch.bool else a + b, "product": lambda a, b: a * b,
                     "min": torch.minimum, "max": torch.maximum}[op](total, row)
        return total.to(dtype)


# --- reductions ---

def all_reduce(trial, op, n, dtype):
    tensor = trial.mine(n, dtype)
    dist.all_reduce(tensor, REDUCED[op], group=trial.group)
    same(tensor, trial.reduced(op, n, dtype))


def all_reduce_avg(trial, n, dtype):
    """Integers whose average is one, so that no rounding comes in: every rank's times the number of ranks."""
    tensor = trial.mine(n, dtype) * trial.size
    expected = trial.reduced("sum", n, dtype)
    dist.all_reduce(tensor, dist.ReduceOp.AVG, group=trial.group)
    close(tensor, expected, dtype)


def close(got, expected, dtype):
    """Averages are rounded on the way unless the number of ranks is a power of two."""
    tolerance = {torch.float64: 1e-14, torch.float32: 1e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(got.cpu(), expected.cpu(), rtol=tolerance, atol=tolerance * 8)


def premul_sum(trial, n, dtype, is_tensor):
    factor = torch.tensor([0.5], dtype=dtype, device=trial.device) if is_tensor else 0.5
    tensor = trial.mine(n, dtype) * 2
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor), group=trial.group)
    same(tensor, trial.reduced("sum", n, dtype))
    part = torch.cat([trial.mine(n, dtype) * 2] * trial.size)
    out = trial.poison(n, dtype)
    dist.reduce_scatter_tensor(out, part, dist._make_nccl_premul_sum(factor), group=trial.group)
    same(out, trial.reduced("sum", n, dtype), "reduce_scatter")


def reduce(trial, op, n, root, dtype):
    tensor = trial.mine(n, dtype)
    dist.reduce(tensor, trial.ranks[root], REDUCED[op], group=trial.group)
    if trial.me == root:
        same(tensor, trial.reduced(op, n, dtype))


def shares(trial, n, dtype):
    """The same input cut for every rank, and this rank's share of the sum."""
    return trial.mine(n * trial.size, dtype), trial.reduced("sum", n * trial.size, dtype)[n * trial.me:n * (trial.me + 1)]


def reduce_scatter_list(trial, n, dtype):
    data, expected = shares(trial, n, dtype)
    out = trial.poison(n, dtype)
    dist.reduce_scatter(out, list(data.chunk(trial.size)), group=trial.group)
    same(out, expected)


def reduce_scatter_tensor(trial, n, dtype, is_in_place):
    data, expected = shares(trial, n, dtype)
    out = data[n * trial.me:n * (trial.me + 1)] if is_in_place else trial.poison(n, dtype)
    dist.reduce_scatter_tensor(out, data, group=trial.group)
    same(out, expected)


def reduce_scatter_avg(trial, n):
    data, expected = shares(trial, n, torch.float32)
    out = trial.poison(n)
    dist.reduce_scatter_tensor(out, data * trial.size, dist.ReduceOp.AVG, group=trial.group)
    close(out, expected, torch.float32)


def reduce_scatter_uneven(trial):
    sizes = [5 + 3 * rank for rank in range(trial.size)]
    data, total = trial.mine(sum(sizes)), trial.reduced("sum", sum(sizes))
    out = trial.poison(sizes[trial.me])
    dist.reduce_scatter(out, list(data.split(sizes)), group=trial.group)
    same(out, total.split(sizes)[trial.me])


# --- moves ---

def broadcast(trial, n, root, dtype):
    tensor = trial.mine(n, dtype)
    dist.broadcast(tensor, trial.ranks[root], group=trial.group)
    same(tensor, trial.values(root, n, dtype))


def all_gather_list(trial, n, dtype):
    parts = [trial.poison(n, dtype) for _ in range(trial.size)]
    dist.all_gather(parts, trial.mine(n, dtype), group=trial.group)
    for rank, part in enumerate(parts):
        same(part, trial.values(rank, n, dtype), f"part {rank}")


def all_gather_uneven(trial):
    parts = [trial.poison(4 + 9 * rank) for rank in range(trial.size)]
    dist.all_gather(parts, trial.mine(4 + 9 * trial.me), group=trial.group)
    for rank, part in enumerate(parts):
        same(part, trial.values(rank, 4 + 9 * rank), f"part {rank}")


def all_gather_tensor(trial, n, dtype, is_in_place):
    out = trial.poison(n * trial.size, dtype)
    part = out[n * trial.me:n * (trial.me + 1)] if is_in_place else trial.mine(n, dtype)
    if is_in_place:
        part.copy_(trial.mine(n, dtype))
    dist.all_gather_into_tensor(out, part, group=trial.group)
    same(out, torch.cat(trial.all(n, dtype)))


def all_to_all_list(trial, n, dtype):
    out = [trial.poison(n, dtype) for _ in range(trial.size)]
    dist.all_to_all(out, list(trial.mine(n * trial.size, dtype).chunk(trial.size)), group=trial.group)
    for rank, part in enumerate(out):
        same(part, trial.values(rank, n * trial.size, dtype).chunk(trial.size)[trial.me], f"from {rank}")


def all_to_all_single(trial, n, dtype):
    out = trial.poison(n * trial.size, dtype)
    dist.all_to_all_single(out, trial.mine(n * trial.size, dtype), group=trial.group)
    same(out, torch.cat([trial.values(rank, n * trial.size, dtype).chunk(trial.size)[trial.me] for rank in range(trial.size)]))


def all_to_all_uneven(trial):
    """Rank a sends 3a + 2b elements to rank b, so that rank 0 sends itself nothing."""
    sends = [[3 * a + 2 * b for b in range(trial.size)] for a in range(trial.size)]
    receives = [sends[a][trial.me] for a in range(trial.size)]
    out = trial.poison(sum(receives))
    dist.all_to_all_single(out, trial.mine(sum(sends[trial.me])), receives, sends[trial.me], group=trial.group)
    expected = [trial.values(a, sum(sends[a])).split(sends[a])[trial.me] for a in range(trial.size)]
    same(out, torch.cat(expected))


def gather(trial, n, root, dtype):
    parts = [trial.poison(n, dtype) for _ in range(trial.size)] if trial.me == root else None
    dist.gather(trial.mine(n, dtype), parts, trial.ranks[root], group=trial.group)
    for rank, part in enumerate(parts or []):
        same(part, trial.values(rank, n, dtype), f"part {rank}")


def scatter(trial, n, root, dtype):
    out = trial.poison(n, dtype)
    parts = list(trial.mine(n * trial.size, dtype).chunk(trial.size)) if trial.me == root else None
    dist.scatter(out, parts, trial.ranks[root], group=trial.group)
    same(out, trial.values(root, n * trial.size, dtype).chunk(trial.size)[trial.me])


# --- point to point ---

def neighbours(trial):
    return (trial.me + 1) % trial.size, (trial.me - 1) % trial.size


def send_recv(trial, n, dtype):
    """Round the ring: even ranks send first, but for the last of an odd ring."""
    after, before = neighbours(trial)
    out = trial.poison(n, dtype)
    steps = [lambda: dist.send(trial.mine(n, dtype), trial.ranks[after], group=trial.group),
             lambda: dist.recv(out, trial.ranks[before], group=trial.group)]
    is_first_to_send = trial.me % 2 == 0 and trial.me != trial.size - 1
    for step in steps if is_first_to_send else reversed(steps):
        step()
    same(out, trial.values(before, n, dtype))


def isend_irecv(trial, n):
    """Pairs, each direction in turn, all posted before the first wait."""
    other = trial.me ^ 1
    if other >= trial.size:
        return
    out = trial.poison(n)
    works = [lambda: dist.isend(trial.mine(n), trial.ranks[other], group=trial.group),
             lambda: dist.irecv(out, trial.ranks[other], group=trial.group)]
    for work in [start() for start in (works if trial.me < other else works[::-1])]:
        work.wait()
    same(out, trial.values(other, n))


def batch_ring(trial, n, dtype):
    after, before = neighbours(trial)
    out = trial.poison(n, dtype)
    ops = [dist.P2POp(dist.irecv, out, trial.ranks[before], group=trial.group),
           dist.P2POp(dist.isend, trial.mine(n, dtype), trial.ranks[after], group=trial.group)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(out, trial.values(before, n, dtype))


def batch_all_pairs(trial):
    """Everybody with everybody, sizes from nothing to large, in an order of each rank's own."""
    def n(a, b):
        return (0, 1, 333, 70001)[(a * 5 + b * 3) % 4]
    others = [rank for rank in range(trial.size) if rank != trial.me]
    out = {rank: trial.poison(n(rank, trial.me)) for rank in others}
    ops = [dist.P2POp(dist.irecv, out[rank], trial.ranks[rank], group=trial.group) for rank in others]
    ops += [dist.P2POp(dist.isend, trial.mine(n(trial.me, rank), salt=rank), trial.ranks[rank], group=trial.group)
            for rank in others]
    random.Random(trial.me).shuffle(ops)
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    for rank in others:
        same(out[rank], trial.values(rank, n(rank, trial.me), salt=trial.me), f"from {rank}")


# --- several at once ---

def asynchronous(trial):
    """Many in flight, waited for in another order; results are used after the wait alone."""
    tensors = [trial.mine(1000 + 311 * i, salt=i) for i in range(12)]
    works = [dist.all_reduce(tensor, group=trial.group, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    for i, tensor in enumerate(tensors):
        same(tensor * 2, trial.reduced("sum", 1000 + 311 * i, salt=i) * 2, f"number {i}")
    trial.job.synchronize()
    if not all(work.is_completed() for work in works):
        raise AssertionError("a work that was waited for isn't completed")


def mixed_kinds(trial):
    """Different collectives in flight at once on one group."""
    n = 5003
    reduced, part = trial.mine(n), trial.poison(n)
    gathered, sent = trial.poison(n * trial.size), trial.mine(n * trial.size, salt=3)
    works = [dist.all_reduce(reduced, group=trial.group, async_op=True),
             dist.all_gather_into_tensor(gathered, trial.mine(n, salt=1), group=trial.group, async_op=True),
             dist.broadcast(sent, trial.ranks[0], group=trial.group, async_op=True),
             dist.reduce_scatter_tensor(part, trial.mine(n * trial.size, salt=2), group=trial.group, async_op=True)]
    for work in works:
        work.wait()
    same(reduced, trial.reduced("sum", n), "all_reduce")
    same(gathered, torch.cat(trial.all(n, salt=1)), "all_gather")
    same(sent, trial.values(0, n * trial.size, salt=3), "broadcast")
    same(part, trial.reduced("sum", n * trial.size, salt=2).chunk(trial.size)[trial.me], "reduce_scatter")


def coalesced(trial, kind, is_async):
    """torch's coalescing manager: one call for many tensors, or (asynchronous, with a device) a group of calls."""
    sizes = (1, 777, 65537)
    device = trial.device if is_async else None
    with dist._coalescing_manager(group=trial.group, device=device, async_ops=is_async) as manager:
        if kind == "all_reduce":
            out = [trial.mine(n, salt=n) for n in sizes]
            for tensor in out:
                dist.all_reduce(tensor, group=trial.group)
        elif kind == "all_gather":
            out = [trial.poison(n * trial.size) for n in sizes]
            for n, tensor in zip(sizes, out):
                dist.all_gather_into_tensor(tensor, trial.mine(n, salt=n), group=trial.group)
        else:
            out = [trial.poison(n) for n in sizes]
            for n, tensor in zip(sizes, out):
                dist.reduce_scatter_tensor(tensor, trial.mine(n * trial.size, salt=n), group=trial.group)
    if is_async:
        manager.wait()
    expected = {"all_reduce": lambda n: trial.reduced("sum", n, salt=n), "all_gather": lambda n: torch.cat(trial.all(n, salt=n)),
                "reduce_scatter": lambda n: trial.reduced("sum", n * trial.size, salt=n).chunk(trial.size)[trial.me]}[kind]
    for n, tensor in zip(sizes, out):
        same(tensor, expected(n), f"{n} elements")


def two_streams(job, trials):
    """Several groups in turn on two streams, with work of the GPU's before and after each call."""
    streams = [torch.cuda.Stream(job.device) for _ in range(2)]
    results = []
    for turn in range(6):
        for number, trial in enumerate(trials):
            with torch.cuda.stream(streams[(turn + number) % 2]):
                tensor = trial.mine(20011, salt=turn) * 2
                dist.all_reduce(tensor, group=trial.group)
                results.append((tensor * 3, trial.reduced("sum", 20011, salt=turn) * 6, f"group {number}, turn {turn}"))
    job.synchronize()
    for result in results:
        same(*result)


def barrier(trial):
    """Nobody leaves it before the last has come."""
    late_s = 0.4
    trial.job.synchronize()
    dist.barrier(group=trial.job.control)
    start = time.monotonic()
    if trial.me == trial.size - 1:
        time.sleep(late_s)
    dist.barrier(group=trial.group)
    trial.job.synchronize()
    if time.monotonic() - start < late_s * 0.9:
        raise AssertionError("left before the last rank came")


def objects(trial):
    me = trial.job.rank
    found = [None] * trial.size
    dist.all_gather_object(found, {"rank": me, "text": "x" * (10 * me)}, group=trial.group)
    assert found == [{"rank": rank, "text": "x" * (10 * rank)} for rank in trial.ranks], f"all_gather_object: {found}"
    words = ["one", (2, 3), {"four": 5.0}] if trial.me == 0 else [None] * 3
    dist.broadcast_object_list(words, trial.ranks[0], group=trial.group)
    assert words == ["one", (2, 3), {"four": 5.0}], f"broadcast_object_list: {words}"
    root = trial.ranks[-1]
    rows = [None] * trial.size if me == root else None
    dist.gather_object(("from", me), rows, root, group=trial.group)
    assert me != root or rows == [("from", rank) for rank in trial.ranks], f"gather_object: {rows}"
    mine = [None]
    dist.scatter_object_list(mine, [("to", rank) for rank in trial.ranks] if me == root else None, root, group=trial.group)
    assert mine == [("to", me)], f"scatter_object_list: {mine}"


def objects_p2p(trial):
    if trial.me == 0:
        for rank in trial.ranks[1:]:
            dist.send_object_list(["to", rank], rank, group=trial.group)
    else:
        words = [None, None]
        dist.recv_object_list(words, trial.ranks[0], group=trial.group)
        assert words == ["to", trial.job.rank], f"recv_object_list: {words}"


# --- the list ---

def reductions(checks, trial, is_nccl, label=""):
    for dtype in (*FLOATS, *INTS):
        for op in REDUCED:
            checks.run(f"all_reduce {op} {name_of(dtype)}{label}", all_reduce, trial, op, 4099, dtype)
    for n in (0, *SIZES):
        checks.run(f"all_reduce of {n}{label}", all_reduce, trial, "sum", n, torch.bfloat16)
    for dtype in (torch.bool, torch.complex64, *NARROW) if is_nccl else ():
        checks.run(f"all_reduce sum {name_of(dtype)}{label}", all_reduce, trial, "sum", 4099, dtype)
    for dtype in FLOATS if is_nccl else ():
        checks.run(f"all_reduce avg {name_of(dtype)}{label}", all_reduce_avg, trial, 4099, dtype)
        # PyTorch hands NCCL the bytes of a float for a bfloat16 factor.
        for is_tensor in (False, True) if dtype != torch.bfloat16 else ():
            checks.run(f"premul_sum {name_of(dtype)} {'tensor' if is_tensor else 'number'}{label}", premul_sum, trial, 1003, dtype,
                       is_tensor)
    for root in range(trial.size):
        checks.run(f"reduce to {root}{label}", reduce, trial, "sum", 4099, root, torch.float32)
        checks.run(f"reduce max to {root}{label}", reduce, trial, "max", 17, root, torch.int64)
    for n in SIZES:
        checks.run(f"reduce_scatter of {n}{label}", reduce_scatter_list, trial, n, torch.float32)
        checks.run(f"reduce_scatter_tensor of {n}{label}", reduce_scatter_tensor, trial, n, torch.bfloat16, False)
    if is_nccl:
        checks.run(f"reduce_scatter_tensor in place{label}", reduce_scatter_tensor, trial, 4099, torch.float32, True)
        checks.run(f"reduce_scatter_tensor avg{label}", reduce_scatter_avg, trial, 4099)
        checks.run(f"reduce_scatter uneven{label}", reduce_scatter_uneven, trial)


def moves(checks, trial, is_nccl, label=""):
    for dtype in (*GLOO_MOVES, torch.bool, torch.complex64, *NARROW) if is_nccl else GLOO_MOVES:
        checks.run(f"broadcast {name_of(dtype)}{label}", broadcast, trial, 1003, 0, dtype)
        checks.run(f"all_gather {name_of(dtype)}{label}", all_gather_list, trial, 1003, dtype)
        checks.run(f"all_to_all_single {name_of(dtype)}{label}", all_to_all_single, trial, 1003, dtype)
    for root in range(trial.size):
        checks.run(f"broadcast from {root}{label}", broadcast, trial, 4099, root, torch.float32)
        checks.run(f"gather to {root}{label}", gather, trial, 4099, root, torch.float32)
        checks.run(f"scatter from {root}{label}", scatter, trial, 4099, root, torch.float32)
    for n in SIZES:
        checks.run(f"all_gather_into_tensor of {n}{label}", all_gather_tensor, trial, n, torch.float32, False)
        checks.run(f"all_to_all_single of {n}{label}", all_to_all_single, trial, n, torch.float32)
        if is_nccl:
            checks.run(f"all_to_all of {n}{label}", all_to_all_list, trial, n, torch.bfloat16)
    checks.run(f"all_to_all_single uneven{label}", all_to_all_uneven, trial)
    if is_nccl:
        checks.run(f"all_gather_into_tensor in place{label}", all_gather_tensor, trial, 4099, torch.float32, True)
        checks.run(f"all_gather uneven{label}", all_gather_uneven, trial)


def point_to_point(checks, trial, is_nccl, label=""):
    if trial.size == 1:
        return
    for n in SIZES:
        checks.run(f"send and recv of {n}{label}", send_recv, trial, n, torch.float32)
        checks.run(f"batch_isend_irecv round the ring, {n}{label}", batch_ring, trial, n, torch.bfloat16)
    checks.run(f"isend and irecv{label}", isend_irecv, trial, 4099)
    checks.run(f"batch_isend_irecv, all pairs{label}", batch_all_pairs, trial)


def combinations(checks, trial, is_nccl, label=""):
    checks.run(f"many in flight{label}", asynchronous, trial)
    checks.run(f"different kinds in flight{label}", mixed_kinds, trial)
    for kind in ("all_reduce", "all_gather", "reduce_scatter") if is_nccl else ():
        for is_async in (False, True):
            checks.run(f"coalesced {kind}{', async' if is_async else ''}{label}", coalesced, trial, kind, is_async)
    checks.run(f"barrier{label}", barrier, trial)
    checks.run(f"objects{label}", objects, trial)
    checks.run(f"objects from rank to rank{label}", objects_p2p, trial)


def try_group(trial, is_nccl):
    """A few of each sort, on a group that not all ranks are in."""
    all_reduce(trial, "sum", 4099, torch.float32)
    all_gather_tensor(trial, 333, torch.bfloat16, False)
    broadcast(trial, 17, trial.size - 1, torch.int64)
    reduce_scatter_tensor(trial, 1003, torch.float32, False)
    all_to_all_single(trial, 100, torch.float32)
    if trial.size > 1:
        batch_ring(trial, 70001, torch.float32)
    if is_nccl:
        coalesced(trial, "all_gather", True)


def new_groups(checks, job, is_nccl):
    """Evens, odds, both halves, all but the last, single ranks, all in reverse: made by all, used by members."""
    everybody = list(range(job.size))
    half = max(job.size // 2, 1)
    lists = {"evens": everybody[::2], "odds": everybody[1::2], "first half": everybody[:half], "second half": everybody[half:],
             "all but the last": everybody[:-1], "first and last": [0, job.size - 1], "alone": [0]}
    trials = []
    for name, ranks in lists.items():
        ranks = sorted(set(ranks))
        if not ranks:
            continue
        group = dist.new_group(ranks)
        if job.rank in ranks:
            trials.append(Trial(job, group, ranks))
        checks.run(f"new_group: {name}", lambda: try_group(trials[-1], is_nccl) if job.rank in ranks else None)
    return trials


def split_groups(checks, job):
    """Children of the world's communicator, which the backend splits."""
    half = max(job.size // 2, 1)
    parts = [part for part in (list(range(half)), list(range(half, job.size))) if part]
    mine = next(part for part in parts if job.rank in part)
    def split():
        group = dist.split_group(split_ranks=parts)
        try_group(Trial(job, group, mine), True)
        dist.destroy_process_group(group)
    for turn in range(2):
        checks.run(f"split_group into halves, turn {turn}", split)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    options = parser.parse_args()
    job = Job(options)
    is_nccl = options.backend == "nccl"
    checks, world = Checks(job), Trial(job)
    for part in (reductions, moves, point_to_point, combinations):
        part(checks, world, is_nccl)
    trials = new_groups(checks, job, is_nccl)
    if is_nccl and not options.lazy:
        split_groups(checks, job)
    if job.is_cuda and is_nccl:
        checks.run("several groups on two streams", two_streams, job, [world, *trials])
    checks.run("all_reduce after it all", all_reduce, world, "sum", 4099, torch.float32)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
