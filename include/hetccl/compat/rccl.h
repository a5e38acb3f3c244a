/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that say #include <rccl.h>: put this folder on their include path. */
#include "../rccl.h"
