/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HETCCL_ENGINE_CCL_FIND_H
#define HETCCL_ENGINE_CCL_FIND_H

/* Where the vendor's library is; see hetccl_ccl_get() for the places. */

#include <stdbool.h>

#include "engine/ccl/table.h"

/* Opens the first one that fits. Errors: HETCCL_ERR_USAGE listing what was tried. */
HETCCL_NODISCARD enum hetccl_status
hetccl_ccl_find(enum hetccl_ccl_kind kind, const struct hetccl_config *config, struct hetccl_ccl_api *out);

/* True when the path leads to the file that this code is part of. */
bool hetccl_ccl_is_own_file(const char *path);

#endif
