# SPDX-License-Identifier: Apache-2.0
"""What all examples share: options, the process group, checks that all ranks answer for, and the clock."""

import datetime
import hashlib
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist


def add_options(parser):
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl", help="torch's backend (default: nccl)")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="where tensors lie (default: cuda with nccl, cpu with gloo)")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds after which torch gives up on a collective")
    parser.add_argument("--lazy", action="store_true", help="let torch make its communicators at the first call")


class Job:
    """This rank in its job. Ranks of one machine may share a GPU."""

    def __init__(self, options):
        self.rank, self.size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        if "RANK" not in os.environ:
            os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29555"))
        kind = options.device or ("cuda" if options.backend == "nccl" else "cpu")
        self.device = torch.device("cpu")
        if kind == "cuda":
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
            torch.cuda.set_device(self.device)
        self.backend, self.is_cuda = options.backend, kind == "cuda"
        bound = {} if options.lazy or not self.is_cuda or options.backend != "nccl" else {"device_id": self.device}
        timeout = datetime.timedelta(seconds=options.timeout)
        dist.init_process_group(options.backend, timeout=timeout, **bound)
        # For agreeing on results and for reports, so that these don't depend on what is being tried.
        self.control = dist.new_group(backend="gloo", timeout=timeout) if options.backend != "gloo" else dist.group.WORLD

    def say(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def gather(self, value):
        """Every rank's value, by rank."""
        values = [None] * self.size
        dist.all_gather_object(values, value, group=self.control)
        return values

    def synchronize(self):
        if self.is_cuda:
            torch.cuda.synchronize(self.device)

    def close(self):
        self.synchronize()
        dist.barrier(group=self.control)
        dist.destroy_process_group()


class Checks:
    """Named checks; one is passed when it is on every rank. Rank 0 prints a line for each."""

    def __init__(self, job):
        self.job, self.n_passed, self.n_failed = job, 0, 0

    def run(self, name, function, *arguments):
        """A check that fails by raising. All ranks run it."""
        error = ""
        try:
            function(*arguments)
        except Exception as failure:  # whatever a rank meets is the check's result
            error = f"{type(failure).__name__}: {failure}".strip().splitlines()[0][:300]
        self.note(name, error)

    def note(self, name, error=""):
        """The result of a check: each rank's error, "" for none."""
        errors = [f"rank {rank}: {text}" for rank, text in enumerate(self.job.gather(error)) if text]
        self.n_passed += not errors
        self.n_failed += bool(errors)
        self.job.say(f"FAIL {name}: {'; '.join(errors)}" if errors else f"ok   {name}")

    def finish(self):
        """The last line, and the exit status."""
        self.job.say(f"{self.n_passed} passed, {self.n_failed} failed")
        self.job.close()
        sys.stdout.flush()
        return 1 if self.n_failed or not self.n_passed else 0


def same(got, expected, what="values"):
    """Raises when tensors differ in a single bit of a single value (NaN equals NaN)."""
    got, expected = got.detach().cpu(), expected.detach().cpu()
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise AssertionError(f"{what}: {tuple(got.shape)} {got.dtype}, expected {tuple(expected.shape)} {expected.dtype}")
    if got.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        got, expected = got.float(), expected.float()
    wrong = (got != expected).reshape(-1).nonzero().reshape(-1)
    if wrong.numel():
        at = int(wrong[0])
        raise AssertionError(f"{what}: {wrong.numel()} of {got.numel()} wrong, the first at {at}: "
                             f"{got.reshape(-1)[at].item()}, expected {expected.reshape(-1)[at].item()}")


def digest(tensors):
    """A hash over the bits of tensors."""
    state = hashlib.sha256()
    for tensor in tensors:
        state.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


def median_seconds(job, function, n_calls, n_repeats):
    """Median over repeats of the time a call takes when n_calls are made in a row; the slowest rank's."""
    times = []
    for _ in range(n_repeats):
        dist.barrier(group=job.control)
        job.synchronize()
        start = time.perf_counter()
        for _ in range(n_calls):
            function()
        job.synchronize()
        times.append((time.perf_counter() - start) / n_calls)
    return statistics.median(max(row) for row in zip(*job.gather(times)))
