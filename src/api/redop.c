/* SPDX-License-Identifier: Apache-2.0 */
#include "api/redop.h"

#include <string.h>

#include "api/native.h"
#include "api/registry.h"

/* The first bytes of *scalar are the element, whatever the caller's variable is: so NCCL reads it. */
static struct hetccl_scale read_scalar(const void *scalar, enum hetccl_type type)
{
    struct hetccl_scale scale = {0};

    memcpy(&scale.bits, scalar, hetccl_type_bytes(type));
    return scale;
}

/* Floats are scaled before they are added, so that an average can't overflow; integers need the exact sum. */
static struct hetccl_comm_op average(const struct hetccl_comm *comm, enum hetccl_type type)
{
    struct hetccl_comm_op op = {.red = HETCCL_SUM, .is_average = true};

    if (type > HETCCL_UINT64) {
        op.has_scale = true;
        op.scale = hetccl_scale_of_average(type, (size_t)hetccl_comm_n_ranks(comm));
    }
    return op;
}

static enum hetccl_status resolve_made(const char *function, struct hetccl_comm *comm, ncclRedOp_t handle,
                                       enum hetccl_type type, struct hetccl_comm_op *out)
{
    struct hetccl_made_op made;

    if (!hetccl_registry_find_op(comm, handle, &made))
        return hetccl_fail(
            HETCCL_ERR_ARG,
            "%s: operator %d is not known to communicator %p: destroyed, or made for another one", function,
            (int)handle, (void *)comm);
    if (made.type != type)
        return hetccl_fail(HETCCL_ERR_ARG, "%s: operator %d was made for %s, the call's type is %s", function,
                           (int)handle, hetccl_type_name(made.type), hetccl_type_name(type));
    *out = (struct hetccl_comm_op){.red = HETCCL_SUM, .has_scale = true, .scale = made.scale};
    if (made.device_scalar != NULL && hetccl_comm_is_asynchronous(comm))
        out->scale_pointer = made.device_scalar;
    else if (made.device_scalar != NULL)
        out->scale = read_scalar(made.device_scalar, type);
    return HETCCL_OK;
}

enum hetccl_status hetccl_op_resolve(const char *function, struct hetccl_comm *comm, int op,
                                     enum hetccl_type type, struct hetccl_comm_op *out)
{
    static const enum hetccl_red plain[] = {HETCCL_SUM, HETCCL_PROD, HETCCL_MAX, HETCCL_MIN};

    if (op < 0)
        return hetccl_fail(HETCCL_ERR_ARG,
                           "%s: operator %d is unknown: it takes 0 to %d, or one that was made", function, op,
                           ncclAvg);
    if (op == ncclAvg) {
        *out = average(comm, type);
        return HETCCL_OK;
    }
    if (op >= ncclNumOps)
        return resolve_made(function, comm, (ncclRedOp_t)op, type, out);
    *out = (struct hetccl_comm_op){.red = plain[op]};
    return HETCCL_OK;
}

static enum hetccl_status create(ncclRedOp_t *op, const void *scalar, ncclDataType_t datatype,
                                 ncclScalarResidence_t residence, ncclComm_t handle)
{
    static const char function[] = "ncclRedOpCreatePreMulSum";
    struct hetccl_made_op made = {.type = (enum hetccl_type)datatype};
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check_ready(handle, function, &comm);

    if (status == HETCCL_OK)
        status = hetccl_pointer_check(op, function, "op");
    if (status == HETCCL_OK)
        status = hetccl_pointer_check(scalar, function, "scalar");
    if (status != HETCCL_OK)
        return status;
    if ((unsigned)datatype >= ncclNumTypes)
        return hetccl_fail(HETCCL_ERR_ARG, "%s: type %d is unknown: it takes 0 to %d", function,
                           (int)datatype, ncclNumTypes - 1);
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
        return hetccl_fail(HETCCL_ERR_ARG, "%s: residence %d is unknown: it takes 0 or 1", function,
                           (int)residence);
    if (residence == ncclScalarHostImmediate)
        made.scale = read_scalar(scalar, made.type);
    else
        made.device_scalar = scalar;
    return hetccl_registry_add_op(comm, &made, op);
}

static enum hetccl_status destroy(ncclRedOp_t op, ncclComm_t handle)
{
    struct hetccl_comm *comm = NULL;
    enum hetccl_status status = hetccl_handle_check(handle, "ncclRedOpDestroy", &comm);

    if (status != HETCCL_OK)
        return status;
    if ((int)op >= 0 && op < ncclNumOps)
        return hetccl_fail(HETCCL_ERR_ARG, "ncclRedOpDestroy: operator %d is built in", (int)op);
    if (!hetccl_registry_remove_op(comm, op))
        return hetccl_fail(HETCCL_ERR_ARG, "ncclRedOpDestroy: operator %d is not known to communicator %p",
                           (int)op, (void *)comm);
    return HETCCL_OK;
}

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return hetccl_native_result(
            native->api,
            native->api->ncclRedOpCreatePreMulSum((unsigned *)op, scalar, (unsigned)datatype,
                                                  (unsigned)residence, native->vendor),
            "ncclRedOpCreatePreMulSum");
    return hetccl_result_of(create(op, scalar, datatype, residence, comm));
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    const struct hetccl_comm_head *native = hetccl_comm_native(comm);

    if (native != NULL)
        return hetccl_native_result(native->api, native->api->ncclRedOpDestroy((unsigned)op, native->vendor),
                                    "ncclRedOpDestroy");
    return hetccl_result_of(destroy(op, comm));
}

extern __typeof__(pncclRedOpCreatePreMulSum)
    ncclRedOpCreatePreMulSum HETCCL_ALIAS("pncclRedOpCreatePreMulSum");
extern __typeof__(pncclRedOpDestroy) ncclRedOpDestroy HETCCL_ALIAS("pncclRedOpDestroy");
