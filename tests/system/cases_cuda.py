# SPDX-License-Identifier: Apache-2.0
"""The cases of cases_semantics, cases_failure, cases_mixed and cases_shm on GPU memory, on the fake CUDA driver.

Its kernels are slow (every GPU thread is run in its turn), so that counts are small. Two pieces a layout: what cuts the
ranks into islands, and how many ranks there are.
"""

import os

from bench import check
from cases_failure import check_abort, check_death, check_disagreement, check_extra
from cases_mixed import check_hashes

# Islands of one; p2p islands of two and more; islands of different sizes; one p2p island.
SPLITS = {2: ("1", ""), 3: ("1,1,1", "2", ""), 4: ("2", "1", "")}


def gpu(bench, split="", **more):
    """Settings for ranks on GPUs of the fake driver."""
    fake = os.path.join(bench.build, "tests", "fake")
    return {"HETCCL_DEVICE": "cuda", "HETCCL_ISLAND_SPLIT": split, "HETCCL_ENGINE": "p2p", "FAKE_CUDA_MPS": "1",
            "LD_LIBRARY_PATH": os.path.join(fake, "libcuda"),
            "FAKE_CUDA_KERNELS": os.path.join(fake, "kernels", "libfake_kernels.so"), **more}


def jobs(bench, op, sizes=(2, 3, 4), env=None, **options):
    """A job for every layout of these sizes."""
    results = []
    for size in sizes:
        for split in SPLITS.get(size, ("",)):
            results.append(bench.job(size, op, env=gpu(bench, split, **(env or {})), device="cuda", **options))
    return results


def case_A17_cuda(bench):
    """Empty messages."""
    jobs(bench, "empty", sizes=(1, 2, 3), iters=3)


def case_A18_cuda(bench):
    """Everybody sends to and receives from everybody, in any order, also on several streams."""
    for variant in ("", "streams"):
        jobs(bench, "exchange", iters=2, limit=1 << 20, variant=variant)


def case_A20_cuda(bench):
    """Only these elements, and all of them."""
    jobs(bench, "guards", sizes=(1, 2, 3), limit=0)


def case_A21_cuda(bench):
    """Average of integers."""
    jobs(bench, "average", sizes=(1, 2, 3, 4))


def case_A22_cuda(bench):
    """NaN in min and max: the same bits as on the host."""
    crcs = {result.crc for results in jobs(bench, "nan", sizes=(4,)) for result in results}
    crcs |= {result.crc for result in bench.job(4, "nan")}
    check(len(crcs) == 1, f"different bits on different layouts: {crcs}")


def case_A23_cuda(bench):
    """Low-precision sums."""
    for split, variant in (("", "bound"), ("3,4", "bound")):
        results = bench.job(7, "lowsum", env=gpu(bench, split), device="cuda", variant=variant)
        check(len({result.crc for result in results}) == 1, "ranks have different bits")
        bench.say(f"split {split!r}: off by {results[0].notes['error']}")


def case_A24_cuda(bench):
    """The same bits on all ranks."""
    for results in jobs(bench, "bits", count="1,2,17,1000,30011"):
        check(len({result.crc for result in results}) == 1, f"different bits: {[result.crc for result in results]}")


def case_A16_cuda(bench):
    """Ranks disagree on count, type, operation, root, or collective."""
    for split in ("1,1,1", "2", ""):
        for variant in ("count", "one", "type", "op", "root", "kind", "ahead", "extra"):
            name = f"split {split!r}, {variant}"
            results = bench.job(4, "mismatch", env=gpu(bench, split), device="cuda", variant=variant, expect=None, timeout=20)
            if variant == "extra":
                check_extra(bench, name, results[0])
            else:
                check_disagreement(bench, name, variant, results)


def case_A14_cuda(bench):
    """A rank dies in the middle, and the others can destroy what is left."""
    for split in ("1,1,1", "2", ""):
        for op in ("allreduce", "sendrecv"):
            ranks = bench.start_job(4, op, env=gpu(bench, split), device="cuda", iters=1000000, count=3000, variant="destroy")
            bench.wait_for_mark(ranks, "busy")
            check_death(bench, ranks)


def case_A15_cuda(bench):
    """Abort does not wait for others, nor for kernels that spin."""
    for split in ("1", ""):
        for variant in ("once", "twice"):
            ranks = bench.start_job(2, "abort", env=gpu(bench, split), device="cuda", variant=variant, limit=0)
            bench.wait_for_mark(ranks, "busy")
            check_abort(bench, ranks)


def case_A25_cuda(bench):
    """Local knowledge, global decision."""
    env = gpu(bench, "2", HETCCL_DEBUG="DEBUG")
    results = bench.job(3, "all", count="1,300,9000", env=env, envs=[{}, {"HETCCL_SPIN_US": "0"}, {"FAKE_CUDA_MPS": "0"}],
                        prefixes=[[], ["taskset", "-c", "0"], []], device="cuda")
    check_hashes(bench, results)


def case_A27_cuda(bench):
    """Unequal hosts, interleaved ranks, islands of one."""
    for vendors in ("nvidia,amd,nvidia,amd,amd", "amd,nvidia,nvidia", "nvidia"):
        size = len(vendors.split(","))
        bench.job(size, "all", count="1,7,3001", root=-1, env=gpu(bench, HETCCL_VENDOR=vendors), device="cuda")


def case_A34(bench):
    """Captured calls, replayed."""
    jobs(bench, "graph", sizes=(1, 2, 3))


def case_cuda_streams(bench):
    """Order on streams, several communicators, and nothing that waits on the host."""
    jobs(bench, "streams", sizes=(2, 3))


def case_cuda_quiet(bench):
    """A repeated call launches, and allocates, registers, creates and copies nothing."""
    jobs(bench, "quiet", sizes=(1, 2, 3))
