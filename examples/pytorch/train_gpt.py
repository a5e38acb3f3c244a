#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT (31.9 M parameters, bf16) on the bytes of a text, with DDP, FSDP2 or ZeRO-1.

  hetccl run -- torchrun --nproc-per-node 4 train_gpt.py --mode ddp
  torchrun --nproc-per-node 4 train_gpt.py --mode ddp --backend gloo --device cuda
  python train_gpt.py --mode plain --losses one-rank.txt                                the same batches on one rank
  hetccl run -- torchrun --nproc-per-node 4 train_gpt.py --compare one-rank.txt

--batch is the batch of all ranks together: the losses don't depend on the number of ranks but for rounding.
"""

import argparse
import contextlib
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from job import Checks, Job, add_options, digest, median_seconds

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "licences.txt")


class Block(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, self.n_heads, width // self.n_heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A decoder over bytes."""

    def __init__(self, options):
        super().__init__()
        self.tokens = nn.Embedding(256, options.width)
        self.places = nn.Embedding(options.length, options.width)
        self.blocks = nn.ModuleList(Block(options.width, options.heads) for _ in range(options.layers))
        self.norm, self.head = nn.LayerNorm(options.width), nn.Linear(options.width, 256)

    def forward(self, x):
        h = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


class Batches:
    """The same windows of the text for any number of ranks; each takes its share of a batch."""

    def __init__(self, options, job):
        with open(options.text, "rb") as file:
            self.text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
        self.random = torch.Generator().manual_seed(options.seed)
        self.n, self.length, self.job = options.batch, options.length, job
        self.share = slice(self.n * job.rank // job.size, self.n * (job.rank + 1) // job.size)

    def next(self):
        starts = torch.randint(len(self.text) - self.length - 1, (self.n,), generator=self.random)[self.share]
        windows = torch.stack([self.text[start:start + self.length + 1] for start in starts.tolist()]).to(self.job.device)
        return windows[:, :-1], windows[:, 1:]


class Training:
    """Model and optimizer of a mode."""

    def __init__(self, options, job):
        self.options, self.job = options, job
        torch.manual_seed(options.seed)
        self.plain = GPT(options).to(job.device)
        self.n_parameters = sum(parameter.numel() for parameter in self.plain.parameters())
        self.batches = Batches(options, job)
        self.model = self.plain
        if options.mode == "fsdp2":
            self.shard()
        elif options.mode != "plain":
            self.model = DistributedDataParallel(self.plain, device_ids=[job.device.index] if job.is_cuda else None,
                                                 gradient_as_bucket_view=True)
        self.optimizer = self.make_optimizer()

    def shard(self):
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in self.plain.blocks:
            fully_shard(block, mp_policy=policy)
        fully_shard(self.plain, mp_policy=policy)

    def make_optimizer(self):
        settings = {"lr": self.options.rate, "betas": (0.9, 0.95), "weight_decay": 0.1}
        if self.options.mode == "zero1":
            from torch.distributed.optim import ZeroRedundancyOptimizer
            return ZeroRedundancyOptimizer(self.model.parameters(), torch.optim.AdamW, parameters_as_bucket_view=True, **settings)
        return torch.optim.AdamW(self.model.parameters(), **settings)

    def loss_of_next(self):
        x, y = self.batches.next()
        # FSDP2 casts by itself; the others keep float32 parameters and compute in bf16.
        is_cast = self.options.mode != "fsdp2"
        with torch.autocast(self.job.device.type, torch.bfloat16) if is_cast else contextlib.nullcontext():
            logits = self.model(x)
        return functional.cross_entropy(logits.float().flatten(0, 1), y.flatten())

    def step(self):
        """One step; this rank's loss, still on the device."""
        loss = self.loss_of_next()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def step_alone(self):
        """A step without the exchange of gradients."""
        with self.model.no_sync():
            return self.step()

    def run(self):
        """Losses (means over all ranks) and seconds of every step."""
        losses, seconds = [], []
        for number in range(self.options.steps):
            self.job.synchronize()
            start = time.perf_counter()
            loss = self.step()
            self.job.synchronize()
            seconds.append(time.perf_counter() - start)
            losses.append(statistics.fmean(self.job.gather(loss.item())))
            if number % 10 == 0 or number + 1 == self.options.steps:
                self.job.say(f"step {number}: loss {losses[-1]:.5f}")
        return losses, seconds

    def parameters(self):
        """All parameters as every rank has them; sharded ones are put together."""
        for parameter in self.model.parameters():
            yield parameter.full_tensor() if self.options.mode == "fsdp2" else parameter


def check_equal(job, training):
    digests = job.gather(digest(training.parameters()))
    if len(set(digests)) != 1:
        raise AssertionError(f"parameters differ between ranks: {[text[:8] for text in digests]}")


def check_learned(losses):
    if not losses[-1] < losses[0] - 0.5:
        raise AssertionError(f"the loss went from {losses[0]:.4f} to {losses[-1]:.4f} only")


def check_like(losses, path, tolerance):
    with open(path, encoding="ascii") as file:
        others = [float(line) for line in file]
    if len(others) != len(losses):
        raise AssertionError(f"{len(losses)} losses, {path} has {len(others)}")
    distance, step = max((abs(a - b), step) for step, (a, b) in enumerate(zip(losses, others)))
    if not distance <= tolerance:
        raise AssertionError(f"step {step} is {distance:.4f} off {path}: {losses[step]:.5f}, {others[step]:.5f}")
    return distance


def report_times(job, training, seconds, options):
    """Median step, and the share of it that waits for communication (not hidden behind the backward pass)."""
    step_s = statistics.median(max(row) for row in zip(*job.gather(seconds[len(seconds) // 4:])))
    text = f"step {step_s * 1e3:.2f} ms"
    if options.mode == "ddp" and job.size > 1:
        with_s = median_seconds(job, training.step, 1, options.timing_steps)
        without_s = median_seconds(job, training.step_alone, 1, options.timing_steps)
        text += (f"; without exchange {without_s * 1e3:.2f} ms, exposed communication "
                 f"{max(with_s - without_s, 0) / with_s * 100:.1f} % of {with_s * 1e3:.2f} ms")
    job.say(f"# {options.mode}, {options.backend}, {job.size} ranks: {text}")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--mode", choices=("plain", "ddp", "fsdp2", "zero1"), default="ddp", help="plain: one rank")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=16, help="windows in a batch, over all ranks")
    parser.add_argument("--length", type=int, default=256, help="bytes in a window")
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", default=TEXT)
    parser.add_argument("--timing-steps", type=int, default=10, help="steps of each kind for the share of communication")
    parser.add_argument("--losses", help="file for the losses, one a line")
    parser.add_argument("--compare", help="such a file of another run")
    parser.add_argument("--tolerance", type=float, default=0.05, help="how far a loss may be off")
    options = parser.parse_args()
    if options.mode == "plain" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        parser.error("--mode plain is for one rank")
    if options.batch % int(os.environ.get("WORLD_SIZE", "1")) != 0:
        parser.error("--batch must be a multiple of the number of ranks")
    return options


def main():
    options = read_options()
    if options.mode == "plain":
        options.backend, options.device = "gloo", options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    job = Job(options)
    checks, training = Checks(job), Training(options, job)
    job.say(f"{training.n_parameters / 1e6:.1f} M parameters, {options.mode}, {options.backend}, {job.size} ranks")
    losses, seconds = training.run()
    checks.run("all ranks have the same parameters", check_equal, job, training)
    checks.run("it learns", check_learned, losses)
    if options.compare:
        checks.run(f"losses as in {options.compare}", check_like, losses, options.compare, options.tolerance)
    if options.losses and job.rank == 0:
        with open(options.losses, "w", encoding="ascii") as file:
            file.writelines(f"{loss:.6f}\n" for loss in losses)
    report_times(job, training, seconds, options)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
