/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BASE_CONFIG_H
#define HETCCL_BASE_CONFIG_H

/*
 * Configuration: one table (config.c) of name, alias, type, unit, default, range and help. A snapshot is
 * parsed when a communicator is created and never changes afterwards. Nothing else in the library reads the
 * environment (but base/fault.c). `hetccl info --config` and the manual page are printed from the same table.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"
#include "base/status.h"

enum { HETCCL_CONFIG_TEXT_BYTES = 256 };

enum hetccl_device_choice {
    HETCCL_DEVICE_AUTO = 0,
    HETCCL_DEVICE_HOST,
    HETCCL_DEVICE_CUDA,
    HETCCL_DEVICE_HIP
};
enum hetccl_engine_choice { HETCCL_USE_AUTO = 0, HETCCL_USE_CCL, HETCCL_USE_P2P, HETCCL_USE_NONE };
enum hetccl_mover_choice { HETCCL_MOVER_AUTO = 0, HETCCL_MOVER_KERNEL, HETCCL_MOVER_COPY };
enum hetccl_family_choice { HETCCL_FAMILY_ANY = 0, HETCCL_FAMILY_IPV4, HETCCL_FAMILY_IPV6 };

struct hetccl_config {
    /* talk */
    enum hetccl_log_level debug;
    char debug_file[HETCCL_CONFIG_TEXT_BYTES];
    /* where the sockets go */
    char socket_ifname[HETCCL_CONFIG_TEXT_BYTES]; /* NCCL's syntax: prefix list, ^ excludes, = exact */
    enum hetccl_family_choice socket_family;
    char comm_id[HETCCL_CONFIG_TEXT_BYTES]; /* host:port of a fixed root; "" when none */
    uint16_t port_first, port_last;         /* 0,0: any port */
    /* what this rank is; a comma list gives rank r the entry r mod length */
    enum hetccl_device_choice device;
    enum hetccl_engine_choice engine; /* what runs collectives among GPUs of one vendor */
    char vendor[HETCCL_CONFIG_TEXT_BYTES];
    char host_id[HETCCL_CONFIG_TEXT_BYTES];
    char island_split[HETCCL_CONFIG_TEXT_BYTES]; /* sizes of pretend islands, in rank order: "1,3" */
    /* how data goes */
    char link[HETCCL_CONFIG_TEXT_BYTES]; /* allowed link kinds, best first: "shm,tcp" */
    char algo[HETCCL_CONFIG_TEXT_BYTES]; /* forced plan; "" lets the cost model choose */
    bool shm_disable;
    uint64_t chunk_bytes, gpu_chunk_bytes;
    uint64_t small_bytes; /* messages up to this may take a one-phase plan */
    uint64_t slot_bytes;
    uint64_t ring_slot_bytes; /* of a GPU's rings */
    enum hetccl_mover_choice mover;
    uint64_t copy_bytes; /* largest message of a call from which on copy engines move it */
    uint64_t sockets_per_link;
    /* patience */
    uint64_t init_timeout_s;
    uint64_t timeout_s; /* of one collective; 0: none */
    uint64_t spin_us;   /* how long a waiting thread spins before it sleeps */
    uint64_t death_s;   /* a silent host is dead after this */
    /* life */
    bool blocking;
    /* libraries to open, absolute paths; "" lets the library look */
    char nccl_lib[HETCCL_CONFIG_TEXT_BYTES];
    char rccl_lib[HETCCL_CONFIG_TEXT_BYTES];
    char cuda_lib[HETCCL_CONFIG_TEXT_BYTES];
    char hip_lib[HETCCL_CONFIG_TEXT_BYTES];
    char ibverbs_lib[HETCCL_CONFIG_TEXT_BYTES];
};

/*
 * hetccl_config_parse -- read the environment into *out, and set up the log from it.
 *
 * Unknown HETCCL_* names give one warning a process with the nearest known name; NCCL_* names that aren't
 * honoured are listed once at level info. Errors: HETCCL_ERR_USAGE naming variable, value and choices. *out
 * is written only on success.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_config_parse(struct hetccl_config *out);

/*
 * hetccl_config_list_entry -- entry (index mod length) of a comma list, copied to out; "" gives "".
 */
void hetccl_config_list_entry(const char *list, size_t index, char out[HETCCL_CONFIG_TEXT_BYTES]);

/* Prints the table to a stream: name, alias, value now, default, unit, range, help. For the command `hetccl
 * info`. */
void hetccl_config_print(const struct hetccl_config *config, FILE *stream);

/*
 * A 64-bit hash over the settings that must be equal on all ranks because they change the wire (chunk, small,
 * slot, algo, link, sockets, island_split ...). Which those are stands in the table.
 */
uint64_t hetccl_config_wire_hash(const struct hetccl_config *config);

/* NCCL_COMM_ID is set: the vendor's library would listen at that address too, and one of us two would fail.
 */
bool hetccl_config_has_vendor_root(void);

/* LD_LIBRARY_PATH, or "": one of the places where a vendor's library is looked for. */
const char *hetccl_config_library_path(void);

#endif
