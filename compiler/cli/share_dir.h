// SPDX-License-Identifier: Apache-2.0
// Where the files for other builds are: rlxc.mk, cmake/, meson/ (share/rlxc in the sources).
#ifndef COMPILER_CLI_SHARE_DIR_H
#define COMPILER_CLI_SHARE_DIR_H

#include "base/diag.h"

// NULL: reported.
const char *share_dir_find(Diag *d);

#endif
