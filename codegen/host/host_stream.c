// SPDX-License-Identifier: Apache-2.0
// The bytes of what is emitted: weights, packed while they are written, the seals behind them, and the text
// that names these. Separate from host.c, which says what there is.
#include "base/map.h"
#include "codegen/host/host_parts.h"
#include <stdlib.h>
#include <string.h>

uint64_t host_padded_bytes(uint64_t n)
{
    return (n + 7u) / 8u * 8u;
}

uint64_t host_sealed_bytes(uint64_t n)
{
    return n == 0 ? 0 : host_padded_bytes(n) + HOST_SEAL_BYTES;
}

typedef struct Stream {
    EmitSink sink;
    void *ctx;
    uint64_t at; // bytes given so far
    Hasher hash; // of those of the block
} Stream;

static bool stream_bytes(Stream *s, const void *bytes, uint64_t n)
{
    s->at += n;
    hasher_add(&s->hash, bytes, (size_t)n);
    return n == 0 || s->sink(s->ctx, bytes, (size_t)n);
}

static bool stream_gap(Stream *s, uint64_t to)
{
    static const unsigned char zeros[256];
    bool ok = true;
    while (ok && s->at < to) {
        const uint64_t gap = to - s->at;
        ok = stream_bytes(s, zeros, gap < sizeof zeros ? gap : sizeof zeros);
    }
    return ok;
}

static bool stream_buffer(Stream *s, const PlanBuffer *b, uint64_t base)
{
    Arena scratch = {0};
    rlx_assert(s->at <= base + b->offset); // buffers come in the order of their places
    const bool ok =
        stream_gap(s, base + b->offset) && stream_bytes(s, plan_buffer_bytes(b, &scratch), b->bytes);
    arena_free(&scratch);
    return ok;
}

static int by_offset(const void *a, const void *b)
{
    const PlanBuffer *x = *(const PlanBuffer *const *)a, *y = *(const PlanBuffer *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

typedef VEC(const PlanBuffer *) Buffers;

static void find_constants(const Plan *p, Region region, Arena *a, Buffers *out)
{
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        if (buf->region == region && buf->first != UINT32_MAX && buf->bytes > 0)
            vec_push(a, out, buf);
    }
}

// All buffers of a region, which begins at byte `base`.
static bool stream_region(Stream *s, const Plan *p, Region region, uint64_t base)
{
    Arena scratch = {0};
    Buffers list = {0};
    for (uint32_t i = 0; i < host_n_plans(p); i++)
        find_constants(host_plan(p, i), region, &scratch, &list);
    if (list.len != 0)
        qsort(list.data, list.len, sizeof *list.data, by_offset);
    bool ok = true;
    for (uint32_t i = 0; i < list.len && ok; i++)
        if (i == 0 || list.data[i]->offset != list.data[i - 1]->offset) // plans share constants
            ok = stream_buffer(s, list.data[i], base);
    arena_free(&scratch);
    return ok && stream_gap(s, base + p->region_bytes[region]);
}

static bool stream_weights_of(Stream *s, const Plan *p, uint64_t base)
{
    return stream_region(s, p, REGION_WEIGHTS, base) &&
           (p->experts.slots > 0 ||
            stream_region(s, p, REGION_EXPERTS, base + p->region_bytes[REGION_WEIGHTS]));
}

static bool stream_experts(Stream *s, const EmittedFile *f)
{
    const Plan *p = f->plan;
    return stream_region(s, p, REGION_EXPERTS, 0) &&
           (f->fallback == NULL ||
            stream_region(s, f->fallback, REGION_EXPERTS, p->region_bytes[REGION_EXPERTS]));
}

// Zeros up to the seal, if there is one, and it.
static bool stream_seal(Stream *s, uint64_t end, EmittedSum *sum)
{
    if (sum == NULL)
        return true;
    rlx_assert(end >= HOST_SEAL_BYTES && s->at <= end - HOST_SEAL_BYTES);
    if (!stream_gap(s, end - HOST_SEAL_BYTES))
        return false;
    sum->hash = hasher_end(&s->hash);
    sum->is_known = true;
    unsigned char seal[HOST_SEAL_BYTES];
    for (uint32_t i = 0; i < HOST_SEAL_BYTES; i++)
        seal[i] = (unsigned char)(sum->hash >> (8 * i));
    return stream_bytes(s, seal, HOST_SEAL_BYTES);
}

// The weights of a plan from byte `base` on, as one block.
static bool stream_block(Stream *s, const Plan *p, uint64_t base, EmittedSum *sum)
{
    const uint64_t n = plan_weight_bytes(p);
    if (n == 0)
        return true;
    if (!stream_gap(s, base))
        return false;
    s->hash = hasher_begin(sum != NULL ? host_padded_bytes(n) : n, 0);
    return stream_weights_of(s, p, base) && stream_seal(s, base + host_sealed_bytes(n), sum);
}

// The weights, or the experts where they are a file of their own.
static bool stream_weights(const EmittedFile *f, EmitSink sink, void *ctx)
{
    Stream s = {.sink = sink, .ctx = ctx};
    if (f->is_experts) {
        s.hash = hasher_begin(f->len - HOST_SEAL_BYTES, 0);
        return stream_experts(&s, f) && stream_seal(&s, f->len, f->sum);
    }
    if (!stream_block(&s, f->plan, 0, f->sum))
        return false;
    if (f->fallback == NULL || plan_weight_bytes(f->fallback) == 0)
        return true;
    return stream_block(&s, f->fallback, f->len - host_sealed_bytes(plan_weight_bytes(f->fallback)),
                        f->fallback_sum);
}

static bool drop(void *ctx, const void *bytes, size_t n)
{
    (void)ctx, (void)bytes, (void)n;
    return true;
}

static void write_hex(char *to, uint64_t v)
{
    for (uint32_t i = 0; i < 16; i++)
        to[2 + i] = "0123456789abcdef"[v >> (60 - 4 * i) & 15];
}

static void fill_places(const EmittedFile *f)
{
    for (uint32_t i = 0; i < f->places.len; i++) {
        const SumPlace *p = &f->places.data[i];
        rlx_assert(f->data != NULL && p->at + 18 <= f->len); // "0x" and 16 digits
        if (!p->sum->is_known && p->sum->file != NULL) // else there are no such bytes, and it stays 0
            host_stream(p->sum->file, drop, NULL);
        write_hex((char *)(uintptr_t)f->data + p->at, p->sum->hash);
    }
}

bool host_stream(const EmittedFile *f, EmitSink sink, void *ctx)
{
    rlx_assert(sink != NULL && (f->data != NULL || f->plan != NULL));
    fill_places(f);
    if (f->before.len != 0 && !sink(ctx, f->before.data, f->before.len))
        return false;
    const bool ok = f->data == NULL ? stream_weights(f, sink, ctx) : sink(ctx, f->data, f->len);
    return ok && (f->behind.len == 0 || sink(ctx, f->behind.data, f->behind.len));
}

static bool add_to_sum(void *ctx, const void *bytes, size_t n)
{
    hasher_add(ctx, bytes, n);
    return true;
}

uint64_t host_sum_of(const EmittedFile *f)
{
    Hasher h = hasher_begin(f->len, 0);
    host_stream(f, add_to_sum, &h);
    return hasher_end(&h);
}

EmittedSum *host_sum_known(Arena *a, uint64_t hash)
{
    EmittedSum *sum = ARENA_NEW(a, EmittedSum);
    *sum = (EmittedSum){.is_known = true, .hash = hash};
    return sum;
}

void host_print_sum(const HostEmit *e, EmittedSum *sum, Str *out)
{
    const SumPlace place = {sum, out->len};
    str_printf(out, "0x%016llxu", (unsigned long long)sum->hash);
    if (!sum->is_known)
        vec_push(e->arena, &e->out->places, place);
}
