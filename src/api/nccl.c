/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"

/* Linked into libnccl.so.2 only; rccl.c is its counterpart. */
const enum hetccl_dialect hetccl_dialect = HETCCL_DIALECT_NCCL;
