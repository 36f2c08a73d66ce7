// SPDX-License-Identifier: Apache-2.0
// Ops that never have a kernel of their own: fuse.c makes views, placed parts or strided copies of them, and
// cast is computed inside elementwise bodies. They are here so that the table in lower.c has a function for
// every op.
#include "passes/lower/lower.h"

_Noreturn static void refuse_kernel(const Lower *l)
{
    diag_bug(op_info[lower_node(l, l->anchor)->op].name, (int)l->anchor, "this op cannot anchor a kernel");
}

#define NO_KERNEL(name)                                                                                      \
    void lower_##name(Lower *l)                                                                              \
    {                                                                                                        \
        refuse_kernel(l);                                                                                    \
    }
NO_KERNEL(cast)
NO_KERNEL(bitcast)
NO_KERNEL(concat)
NO_KERNEL(slice)
NO_KERNEL(reshape)
NO_KERNEL(transpose)
NO_KERNEL(expand)
NO_KERNEL(result)
