// SPDX-License-Identifier: Apache-2.0
// See importance.h.
#include "compiler/quantize/importance.h"
#include "compiler/quantize/gguf_out.h"

#include <math.h>
#include <string.h>

static const double floor_weight = 0.01; // what was never used in the text still counts a little

bool importance_open(Arena *a, Diag *d, const char *path, Importance *out)
{
    out->path = path;
    if (!gguf_open(a, d, path, &out->file))
        return false;
    for (uint32_t i = 0; i < out->file.tensors.len; i++)
        if (str_ends_with(out->file.tensors.data[i].name, IMPORTANCE_SUMS))
            return true;
    return diag_error(d, (Span){0}, E0114,
                      "%s: no tensor NAME" IMPORTANCE_SUMS
                      " is in the file; expected what `rlxc perplexity --imatrix-out` writes",
                      path);
}

static const GgufTensor *find(const Importance *imp, const char *tensor, const char *suffix)
{
    return gguf_tensor(&imp->file, arena_printf(imp->file.arena, "%s%s", tensor, suffix));
}

static bool fail(const Importance *imp, const char *tensor, const char *why)
{
    return diag_error(imp->file.diag, (Span){0}, E0114, "%s: tensor '%s%s' %s", imp->path, tensor,
                      IMPORTANCE_SUMS, why);
}

static float element(const GgufTensor *t, uint64_t i)
{
    float v;
    memcpy(&v, t->data + i * sizeof v, sizeof v);
    return v;
}

static bool is_f32(const GgufTensor *t)
{
    return t->type != NULL && t->type->elements == 1 && t->type->dtype == DTYPE_f32;
}

bool importance_of(const Importance *imp, const char *tensor, uint64_t k, uint64_t nth, uint64_t n,
                   const float **out)
{
    const GgufTensor *sums = find(imp, tensor, IMPORTANCE_SUMS);
    float *w = ARENA_ARRAY(imp->file.arena, float, k);
    double mean = 0;
    *out = NULL;
    if (sums == NULL)
        return true;
    if (!is_f32(sums) || sums->dim[0] != k || sums->dim[1] * sums->dim[2] * sums->dim[3] != n)
        return fail(imp, tensor, arena_printf(imp->file.arena, "does not have %llu columns of %llu matrices",
                                              (unsigned long long)k, (unsigned long long)n));
    for (uint64_t i = 0; i < k; i++) {
        const float v = element(sums, nth * k + i);
        if (!isfinite(v) || v < 0)
            return fail(imp, tensor, "has a number that is no sum of squares");
        mean += (double)v / (double)k;
    }
    for (uint64_t i = 0; i < k; i++)
        w[i] = (float)(mean > 0 ? (double)element(sums, nth * k + i) / mean + floor_weight : 1);
    *out = w;
    return true;
}

// --- writing -------------------------------------------------------------------------------------

static void describe(GgufOut *o, const ImportanceSums *s, const GgufType *f32)
{
    Arena *a = o->entries.arena;
    const uint64_t sums[] = {s->k, 1}, counts[] = {1, 1};
    gguf_out_tensor(o, arena_printf(a, "%s" IMPORTANCE_SUMS, s->tensor), 2, sums, f32);
    gguf_out_tensor(o, arena_printf(a, "%s" IMPORTANCE_COUNTS, s->tensor), 2, counts, f32);
}

static void write_sums(GgufOut *o, const ImportanceSums *s)
{
    for (uint64_t i = 0; i < s->k; i++) {
        const float v = (float)s->sum[i];
        (void)gguf_out_data(o, &v, sizeof v);
    }
    (void)gguf_out_align(o, s->k * sizeof(float));
    const float count = (float)s->count;
    (void)gguf_out_data(o, &count, sizeof count);
    (void)gguf_out_align(o, sizeof count);
}

bool importance_write(Arena *a, Diag *d, const char *path, const char *text, const ImportanceSums *sums,
                      uint32_t n)
{
    GgufOut o = gguf_out_new(a);
    const GgufType *f32 = gguf_type(0);
    uint64_t rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        describe(&o, &sums[i], f32);
        rows = sums[i].count > rows ? sums[i].count : rows;
    }
    gguf_out_text(&o, "general.type", "imatrix");
    gguf_out_texts(&o, "imatrix.datasets", &text, 1);
    gguf_out_u32(&o, "imatrix.chunk_count", 1);
    gguf_out_u32(&o, "imatrix.chunk_size", (uint32_t)rows);
    if (!gguf_out_begin(&o, d, path))
        return false;
    for (uint32_t i = 0; i < n; i++)
        write_sums(&o, &sums[i]);
    return gguf_out_end(&o, true);
}
