// SPDX-License-Identifier: Apache-2.0
// See metal_image.h.
#include "compiler/images/metal_image.h"
#include "compiler/system/rawfile.h"
#include <string.h>

enum { KIND_TEXT, KIND_LIBRARY }; // RLX_METAL_TEXT, RLX_METAL_COMPILED

bool metal_make_images(void *ctx, const char *text, const char *const *functions, uint32_t n, GpuImages *out)
{
    const MetalImages *m = ctx;
    RawFile file;
    (void)functions, (void)n;
    vec_push(m->arena, out,
             ((GpuImage){.kind = KIND_TEXT, .label = "text", .data = text, .len = strlen(text) + 1}));
    if (m->metallib == NULL)
        return true;
    if (!rawfile_open(m->arena, m->diag, (Span){0}, m->metallib, &file))
        return false;
    vec_push(m->arena, out,
             ((GpuImage){.kind = KIND_LIBRARY, .label = "compiled", .data = file.data, .len = file.len}));
    return true;
}
