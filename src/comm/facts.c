/* SPDX-License-Identifier: Apache-2.0 */
/* What each rank says of itself when a communicator is made, and whether the ranks' settings fit together. */
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "comm/internal.h"

/* crypto_generichash has a smallest output of 16 bytes; 64 bits of it are enough to tell hosts apart. */
static uint64_t hash_texts(const char *a, const char *b)
{
    uint8_t digest[crypto_generichash_BYTES_MIN];
    crypto_generichash_state state;
    uint64_t hash;

    crypto_generichash_init(&state, NULL, 0, sizeof(digest));
    crypto_generichash_update(&state, (const unsigned char *)a, strlen(a) + 1);
    crypto_generichash_update(&state, (const unsigned char *)b, strlen(b) + 1);
    crypto_generichash_final(&state, digest, sizeof(digest));
    memcpy(&hash, digest, sizeof(hash));
    return hash;
}

static void read_boot_id(char out[64])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, 63) : -1;

    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
}

static int default_vendor(const struct hetccl_comm *comm)
{
    if (strcmp(comm->device->ops->name, "cuda") == 0)
        return HETCCL_VENDOR_NVIDIA;
    return strcmp(comm->device->ops->name, "hip") == 0 ? HETCCL_VENDOR_AMD : HETCCL_VENDOR_CPU;
}

static enum hetccl_status read_vendor(const struct hetccl_comm *comm, uint8_t *out)
{
    char name[HETCCL_CONFIG_TEXT_BYTES];
    int vendor;

    hetccl_config_list_entry(comm->config.vendor, comm->rank, name);
    vendor = name[0] == '\0' ? default_vendor(comm) : (int)hetccl_vendor_find(name);
    if (vendor < 0)
        return hetccl_fail(HETCCL_ERR_USAGE,
                           "HETCCL_VENDOR=%s is not usable: '%s' is none of nvidia, amd, cpu",
                           comm->config.vendor, name);
    *out = (uint8_t)vendor;
    return HETCCL_OK;
}

static enum hetccl_status read_link_kinds(const struct hetccl_comm *comm, uint32_t *out)
{
    const char *list = comm->config.link;
    uint32_t kinds = 0;

    size_t n_entries = 1;

    for (const char *c = list; *c != '\0'; c++)
        n_entries += *c == ',';
    for (size_t i = 0; i < n_entries; i++) {
        char name[HETCCL_CONFIG_TEXT_BYTES];
        int kind;

        hetccl_config_list_entry(list, i, name);
        kind = hetccl_link_find(name);
        if (kind < 0 || kind == HETCCL_LINK_VERBS)
            return hetccl_fail(HETCCL_ERR_USAGE, "HETCCL_LINK=%s is not usable: '%s' is none of shm, tcp",
                               list, name);
        kinds |= 1u << kind;
    }
    if (comm->config.shm_disable)
        kinds &= ~(1u << HETCCL_LINK_SHM);
    if (kinds == 0)
        return hetccl_fail(HETCCL_ERR_USAGE,
                           "HETCCL_LINK=%s with HETCCL_SHM_DISABLE=1 leaves no link: allow tcp", list);
    *out = kinds;
    return HETCCL_OK;
}

/* The vendor's library, if it is there; without it a GPU rank can do with what else there is. */
static enum hetccl_status find_library(const struct hetccl_comm *comm, struct hetccl_wire_peer *own)
{
    enum hetccl_ccl_kind kind =
        strcmp(comm->device->ops->name, "hip") == 0 ? HETCCL_CCL_RCCL : HETCCL_CCL_NCCL;
    const struct hetccl_ccl_api *api;
    enum hetccl_status status = HETCCL_OK;

    if (hetccl_config_has_vendor_root())
        status = hetccl_fail_quietly(
            HETCCL_ERR_USAGE,
            "the vendor's library can't be used while NCCL_COMM_ID is set, as it would take "
            "that address for its own; set HETCCL_COMM_ID instead");
    else
        status = hetccl_ccl_get(kind, &comm->config, &api);
    if (status == HETCCL_OK) {
        own->engine = HETCCL_ENGINE_CCL;
        own->library_key = (uint64_t)api->version;
        return HETCCL_OK;
    }
    if (comm->config.engine == HETCCL_USE_CCL)
        return hetccl_fail(status, "rank %u: HETCCL_ENGINE=ccl, but %s", comm->rank,
                           hetccl_last_error_thread());
    hetccl_log(HETCCL_LOG_INFO, "engine", "rank %u: %s", comm->rank, hetccl_last_error_thread());
    return HETCCL_OK;
}

/* Which engines this rank can use, as HETCCL_ENGINE allows. That setting is about GPUs; CPU ranks have shm.
 */
static enum hetccl_status read_engines(const struct hetccl_comm *comm, struct hetccl_wire_peer *own)
{
    bool may_share = !comm->config.shm_disable;
    enum hetccl_engine_choice choice = comm->config.engine;

    own->flags = may_share ? HETCCL_WIRE_PEER_SHARES_MEMORY : 0;
    own->engine = HETCCL_ENGINE_NONE;
    if (!comm->device->ops->is_synchronous)
        own->flags |= HETCCL_WIRE_PEER_IS_ASYNC;
    if (comm->device->ops->is_synchronous) {
        own->engine = may_share ? HETCCL_ENGINE_SHM : HETCCL_ENGINE_NONE;
        return HETCCL_OK;
    }
    if (choice == HETCCL_USE_NONE)
        return HETCCL_OK;
    if (choice != HETCCL_USE_CCL && comm->device->has_ipc && may_share) {
        own->flags |= HETCCL_WIRE_PEER_HAS_P2P;
        own->engine = HETCCL_ENGINE_P2P;
    }
    return choice == HETCCL_USE_P2P ? HETCCL_OK : find_library(comm, own);
}

static enum hetccl_status gather_facts(struct hetccl_comm *comm, struct hetccl_wire_peer *own)
{
    char boot_id[64];
    char host_id[HETCCL_CONFIG_TEXT_BYTES];
    enum hetccl_status status;

    memset(own, 0, sizeof(*own));
    hetccl_config_list_entry(comm->config.host_id, comm->rank, host_id);
    if (host_id[0] != '\0')
        (void)snprintf(own->host_name, sizeof(own->host_name), "%.63s", host_id);
    else if (gethostname(own->host_name, sizeof(own->host_name) - 1) != 0)
        (void)snprintf(own->host_name, sizeof(own->host_name), "unknown");
    read_boot_id(boot_id);
    own->host_key = hash_texts(boot_id, host_id);
    own->machine_key = hash_texts(boot_id, "");
    own->shm_place = hetccl_segment_place();
    own->pci_key = comm->device->pci_key;
    own->config_hash = hetccl_config_wire_hash(&comm->config);
    own->pid = (uint32_t)getpid();
    (void)snprintf(own->arch, sizeof(own->arch), "%.31s", comm->device->arch);
    status = read_engines(comm, own);
    if (status == HETCCL_OK)
        status = read_vendor(comm, &own->vendor);
    return status == HETCCL_OK ? read_link_kinds(comm, &own->link_kinds) : status;
}

static enum hetccl_status check_settings(const struct hetccl_comm *comm)
{
    for (uint32_t rank = 0; rank < comm->n_ranks; rank++)
        if (comm->peers[rank].config_hash != comm->peers[0].config_hash)
            return hetccl_fail(
                HETCCL_ERR_USAGE,
                "rank %u on host %s has other settings than rank 0 on host %s for something that must be "
                "the same on all ranks (see `hetccl info --config`)",
                rank, comm->peers[rank].host_name, comm->peers[0].host_name);
    return HETCCL_OK;
}

enum hetccl_status hetccl_comm_exchange_facts(struct hetccl_comm *comm)
{
    struct hetccl_wire_peer own;
    uint8_t record[HETCCL_WIRE_PEER_BYTES];
    uint8_t *all = NULL;
    enum hetccl_status status = gather_facts(comm, &own);

    if (status != HETCCL_OK)
        return status;
    status = hetccl_alloc(comm->n_ranks, sizeof(*comm->peers), &comm->peers);
    if (status == HETCCL_OK)
        status = hetccl_alloc(comm->n_ranks, sizeof(record), &all);
    if (status != HETCCL_OK)
        return status;
    hetccl_wire_peer_encode(&own, record);
    status = hetccl_mesh_all_gather(comm->mesh, record, sizeof(record), all, comm->config.init_timeout_s);
    for (uint32_t rank = 0; status == HETCCL_OK && rank < comm->n_ranks; rank++) {
        struct hetccl_wire_peer *peer = &comm->peers[rank];

        if (!hetccl_wire_peer_decode(all + (size_t)rank * sizeof(record), peer) ||
            peer->vendor >= HETCCL_VENDORS || peer->engine >= HETCCL_ENGINE_KINDS)
            status = hetccl_fail(HETCCL_ERR_REMOTE, "rank %u sent facts that this rank can't read", rank);
        comm->has_async_ranks |= (peer->flags & HETCCL_WIRE_PEER_IS_ASYNC) != 0;
    }
    hetccl_free(all);
    return status == HETCCL_OK ? check_settings(comm) : status;
}
