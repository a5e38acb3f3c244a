/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_COMM_NATIVE_H
#define HETCCL_COMM_NATIVE_H

/*
 * Native communicators: all ranks are one island of the engine ccl, and the vendor's library does everything.
 * The API looks at the head of a communicator first and, when it is native, hands the call over as it came;
 * nothing of ours runs then.
 *
 * A communicator becomes native as the last step of its init. Its children (split, shrink, grow) are made by
 * the vendor's library: their handles exist before the vendor's communicator does, and are pending until
 * then.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/memory.h"
#include "base/status.h"
#include "engine/ccl/table.h"

struct hetccl_comm;
struct hetccl_comm_options;

/* Values of hetccl_comm_head.magic; 0 after the end. */
#define HETCCL_COMM_MAGIC   0x4843434c6d6f6331ull
#define HETCCL_COMM_PENDING 0x4843434c6d6f6332ull /* a native child that isn't there yet */
#define HETCCL_COMM_NATIVE  0x4843434c6d6f6333ull /* api and vendor are set, and stay */

/* The first member of struct hetccl_comm. Stored with release order, magic last. */
struct hetccl_comm_head {
    _Atomic uint64_t magic;
    const struct hetccl_ccl_api *api;
    struct ncclComm *vendor;
};

/*
 * hetccl_comm_settle -- a pending child: native from here on when the vendor's communicator is there and
 * ready; its head, else NULL. *code_out (may be NULL): the vendor's code, in progress or why it failed.
 */
const struct hetccl_comm_head *hetccl_comm_settle(struct hetccl_comm *comm, unsigned *code_out);

/*
 * hetccl_comm_foreign -- a handle that isn't ours, as if it were the head of a native communicator: valid
 * until the calling thread asks again. NULL where no vendor's library is loaded.
 *
 * Such handles come from the vendor's library itself: it calls its own public functions, and where the
 * program had loaded it before we did, those calls end here.
 */
const struct hetccl_comm_head *hetccl_comm_foreign(const void *handle);

/* The head of a native communicator; NULL for all others of ours, also those that are gone, and for NULL. */
static inline const struct hetccl_comm_head *hetccl_comm_native(const void *handle)
{
    const struct hetccl_comm_head *head = handle;
    uint64_t magic;

    if (handle == NULL)
        return NULL;
    if (((uintptr_t)handle & (HETCCL_CACHE_LINE - 1)) != 0)
        return hetccl_comm_foreign(handle);
    magic = atomic_load_explicit(&head->magic, memory_order_acquire);
    if (__builtin_expect(magic == HETCCL_COMM_NATIVE, 1))
        return head;
    if (magic == HETCCL_COMM_PENDING)
        return hetccl_comm_settle((struct hetccl_comm *)(uintptr_t)handle, NULL);
    return magic == HETCCL_COMM_MAGIC || magic == 0 ? NULL : hetccl_comm_foreign(handle);
}

static inline bool hetccl_comm_is_pending(const struct hetccl_comm *comm)
{
    return atomic_load(&((const struct hetccl_comm_head *)(const void *)comm)->magic) == HETCCL_COMM_PENDING;
}

/*
 * hetccl_comm_expect_native -- makes a fresh communicator (hetccl_comm_alloc) the pending child of a native
 * one.
 *
 * parent    [in]  its head; NULL for a rank that grows into a communicator
 * slot_out  [out] where the vendor's library is to put its communicator; lives as long as that may happen
 * Errors: HETCCL_ERR_SYSTEM.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_comm_expect_native(struct hetccl_comm *comm,
                                                              const struct hetccl_ccl_api *api,
                                                              const struct hetccl_comm_head *parent,
                                                              struct ncclComm ***slot_out);

/*
 * hetccl_comm_end_native -- ends a native or pending communicator by the vendor's ncclCommDestroy() or, in a
 * thread of its own and within 2 s, ncclCommAbort(), and frees the handle. False, and nothing done, for
 * others.
 *
 * code_out [out] the vendor's code; may be NULL
 */
bool hetccl_comm_end_native(struct hetccl_comm *comm, bool is_abort, unsigned *code_out);

/*
 * hetccl_vendor_api -- the library of the vendor of the device that the configuration asks for: NULL on the
 * host, or where there is none. Finds and opens it at first. Errors are no business of the callers: they do
 * without.
 */
const struct hetccl_ccl_api *hetccl_vendor_api(void);

/* The same, but only if a communicator or hetccl_vendor_api() has opened it already. */
const struct hetccl_ccl_api *hetccl_vendor_api_loaded(void);

/* Keeps the last error of the vendor's library as the last error of this one. function: what failed. */
void hetccl_vendor_note(const struct hetccl_ccl_api *api, unsigned code, const char *function);

#endif
