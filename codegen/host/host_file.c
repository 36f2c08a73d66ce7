// SPDX-License-Identifier: Apache-2.0
// Weights that stay in the user's file (--weights inplace): what a program needs to know of the file, so that
// another one is refused.
#include "codegen/host/host_parts.h"
#include <stdlib.h>
#include <string.h>

static int by_offset(const void *a, const void *b)
{
    const PlanBuffer *x = *(const PlanBuffer *const *)a, *y = *(const PlanBuffer *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static const char *host_file_name(const PlanFile *f)
{
    const char *slash = strrchr(f->path, '/');
    return slash != NULL ? slash + 1 : f->path;
}

const char *host_emit_file(const HostEmit *e, Str *out)
{
    const PlanFile *f = e->plan->file;
    VEC(const PlanBuffer *) parts = {0};
    if (f == NULL)
        return "NULL";
    for (BufId b = 1; b < e->plan->buffers.len; b++)
        if (e->plan->buffers.data[b].region == REGION_FILE)
            vec_push(e->arena, &parts, &e->plan->buffers.data[b]);
    if (parts.len != 0)
        qsort(parts.data, parts.len, sizeof *parts.data, by_offset);
    str_printf(out, "static const rlx_weight_part weight_parts[%u] = {\n", parts.len + (parts.len == 0));
    for (uint32_t i = 0; i < parts.len; i++) {
        const PlanBuffer *b = parts.data[i];
        rlx_assert(b->offset <= f->len && b->bytes <= f->len - b->offset);
        str_printf(out, "    {%lluu, %lluu, 0x%016llxu}, // %s\n", (unsigned long long)b->offset,
                   (unsigned long long)b->bytes,
                   (unsigned long long)hash_bytes64(f->data + b->offset, (size_t)b->bytes, 0),
                   host_comment_text(e->arena, b->name));
    }
    str_printf(out, "%s};\n\n", parts.len == 0 ? "    {0u, 0u, 0u}" : "");
    str_printf(out,
               "static const rlx_weight_file weight_file = {%lluu, 0x%016llxu, %uu, weight_parts};\n\n",
               (unsigned long long)f->header,
               (unsigned long long)hash_bytes64(f->data, (size_t)f->header, 0), parts.len);
    return "&weight_file";
}

void host_emit_file_header(const HostEmit *e, Str *out)
{
    const PlanFile *f = e->plan->file;
    if (f != NULL)
        str_printf(out,
                   "// Weights are read in this file, which the program maps whole and hands to rlx_init. It "
                   "must be the\n// one that was compiled with: another size or header is RLX_ERR_WEIGHTS.\n"
                   "#define %s_WEIGHT_FILE \"%s\"\n\n",
                   e->upper, host_comment_text(e->arena, host_file_name(f)));
}
