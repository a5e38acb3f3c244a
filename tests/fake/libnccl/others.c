/* SPDX-License-Identifier: Apache-2.0 */

/* Functions that are recorded and do little or nothing else. */

#include "../libcuda/driver.h"
#include "internal.h"

/* What the fake doesn't offer. */
static unsigned refuse(unsigned code)
{
    return code != OK ? code : fake_group_note(fake_fail(INVALID_USAGE, "not offered by the fake"));
}

void ncclResetDebugInit(void)
{
    (void)fake_call("ncclResetDebugInit", NULL, "%s", "");
}

unsigned ncclCommGetUniqueId(struct ncclComm *comm, void *id_out)
{
    return refuse(fake_call("ncclCommGetUniqueId", comm, "%s, %p", fake_name(comm), (const void *)id_out));
}

unsigned ncclCommGrow(struct ncclComm *comm, int n_ranks, const void *id, int rank,
                      struct ncclComm **child_out, void *config)
{
    return refuse(fake_call("ncclCommGrow", comm, "%s, %d, %p, %d, %p, %p", fake_name(comm), n_ranks,
                            (const void *)id, rank, (const void *)child_out, (const void *)config));
}

unsigned ncclCommSuspend(struct ncclComm *comm, int flags)
{
    return fake_call("ncclCommSuspend", comm, "%s, %d", fake_name(comm), flags);
}

unsigned ncclCommResume(struct ncclComm *comm)
{
    return fake_call("ncclCommResume", comm, "%s", fake_name(comm));
}

unsigned ncclCommMemStats(struct ncclComm *comm, unsigned stat, uint64_t *value_out)
{
    unsigned code =
        fake_call("ncclCommMemStats", comm, "%s, %u, %p", fake_name(comm), stat, (const void *)value_out);

    if (code == OK)
        *value_out = 4711;
    return code;
}

unsigned ncclMemAlloc(void **memory_out, size_t bytes)
{
    unsigned code = fake_call("ncclMemAlloc", NULL, "%p, %zu", (const void *)memory_out, bytes);
    hetccl_cu_address address;

    if (code != OK)
        return code;
    if (cuMemAlloc_v2(&address, bytes) != 0)
        return fake_fail(CUDA_ERROR, "out of memory");
    *memory_out = (void *)(uintptr_t)address;
    return OK;
}

unsigned ncclMemFree(void *memory)
{
    unsigned code = fake_call("ncclMemFree", NULL, "%p", (const void *)memory);

    return code != OK || memory == NULL                              ? code
           : cuMemFree_v2((hetccl_cu_address)(uintptr_t)memory) == 0 ? OK
                                                                     : CUDA_ERROR;
}

unsigned ncclCommRegister(struct ncclComm *comm, void *buffer, size_t bytes, void **handle_out)
{
    unsigned code = fake_call("ncclCommRegister", comm, "%s, %p, %zu, %p", fake_name(comm),
                              (const void *)buffer, bytes, (const void *)handle_out);

    if (code == OK)
        *handle_out = buffer;
    return code;
}

unsigned ncclCommDeregister(struct ncclComm *comm, void *handle)
{
    return fake_call("ncclCommDeregister", comm, "%s, %p", fake_name(comm), (const void *)handle);
}

unsigned ncclCommWindowRegister(struct ncclComm *comm, void *buffer, size_t bytes,
                                struct ncclWindow_vidmem **window_out, int flags)
{
    unsigned code = fake_call("ncclCommWindowRegister", comm, "%s, %p, %zu, %p, %d", fake_name(comm),
                              (const void *)buffer, bytes, (const void *)window_out, flags);

    if (code == OK)
        *window_out = buffer;
    return code;
}

unsigned ncclCommWindowDeregister(struct ncclComm *comm, struct ncclWindow_vidmem *window)
{
    return fake_call("ncclCommWindowDeregister", comm, "%s, %p", fake_name(comm), (const void *)window);
}

unsigned ncclWinGetUserPtr(struct ncclComm *comm, struct ncclWindow_vidmem *window, void **out)
{
    return refuse(fake_call("ncclWinGetUserPtr", comm, "%s, %p, %p", fake_name(comm), (const void *)window,
                            (const void *)out));
}

unsigned ncclPutSignal(const void *local, size_t count, unsigned type, int peer,
                       struct ncclWindow_vidmem *window, size_t offset, int signal, int context,
                       unsigned flags, struct ncclComm *comm, void *stream)
{
    return refuse(fake_call("ncclPutSignal", comm, "%p, %zu, %u, %d, %p, %zu, %d, %d, %u, %s, %p",
                            (const void *)local, count, type, peer, (const void *)window, offset, signal,
                            context, flags, fake_name(comm), (const void *)stream));
}

unsigned ncclSignal(int peer, int signal, int context, unsigned flags, struct ncclComm *comm, void *stream)
{
    return refuse(fake_call("ncclSignal", comm, "%d, %d, %d, %u, %s, %p", peer, signal, context, flags,
                            fake_name(comm), (const void *)stream));
}

unsigned ncclWaitSignal(int n, void *descriptions, struct ncclComm *comm, void *stream)
{
    return refuse(fake_call("ncclWaitSignal", comm, "%d, %p, %s, %p", n, (const void *)descriptions,
                            fake_name(comm), (const void *)stream));
}

unsigned ncclCommQueryProperties(struct ncclComm *comm, void *properties)
{
    return refuse(
        fake_call("ncclCommQueryProperties", comm, "%s, %p", fake_name(comm), (const void *)properties));
}

unsigned ncclDevCommCreate(struct ncclComm *comm, const void *requirements, void *out)
{
    return refuse(fake_call("ncclDevCommCreate", comm, "%s, %p, %p", fake_name(comm),
                            (const void *)requirements, (const void *)out));
}

unsigned ncclDevCommDestroy(struct ncclComm *comm, const void *device_comm)
{
    return refuse(
        fake_call("ncclDevCommDestroy", comm, "%s, %p", fake_name(comm), (const void *)device_comm));
}

unsigned ncclGetLsaMultimemDevicePointer(struct ncclWindow_vidmem *window, size_t offset, void **out)
{
    return refuse(fake_call("ncclGetLsaMultimemDevicePointer", NULL, "%p, %zu, %p", (const void *)window,
                            offset, (const void *)out));
}

unsigned ncclGetMultimemDevicePointer(struct ncclWindow_vidmem *window, size_t offset,
                                      struct hetccl_ccl_multimem multimem, void **out)
{
    return refuse(fake_call("ncclGetMultimemDevicePointer", NULL, "%p, %zu, %p, %p", (const void *)window,
                            offset, multimem.base, (const void *)out));
}

unsigned ncclGetLsaDevicePointer(struct ncclWindow_vidmem *window, size_t offset, int lsa_rank, void **out)
{
    return refuse(fake_call("ncclGetLsaDevicePointer", NULL, "%p, %zu, %d, %p", (const void *)window, offset,
                            lsa_rank, (const void *)out));
}

unsigned ncclGetPeerDevicePointer(struct ncclWindow_vidmem *window, size_t offset, int peer, void **out)
{
    return refuse(fake_call("ncclGetPeerDevicePointer", NULL, "%p, %zu, %d, %p", (const void *)window, offset,
                            peer, (const void *)out));
}

unsigned ncclGetMultimemDeviceLeInfo(struct ncclWindow_vidmem *window, size_t offset, void *id_out,
                                     size_t *offset_out)
{
    return refuse(fake_call("ncclGetMultimemDeviceLeInfo", NULL, "%p, %zu, %p, %p", (const void *)window,
                            offset, (const void *)id_out, (const void *)offset_out));
}

unsigned ncclGetCftDeviceLeInfo(struct ncclWindow_vidmem *window, size_t offset, int peer,
                                struct hetccl_ccl_team team, void *id_out, size_t *offset_out)
{
    return refuse(fake_call("ncclGetCftDeviceLeInfo", NULL, "%p, %zu, %d, %d:%d:%d, %p, %p",
                            (const void *)window, offset, peer, team.n_ranks, team.rank, team.stride,
                            (const void *)id_out, (const void *)offset_out));
}

unsigned ncclGetPeerDeviceLeInfo(struct ncclWindow_vidmem *window, size_t offset, int peer, void *id_out,
                                 size_t *offset_out)
{
    return refuse(fake_call("ncclGetPeerDeviceLeInfo", NULL, "%p, %zu, %d, %p, %p", (const void *)window,
                            offset, peer, (const void *)id_out, (const void *)offset_out));
}

unsigned ncclLLA2ACreateRequirement(int n_blocks, int n_slots, void *handle_out, void *requirement_out)
{
    return refuse(fake_call("ncclLLA2ACreateRequirement", NULL, "%d, %d, %p, %p", n_blocks, n_slots,
                            (const void *)handle_out, (const void *)requirement_out));
}

unsigned ncclLsaBarrierCreateRequirement(struct hetccl_ccl_team team, int n_barriers, void *handle_out,
                                         void *requirement_out)
{
    return refuse(fake_call("ncclLsaBarrierCreateRequirement", NULL, "%d:%d:%d, %d, %p, %p", team.n_ranks,
                            team.rank, team.stride, n_barriers, (const void *)handle_out,
                            (const void *)requirement_out));
}

unsigned ncclGinBarrierCreateRequirement(struct ncclComm *comm, struct hetccl_ccl_team team, int n_barriers,
                                         void *handle_out, void *requirement_out)
{
    return refuse(fake_call("ncclGinBarrierCreateRequirement", comm, "%s, %d:%d:%d, %d, %p, %p",
                            fake_name(comm), team.n_ranks, team.rank, team.stride, n_barriers,
                            (const void *)handle_out, (const void *)requirement_out));
}

unsigned ncclGinInboxA2ACreateRequirement(struct hetccl_ccl_team peers, int n_blocks, int size_log2,
                                          void *handle_out, void *requirement_out)
{
    return refuse(fake_call("ncclGinInboxA2ACreateRequirement", NULL, "%d:%d:%d, %d, %d, %p, %p",
                            peers.n_ranks, peers.rank, peers.stride, n_blocks, size_log2,
                            (const void *)handle_out, (const void *)requirement_out));
}

unsigned ncclGinOutboxCreateRequirement(int n_blocks, int size_log2, void *handle_out, void *requirement_out)
{
    return refuse(fake_call("ncclGinOutboxCreateRequirement", NULL, "%d, %d, %p, %p", n_blocks, size_log2,
                            (const void *)handle_out, (const void *)requirement_out));
}

int ncclLLA2ACalcSlots(int max_elements, int max_element_bytes)
{
    (void)fake_call("ncclLLA2ACalcSlots", NULL, "%d, %d", max_elements, max_element_bytes);
    return 42;
}

struct hetccl_ccl_team ncclTeamWorld(struct ncclComm *comm)
{
    (void)fake_call("ncclTeamWorld", comm, "%s", fake_name(comm));
    return (struct hetccl_ccl_team){comm->n_ranks, comm->rank, 1};
}

struct hetccl_ccl_team ncclTeamLsa(struct ncclComm *comm)
{
    (void)fake_call("ncclTeamLsa", comm, "%s", fake_name(comm));
    return (struct hetccl_ccl_team){comm->n_ranks, comm->rank, 1};
}

struct hetccl_ccl_team ncclTeamRail(struct ncclComm *comm)
{
    (void)fake_call("ncclTeamRail", comm, "%s", fake_name(comm));
    return (struct hetccl_ccl_team){comm->n_ranks, comm->rank, 1};
}

struct hetccl_ccl_team ncclTeamCft(struct ncclComm *comm, int mode)
{
    (void)fake_call("ncclTeamCft", comm, "%s, %d", fake_name(comm), mode);
    return (struct hetccl_ccl_team){comm->n_ranks, comm->rank, 1};
}

struct hetccl_ccl_team ncclTeamCftMultimem(struct ncclComm *comm)
{
    (void)fake_call("ncclTeamCftMultimem", comm, "%s", fake_name(comm));
    return (struct hetccl_ccl_team){comm->n_ranks, comm->rank, 1};
}

int ncclTeamRankToWorld(struct ncclComm *comm, struct hetccl_ccl_team team, int rank)
{
    (void)fake_call("ncclTeamRankToWorld", comm, "%s, %d:%d:%d, %d", fake_name(comm), team.n_ranks, team.rank,
                    team.stride, rank);
    return 42;
}

int ncclTeamRankToLsa(struct ncclComm *comm, struct hetccl_ccl_team team, int rank)
{
    (void)fake_call("ncclTeamRankToLsa", comm, "%s, %d:%d:%d, %d", fake_name(comm), team.n_ranks, team.rank,
                    team.stride, rank);
    return 42;
}

unsigned ncclParamBind(struct ncclParamHandle **out, const char *key)
{
    return refuse(fake_call("ncclParamBind", NULL, "%p, %s", (const void *)out, key));
}

unsigned ncclParamGetI8(struct ncclParamHandle *handle, int8_t *out)
{
    return refuse(fake_call("ncclParamGetI8", NULL, "%p, %p", (const void *)handle, (const void *)out));
}

unsigned ncclParamGetI16(struct ncclParamHandle *handle, int16_t *out)
{
    return refuse(fake_call("ncclParamGetI16", NULL, "%p, %p", (const void *)handle, (const void *)out));
}

unsigned ncclParamGetI32(struct ncclParamHandle *handle, int32_t *out)
{
    unsigned code = fake_call("ncclParamGetI32", NULL, "%p, %p", (const void *)handle, (const void *)out);

    if (code == OK)
        *out = 7;
    return code;
}

unsigned ncclParamGetI64(struct ncclParamHandle *handle, int64_t *out)
{
    return refuse(fake_call("ncclParamGetI64", NULL, "%p, %p", (const void *)handle, (const void *)out));
}

unsigned ncclParamGetU8(struct ncclParamHandle *handle, uint8_t *out)
{
    return refuse(fake_call("ncclParamGetU8", NULL, "%p, %p", (const void *)handle, (const void *)out));
}

unsigned ncclParamGetU16(struct ncclParamHandle *handle, uint16_t *out)
{
    return refuse(fake_call("ncclParamGetU16", NULL, "%p, %p", (const void *)handle, (const void *)out));
}

unsigned ncclParamGetU32(struct ncclParamHandle *handle, uint32_t *out)
{
    return refuse(fake_call("ncclParamGetU32", NULL, "%p, %p", (const void *)handle, (const void *)out));
}

unsigned ncclParamGetU64(struct ncclParamHandle *handle, uint64_t *out)
{
    return refuse(fake_call("ncclParamGetU64", NULL, "%p, %p", (const void *)handle, (const void *)out));
}

unsigned ncclParamGetStr(struct ncclParamHandle *handle, const char **out)
{
    return refuse(fake_call("ncclParamGetStr", NULL, "%p, %p", (const void *)handle, (const void *)out));
}

unsigned ncclParamGet(struct ncclParamHandle *handle, void *out, int max_bytes, int *bytes_out)
{
    return refuse(fake_call("ncclParamGet", NULL, "%p, %p, %d, %p", (const void *)handle, (const void *)out,
                            max_bytes, (const void *)bytes_out));
}

unsigned ncclParamGetParameter(const char *key, const char **value_out, int *bytes_out)
{
    return refuse(fake_call("ncclParamGetParameter", NULL, "%s, %p, %p", key, (const void *)value_out,
                            (const void *)bytes_out));
}

unsigned ncclParamGetAllParameterKeys(const char ***keys_out, int *n_out)
{
    return refuse(fake_call("ncclParamGetAllParameterKeys", NULL, "%p, %p", (const void *)keys_out,
                            (const void *)n_out));
}

void ncclParamDumpAll(void)
{
    (void)fake_call("ncclParamDumpAll", NULL, "%s", "");
}
