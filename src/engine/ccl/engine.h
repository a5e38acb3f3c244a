/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_ENGINE_CCL_ENGINE_H
#define HETCCL_ENGINE_CCL_ENGINE_H

/*
 * Engine ccl: a GPU island's operations are calls of the vendor's library on a sub-communicator of its ranks,
 * enqueued on a stream (enqueue of struct hetccl_engine_ops; start and progress refuse).
 */

#include "engine/ccl/table.h"
#include "engine/engine.h"

/*
 * hetccl_engine_ccl_create -- an engine over a communicator of the vendor's, which belongs to it from here
 * on, failure included: destroy destroys or, with must_abort, aborts it, and waits at most 2 s for that.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_engine_ccl_create(const struct hetccl_ccl_api *api,
                                                             struct ncclComm *vendor, uint32_t island_rank,
                                                             uint32_t n_ranks, struct hetccl_engine **out);

#endif
