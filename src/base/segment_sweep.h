/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_BASE_SEGMENT_SWEEP_H
#define HETCCL_BASE_SEGMENT_SWEEP_H

/*
 * A process that is killed between the creation of a segment and its unlinking leaves a name in /dev/shm. The
 * creator holds an flock on the file as long as the name stands, and the kernel takes the lock away when it
 * dies: who can lock a file of this user has proved its owner dead.
 *
 * hetccl_segment_sweep -- once a process, remove the names that dead processes of this user left. Never
 * fails.
 */
void hetccl_segment_sweep(void);

#endif
