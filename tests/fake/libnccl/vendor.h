/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAKE_NCCL_VENDOR_H
#define TESTS_FAKE_NCCL_VENDOR_H

/* The functions that the fake exports, with the prototypes of the library's table; table_check.c compares. */

#include "engine/ccl/table.h"

#pragma GCC visibility push(default)

unsigned ncclGetVersion(int *version);
unsigned ncclGetUniqueId(struct hetccl_ccl_id *id_out);
const char *ncclGetErrorString(unsigned code);
const char *ncclGetLastError(struct ncclComm *comm);
void ncclResetDebugInit(void);
unsigned ncclCommInitRankConfig(struct ncclComm **comm_out, int n_ranks, struct hetccl_ccl_id id, int rank,
                                void *config);
unsigned ncclCommSplit(struct ncclComm *comm, int color, int key, struct ncclComm **child_out, void *config);
unsigned ncclCommShrink(struct ncclComm *comm, int *excluded, int n_excluded, struct ncclComm **child_out,
                        void *config, int flags);
unsigned ncclCommGetUniqueId(struct ncclComm *comm, void *id_out);
unsigned ncclCommGrow(struct ncclComm *comm, int n_ranks, const void *id, int rank,
                      struct ncclComm **child_out, void *config);
unsigned ncclCommFinalize(struct ncclComm *comm);
unsigned ncclCommDestroy(struct ncclComm *comm);
unsigned ncclCommAbort(struct ncclComm *comm);
unsigned ncclCommRevoke(struct ncclComm *comm, int flags);
unsigned ncclCommGetAsyncError(struct ncclComm *comm, unsigned *code_out);
unsigned ncclCommCount(struct ncclComm *comm, int *out);
unsigned ncclCommCuDevice(struct ncclComm *comm, int *out);
unsigned ncclCommUserRank(struct ncclComm *comm, int *out);
unsigned ncclCommSuspend(struct ncclComm *comm, int flags);
unsigned ncclCommResume(struct ncclComm *comm);
unsigned ncclCommMemStats(struct ncclComm *comm, unsigned stat, uint64_t *value_out);
unsigned ncclMemAlloc(void **memory_out, size_t bytes);
unsigned ncclMemFree(void *memory);
unsigned ncclCommRegister(struct ncclComm *comm, void *buffer, size_t bytes, void **handle_out);
unsigned ncclCommDeregister(struct ncclComm *comm, void *handle);
unsigned ncclCommWindowRegister(struct ncclComm *comm, void *buffer, size_t bytes,
                                struct ncclWindow_vidmem **window_out, int flags);
unsigned ncclCommWindowDeregister(struct ncclComm *comm, struct ncclWindow_vidmem *window);
unsigned ncclWinGetUserPtr(struct ncclComm *comm, struct ncclWindow_vidmem *window, void **out);
unsigned ncclRedOpCreatePreMulSum(unsigned *op_out, void *scalar, unsigned type, unsigned residence,
                                  struct ncclComm *comm);
unsigned ncclRedOpDestroy(unsigned op, struct ncclComm *comm);
unsigned ncclGroupStart(void);
unsigned ncclGroupEnd(void);
unsigned ncclGroupSimulateEnd(void *info);
unsigned ncclSend(const void *send, size_t count, unsigned type, int peer, struct ncclComm *comm,
                  void *stream);
unsigned ncclRecv(void *recv, size_t count, unsigned type, int peer, struct ncclComm *comm, void *stream);
unsigned ncclBcast(void *buffer, size_t count, unsigned type, int root, struct ncclComm *comm, void *stream);
unsigned ncclAllReduce(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                       struct ncclComm *comm, void *stream);
unsigned ncclAllReduceConfig(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                             struct ncclComm *comm, void *stream, const void *config);
unsigned ncclBroadcast(const void *send, void *recv, size_t count, unsigned type, int root,
                       struct ncclComm *comm, void *stream);
unsigned ncclBroadcastConfig(const void *send, void *recv, size_t count, unsigned type, int root,
                             struct ncclComm *comm, void *stream, const void *config);
unsigned ncclReduce(const void *send, void *recv, size_t count, unsigned type, unsigned op, int root,
                    struct ncclComm *comm, void *stream);
unsigned ncclReduceConfig(const void *send, void *recv, size_t count, unsigned type, unsigned op, int root,
                          struct ncclComm *comm, void *stream, const void *config);
unsigned ncclAllGather(const void *send, void *recv, size_t count, unsigned type, struct ncclComm *comm,
                       void *stream);
unsigned ncclAllGatherConfig(const void *send, void *recv, size_t count, unsigned type, struct ncclComm *comm,
                             void *stream, const void *config);
unsigned ncclReduceScatter(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                           struct ncclComm *comm, void *stream);
unsigned ncclReduceScatterConfig(const void *send, void *recv, size_t count, unsigned type, unsigned op,
                                 struct ncclComm *comm, void *stream, const void *config);
unsigned ncclAlltoAll(const void *send, void *recv, size_t count, unsigned type, struct ncclComm *comm,
                      void *stream);
unsigned ncclAlltoAllConfig(const void *send, void *recv, size_t count, unsigned type, struct ncclComm *comm,
                            void *stream, const void *config);
unsigned ncclGather(const void *send, void *recv, size_t count, unsigned type, int root,
                    struct ncclComm *comm, void *stream);
unsigned ncclGatherConfig(const void *send, void *recv, size_t count, unsigned type, int root,
                          struct ncclComm *comm, void *stream, const void *config);
unsigned ncclScatter(const void *send, void *recv, size_t count, unsigned type, int root,
                     struct ncclComm *comm, void *stream);
unsigned ncclScatterConfig(const void *send, void *recv, size_t count, unsigned type, int root,
                           struct ncclComm *comm, void *stream, const void *config);
unsigned ncclPutSignal(const void *local, size_t count, unsigned type, int peer,
                       struct ncclWindow_vidmem *window, size_t offset, int signal, int context,
                       unsigned flags, struct ncclComm *comm, void *stream);
unsigned ncclSignal(int peer, int signal, int context, unsigned flags, struct ncclComm *comm, void *stream);
unsigned ncclWaitSignal(int n, void *descriptions, struct ncclComm *comm, void *stream);
unsigned ncclCommQueryProperties(struct ncclComm *comm, void *properties);
unsigned ncclDevCommCreate(struct ncclComm *comm, const void *requirements, void *out);
unsigned ncclDevCommDestroy(struct ncclComm *comm, const void *device_comm);
unsigned ncclGetLsaMultimemDevicePointer(struct ncclWindow_vidmem *window, size_t offset, void **out);
unsigned ncclGetMultimemDevicePointer(struct ncclWindow_vidmem *window, size_t offset,
                                      struct hetccl_ccl_multimem multimem, void **out);
unsigned ncclGetLsaDevicePointer(struct ncclWindow_vidmem *window, size_t offset, int lsa_rank, void **out);
unsigned ncclGetPeerDevicePointer(struct ncclWindow_vidmem *window, size_t offset, int peer, void **out);
unsigned ncclGetMultimemDeviceLeInfo(struct ncclWindow_vidmem *window, size_t offset, void *id_out,
                                     size_t *offset_out);
unsigned ncclGetCftDeviceLeInfo(struct ncclWindow_vidmem *window, size_t offset, int peer,
                                struct hetccl_ccl_team team, void *id_out, size_t *offset_out);
unsigned ncclGetPeerDeviceLeInfo(struct ncclWindow_vidmem *window, size_t offset, int peer, void *id_out,
                                 size_t *offset_out);
unsigned ncclLLA2ACreateRequirement(int n_blocks, int n_slots, void *handle_out, void *requirement_out);
unsigned ncclLsaBarrierCreateRequirement(struct hetccl_ccl_team team, int n_barriers, void *handle_out,
                                         void *requirement_out);
unsigned ncclGinBarrierCreateRequirement(struct ncclComm *comm, struct hetccl_ccl_team team, int n_barriers,
                                         void *handle_out, void *requirement_out);
unsigned ncclGinInboxA2ACreateRequirement(struct hetccl_ccl_team peers, int n_blocks, int size_log2,
                                          void *handle_out, void *requirement_out);
unsigned ncclGinOutboxCreateRequirement(int n_blocks, int size_log2, void *handle_out, void *requirement_out);
int ncclLLA2ACalcSlots(int max_elements, int max_element_bytes);
struct hetccl_ccl_team ncclTeamWorld(struct ncclComm *comm);
struct hetccl_ccl_team ncclTeamLsa(struct ncclComm *comm);
struct hetccl_ccl_team ncclTeamRail(struct ncclComm *comm);
struct hetccl_ccl_team ncclTeamCft(struct ncclComm *comm, int mode);
struct hetccl_ccl_team ncclTeamCftMultimem(struct ncclComm *comm);
int ncclTeamRankToWorld(struct ncclComm *comm, struct hetccl_ccl_team team, int rank);
int ncclTeamRankToLsa(struct ncclComm *comm, struct hetccl_ccl_team team, int rank);
unsigned ncclParamBind(struct ncclParamHandle **out, const char *key);
unsigned ncclParamGetI8(struct ncclParamHandle *handle, int8_t *out);
unsigned ncclParamGetI16(struct ncclParamHandle *handle, int16_t *out);
unsigned ncclParamGetI32(struct ncclParamHandle *handle, int32_t *out);
unsigned ncclParamGetI64(struct ncclParamHandle *handle, int64_t *out);
unsigned ncclParamGetU8(struct ncclParamHandle *handle, uint8_t *out);
unsigned ncclParamGetU16(struct ncclParamHandle *handle, uint16_t *out);
unsigned ncclParamGetU32(struct ncclParamHandle *handle, uint32_t *out);
unsigned ncclParamGetU64(struct ncclParamHandle *handle, uint64_t *out);
unsigned ncclParamGetStr(struct ncclParamHandle *handle, const char **out);
unsigned ncclParamGet(struct ncclParamHandle *handle, void *out, int max_bytes, int *bytes_out);
unsigned ncclParamGetParameter(const char *key, const char **value_out, int *bytes_out);
unsigned ncclParamGetAllParameterKeys(const char ***keys_out, int *n_out);
void ncclParamDumpAll(void);

const char *fake_nccl_last_call(void);
unsigned fake_nccl_calls(const char *function);
void fake_nccl_fail(const char *script);
size_t fake_nccl_live_comms(void);

#pragma GCC visibility pop

#endif
