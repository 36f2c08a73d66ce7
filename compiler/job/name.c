// SPDX-License-Identifier: Apache-2.0
// The name that generated files and their functions have.
#include "codegen/host/host.h"
#include "compiler/job/job.h"
#include <string.h>

bool job_check_name(Arena *a, Diag *d, const char *name)
{
    enum { MAX = 200 };
    const char *kept = host_name_kept(name), *good = host_model_name(a, name), *expected = NULL;
    if (strlen(name) > MAX)
        expected = "at most 200 bytes";
    else if (kept != NULL)
        expected = arena_printf(a, "another name, such as %s: this is %s", good, kept);
    else if (strcmp(name, good) != 0)
        expected = arena_printf(a, "a C identifier, such as %s", good);
    return expected == NULL || diag_error(d, (Span){0}, E0003, "--name %s: expected %s", name, expected);
}
