/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that say #include <rccl/rccl.h>: put the folder above on their include path. */
#include "../../rccl.h"
