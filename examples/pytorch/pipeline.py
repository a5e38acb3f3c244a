#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pipeline of two stages: activations go forward and gradients back with send and recv, in micro-batches.

  hetccl run -- torchrun --nproc-per-node 2 pipeline.py
  hetccl run -- torchrun --nproc-per-node 4 pipeline.py       two pipelines, their stages' gradients summed

The losses must be those of the whole model on one rank, which rank 0 computes afterwards.
"""

import argparse
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from job import Checks, Job, add_options

WIDTH, CLASSES = 256, 8


def make_stages(seed):
    """Both halves of the model, the same on all ranks."""
    torch.manual_seed(seed)
    layers = [nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    return nn.Sequential(*layers), nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES))


class Data:
    """Batches that all ranks can compute: inputs, and classes that a fixed matrix gives them."""

    def __init__(self, options):
        self.options = options
        self.random = torch.Generator().manual_seed(options.seed)
        self.teacher = torch.randn(WIDTH, CLASSES, generator=self.random)

    def next(self):
        x = torch.randn(self.options.batch, WIDTH, generator=self.random)
        return x, (x @ self.teacher).argmax(1)


class Pipeline:
    """This rank's stage. Ranks of the first half are stage 0; rank r of it and rank r + size / 2 are one pipeline."""

    def __init__(self, options, job):
        self.options, self.job = options, job
        self.n_pipelines = job.size // 2
        self.stage, self.pipeline = divmod(job.rank, self.n_pipelines)
        self.other = self.pipeline + (1 - self.stage) * self.n_pipelines
        groups = [dist.new_group(list(range(stage * self.n_pipelines, (stage + 1) * self.n_pipelines))) for stage in (0, 1)]
        self.group = groups[self.stage]
        self.model = make_stages(options.seed)[self.stage].to(job.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=options.rate, momentum=0.9)
        self.n_rows = options.batch // self.n_pipelines // options.micro

    def micro_batches(self, tensor):
        return [part.to(self.job.device) for part in tensor.chunk(self.n_pipelines)[self.pipeline].chunk(self.options.micro)]

    def first_stage(self, x):
        """All forward passes, then all backward passes as their gradients come."""
        outputs, works = [], []
        for part in self.micro_batches(x):
            outputs.append(self.model(part))
            works.append(dist.isend(outputs[-1].detach(), self.other))
        for output in outputs:
            gradient = torch.empty_like(output)
            dist.recv(gradient, self.other)
            output.backward(gradient)
        for work in works:
            work.wait()
        return 0.0

    def last_stage(self, y):
        inputs, losses = [], []
        for classes in self.micro_batches(y):
            received = torch.empty(self.n_rows, WIDTH, device=self.job.device)
            dist.recv(received, self.other)
            inputs.append(received.requires_grad_())
            losses.append(functional.cross_entropy(self.model(received), classes) / self.options.micro)
        for received, loss in zip(inputs, losses):
            loss.backward()
            dist.send(received.grad, self.other)
        return sum(loss.item() for loss in losses)

    def step(self, x, y):
        """The loss, on ranks of the last stage."""
        loss = self.first_stage(x) if self.stage == 0 else self.last_stage(y)
        if self.n_pipelines > 1:
            for parameter in self.model.parameters():
                dist.all_reduce(parameter.grad, group=self.group)
                parameter.grad /= self.n_pipelines
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


def run_alone(options, device):
    """Losses of the whole model on one rank."""
    data, model = Data(options), nn.Sequential(*make_stages(options.seed)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate, momentum=0.9)
    losses = []
    for _ in range(options.steps):
        x, y = data.next()
        loss = functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def run_pipeline(options, job):
    """Losses over all pipelines, on every rank."""
    data, pipeline, losses = Data(options), Pipeline(options, job), []
    for number in range(options.steps):
        loss = pipeline.step(*data.next())
        losses.append(sum(job.gather(loss)) / pipeline.n_pipelines)
        if number % 10 == 0:
            job.say(f"step {number}: loss {losses[-1]:.5f}")
    return losses


def check_losses(losses, expected):
    distance, step = max((abs(a - b), step) for step, (a, b) in enumerate(zip(losses, expected)))
    if not distance <= 2e-3:
        raise AssertionError(f"step {step}: {losses[step]:.6f}, on one rank {expected[step]:.6f}")
    if not losses[-1] < losses[0] - 0.3:
        raise AssertionError(f"it doesn't learn: {losses[0]:.4f} to {losses[-1]:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=512, help="rows in a batch, over all pipelines")
    parser.add_argument("--micro", type=int, default=4, help="micro-batches in a pipeline's part of a batch")
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    job = Job(options)
    if job.size % 2 != 0 or options.batch % (job.size // 2 * options.micro) != 0:
        parser.error("an even number of ranks, and a batch that they and the micro-batches divide")
    checks = Checks(job)
    losses = []
    checks.run(f"{job.size // 2} pipelines of two stages run", lambda: losses.extend(run_pipeline(options, job)))
    checks.run("losses as on one rank", lambda: check_losses(losses, run_alone(options, job.device)) if job.rank == 0 else None)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
