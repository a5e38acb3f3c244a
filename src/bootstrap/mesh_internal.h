/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BOOTSTRAP_MESH_INTERNAL_H
#define HETCCL_BOOTSTRAP_MESH_INTERNAL_H

/* The mesh as its own files see it. Everything is guarded by the endpoint's lock unless it says otherwise. */

#include <pthread.h>
#include <sys/types.h>

#include "bootstrap/conn.h"
#include "bootstrap/dial.h"
#include "bootstrap/mesh.h"
#include "wire/records.h"

struct hetccl_mesh_peer {
    struct hetccl_wire_contact contact;
    bool is_known;                   /* contact is filled in */
    bool has_left;                   /* said goodbye: losing it is no failure */
    bool is_dead;                    /* its process is gone: nothing is sent there */
    struct hetccl_frame_queue inbox; /* messages of the mesh's user */
};

enum hetccl_mesh_stage {
    HETCCL_MESH_JOINING = 0, /* at the root */
    HETCCL_MESH_MEETING,     /* key and neighbours known */
    HETCCL_MESH_STANDING,    /* create has succeeded */
};

/* A rank's talk with the root. */
struct hetccl_join {
    struct hetccl_dial *dial;
    struct hetccl_conn *conn;
    struct hetccl_wire_unique_id id;
    bool has_status;
    struct hetccl_wire_missing missing; /* the root's last word */
};

struct hetccl_mesh {
    struct hetccl_list_node node;          /* endpoint->meshes */
    struct hetccl_list_node eventful_node; /* endpoint->eventful while an event is owed */
    struct hetccl_endpoint *endpoint;
    pid_t pid; /* of the process that made it, constant */
    uint64_t key, job_id;
    uint8_t job_key[HETCCL_WIRE_KEY_BYTES];
    uint32_t rank, n_ranks; /* constant */
    const atomic_bool *is_cancelled;
    struct hetccl_mesh_events events;
    pthread_cond_t changed; /* anything a waiter may look for */
    enum hetccl_mesh_stage stage;
    struct hetccl_mesh_peer *peers;    /* n_ranks */
    struct hetccl_frame_queue gathers; /* rounds that came before they were asked for */
    uint32_t gather_sequence;
    size_t inbox_frames;
    struct hetccl_list_node streams;
    struct hetccl_join join;
    atomic_int failure_status; /* enum hetccl_status, written last; readable without the lock */
    uint32_t culprit_rank;
    char failure_text[HETCCL_ERROR_TEXT_BYTES];
    bool owes_flood, owes_failed, owes_arrived;
    bool is_in_event; /* the service thread is inside a callback, unlocked */
};

/* True in a child of the process that made the mesh: nothing may be touched. */
bool hetccl_mesh_is_foreign(const struct hetccl_mesh *mesh);

/* A mesh in the endpoint's list; it takes one use of the endpoint, which it gives back at the end. Not
 * locked. */
struct hetccl_mesh_setup {
    struct hetccl_endpoint *endpoint;
    uint32_t rank, n_ranks;
    const atomic_bool *is_cancelled;
    struct hetccl_mesh_events events;
};
HETCCL_NODISCARD enum hetccl_status hetccl_mesh_setup(const struct hetccl_mesh_setup *setup,
                                                      struct hetccl_mesh **out);

/*
 * The second half of every create: all ranks exchange their contacts (which also connects the neighbours),
 * and the mesh stands. On failure the other ranks have been told and the mesh is gone.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_mesh_stand(struct hetccl_mesh *mesh, uint64_t deadline_ns);

/* Ends a mesh whose create has failed with the status (text: the thread's last error). Not locked. */
void hetccl_mesh_undo(struct hetccl_mesh *mesh, enum hetccl_status status);

/* Key known: early frames are delivered, later ones find it. Locked. */
void hetccl_mesh_meet(struct hetccl_mesh *mesh, uint64_t key);

/* The secret that belongs to a job, out of any mesh of it; NULL when there is none. Locked. */
const uint8_t *hetccl_mesh_job_key(struct hetccl_endpoint *endpoint, uint64_t job_id);

/* The mesh of a rank, or NULL. Locked. */
struct hetccl_mesh *hetccl_mesh_find(struct hetccl_endpoint *endpoint, uint64_t key, uint32_t rank);

/* "rank 2 on host x". */
enum { HETCCL_RANK_TEXT_BYTES = 112 };
void hetccl_mesh_print_rank(const struct hetccl_mesh *mesh, uint32_t rank, char out[HETCCL_RANK_TEXT_BYTES]);

/*
 * One round of a wait: checks the mesh's failure, cancellation and deadline, then sleeps a little on
 * `changed`.
 *
 * HETCCL_AGAIN: look again. An error is the mesh's failure or the cancellation, with text; or, with
 * *is_late_out set, the deadline has passed, and the caller writes the text as it knows what it waited for.
 * Locked.
 */
HETCCL_NODISCARD enum hetccl_status hetccl_mesh_wait(struct hetccl_mesh *mesh, uint64_t deadline_ns,
                                                     bool *is_late_out);

/* Sleeps a little on `changed`, not beyond the deadline. Locked. */
void hetccl_mesh_nap(struct hetccl_mesh *mesh, uint64_t deadline_ns);
bool hetccl_mesh_is_cancelled(const struct hetccl_mesh *mesh);

/* Sends a frame to a rank: to its process's connection, or at once when the rank lives here. Takes the frame.
 * Locked. */
void hetccl_mesh_post(struct hetccl_mesh *mesh, uint32_t dst_rank, struct hetccl_frame *frame);

/* As post, after building the frame. */
HETCCL_NODISCARD enum hetccl_status
hetccl_mesh_post_bytes(struct hetccl_mesh *mesh, const struct hetccl_wire_frame *head, const void *payload);

/* A frame has come from a process (or from a rank of this one). Takes the frame. Locked. */
void hetccl_mesh_deliver(struct hetccl_endpoint *endpoint, struct hetccl_frame *frame, uint64_t process_key);

/* True when the process may speak for the rank. Locked. */
bool hetccl_mesh_is_genuine(const struct hetccl_mesh *mesh, uint32_t src_rank, uint64_t process_key);

/* The mesh goes: frames that still come for it are dropped, not kept. Locked. */
void hetccl_mesh_remember_gone(struct hetccl_mesh *mesh);

/* The mesh owes its user an `arrived`. Locked. */
void hetccl_mesh_owe_arrived(struct hetccl_mesh *mesh);

/* The distinct ranks rank +- 2^k mod n; returns their number. */
uint32_t hetccl_mesh_neighbours(uint32_t rank, uint32_t n_ranks, uint32_t out[HETCCL_WIRE_MAX_NEIGHBOURS]);

/* Wakes all waiters: what they wait for may have been sent. Locked. */
void hetccl_meshes_poke(struct hetccl_endpoint *endpoint);

/* ---- failure.c ---- */

/* Fails the mesh if it hasn't failed yet; neighbours and the user are told by the service thread. Locked. */
void hetccl_mesh_fail(struct hetccl_mesh *mesh, enum hetccl_status status, uint32_t culprit_rank,
                      const char *text);

/* A process is gone: fails the meshes with ranks there that haven't left. Locked. */
void hetccl_meshes_lose_process(struct hetccl_endpoint *endpoint, uint64_t process_key,
                                enum hetccl_status status, const char *what, const char *reason);

/* Tells neighbours what is owed, then runs owed events (unlocked meanwhile). Service thread, locked. */
void hetccl_meshes_run_events(struct hetccl_endpoint *endpoint);

/* Sends the failure to the neighbours now. Locked. */
void hetccl_mesh_flood(struct hetccl_mesh *mesh);

/* ---- gather.c ---- */

HETCCL_NODISCARD enum hetccl_status hetccl_mesh_gather(struct hetccl_mesh *mesh, const void *mine,
                                                       size_t bytes, void *all_out, uint64_t deadline_ns);

/* ---- join.c ---- */

/* Starts to register at the root of join.id. Locked. */
HETCCL_NODISCARD enum hetccl_status hetccl_join_start(struct hetccl_mesh *mesh);

/* Ends the talk with the root; gives the reason to it if it still waits for us. Locked. */
void hetccl_join_stop(struct hetccl_mesh *mesh, enum hetccl_status status, const char *text);

/* "missing: rank 2, 5", or what is known of the root. Locked. */
void hetccl_join_print_missing(const struct hetccl_mesh *mesh, char *out, size_t bytes);

#endif
