/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that say #include <nccl.h>: put this folder on their include path. */
#include "../nccl.h"
