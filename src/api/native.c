/* SPDX-License-Identifier: Apache-2.0 */
#include "api/native.h"

#include "api/registry.h"

ncclResult_t hetccl_native_failure(const struct hetccl_ccl_api *api, unsigned code, const char *function)
{
    if (code != HETCCL_CCL_IN_PROGRESS)
        hetccl_vendor_note(api, code, function);
    return (ncclResult_t)code;
}

ncclResult_t hetccl_native_lacks(const struct hetccl_ccl_api *api, const char *function)
{
    return hetccl_group_result(hetccl_fail(HETCCL_ERR_USAGE, "%s: %s of version code %d (%s) doesn't have it",
                                           function, api->name, api->version, api->path));
}

/* ---- children ---- */

static enum hetccl_status read_options(const struct hetccl_comm_head *parent, const ncclConfig_t *config,
                                       struct hetccl_comm_options *out)
{
    enum hetccl_status status = hetccl_options_read(config, hetccl_dialect, out);

    if (status == HETCCL_OK && config == NULL && parent != NULL)
        out->is_blocking = hetccl_comm_is_blocking((const struct hetccl_comm *)(const void *)parent);
    return status;
}

enum hetccl_status hetccl_native_child_begin(struct hetccl_native_child *child,
                                             const struct hetccl_comm_head *parent,
                                             const ncclConfig_t *config)
{
    struct hetccl_comm_options options;
    enum hetccl_status status = hetccl_pointer_check(child->handle_out, child->function, "newcomm");

    if (status != HETCCL_OK)
        return status;
    *child->handle_out = NULL;
    status = read_options(parent, config, &options);
    if (status == HETCCL_OK)
        status = hetccl_comm_alloc(&options, &child->comm);
    if (status != HETCCL_OK)
        return status;
    status = hetccl_registry_add(child->comm);
    if (status == HETCCL_OK)
        status = hetccl_comm_expect_native(child->comm, child->api, parent, &child->slot);
    if (status != HETCCL_OK) {
        (void)hetccl_registry_claim(child->comm);
        hetccl_comm_destroy(child->comm);
        return status;
    }
    *child->handle_out = hetccl_handle_of(child->comm);
    return HETCCL_OK;
}

void hetccl_native_child_undo(struct hetccl_comm *comm, ncclComm_t *handle_out)
{
    if (hetccl_registry_claim(comm))
        hetccl_comm_abort(comm);
    *handle_out = NULL;
}

ncclResult_t hetccl_native_child_end(const struct hetccl_native_child *child, unsigned code)
{
    if (code != HETCCL_CCL_SUCCESS && code != HETCCL_CCL_IN_PROGRESS)
        hetccl_native_child_undo(child->comm, child->handle_out);
    else
        hetccl_group_add_child(child->comm, child->handle_out);
    return hetccl_native_result(child->api, code, child->function);
}
