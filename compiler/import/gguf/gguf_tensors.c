// SPDX-License-Identifier: Apache-2.0
// The tensors of a GGUF file: name, u32 rank, u64 sizes (innermost first), u32 type, u64 offset from the
// start of the data. Separate because sizes and places are checked here and nowhere else.
#include "compiler/import/gguf/gguf_reader.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 63 };

static const GgufType types[] = {
#define GGUF_PLAIN(NAME, number, bytes, dtype)             {#NAME, number, 1, bytes, DTYPE_##dtype, NULL},
#define GGUF_BLOCKS(NAME, number, elements, bytes, format) {#NAME, number, elements, bytes, DTYPE_u8, format},
#include "compiler/import/gguf/gguf_types.def"
};

const GgufType *gguf_type(uint32_t number)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number)
            return &types[i];
    return NULL;
}

const GgufTensor *gguf_tensor(const GgufFile *f, const char *name)
{
    uint64_t i = 0;
    return map_get_str(&f->tensor_index, name, &i) ? &f->tensors.data[i] : NULL;
}

// Sizes, whose product is a number of elements that exists.
static bool take_sizes(GgufReader *r, GgufTensor *t)
{
    const size_t at = r->at;
    uint64_t numel = 1;
    t->rank = gguf_take_u32(r);
    if (r->failed || t->rank < 1 || t->rank > GGUF_MAX_RANK)
        return gguf_fail(r, at, "it has %u sizes; expected 1 to %d", t->rank, GGUF_MAX_RANK);
    for (uint32_t i = 0; i < GGUF_MAX_RANK; i++) {
        const size_t size_at = r->at;
        t->dim[i] = i < t->rank ? gguf_take_u64(r) : 1;
        if (r->failed || t->dim[i] == 0 || t->dim[i] > (uint64_t)DIM_MAX_VALUE / numel)
            return gguf_fail(r, size_at, "size %u is %llu; expected 1 or more, and a product of at most 2^40",
                             i, (unsigned long long)t->dim[i]);
        numel *= t->dim[i];
    }
    return true;
}

// The type, and the bytes that all elements of it take.
static bool take_type(GgufReader *r, GgufTensor *t)
{
    const size_t at = r->at;
    t->number = gguf_take_u32(r);
    t->type = gguf_type(t->number);
    if (r->failed || t->type == NULL)
        return !r->failed;
    if (t->dim[0] % t->type->elements != 0)
        return gguf_fail(r, at, "its innermost size %llu is no multiple of the %u elements of a block of %s",
                         (unsigned long long)t->dim[0], t->type->elements, t->type->name);
    t->bytes = t->dim[0] / t->type->elements * t->type->bytes;
    for (uint32_t i = 1; i < GGUF_MAX_RANK; i++) // at most 2^40 elements, of 8 bytes
        t->bytes *= t->dim[i];
    return true;
}

bool gguf_read_tensors(GgufReader *r, uint64_t n, uint64_t *offset)
{
    GgufFile *f = r->file;
    for (uint64_t i = 0; i < n; i++) {
        const size_t at = r->at;
        GgufTensor t = {.part = (uint32_t)(r->part - f->parts.data)};
        r->what = arena_printf(f->arena, "tensor %llu", (unsigned long long)i);
        t.name = gguf_take_name(r, "its name", MAX_NAME);
        if (t.name == NULL)
            return false;
        r->what = arena_printf(f->arena, "tensor '%s'", t.name);
        if (!take_sizes(r, &t) || !take_type(r, &t))
            return false;
        offset[i] = gguf_take_u64(r);
        if (r->failed)
            return false;
        if (!map_put_str(f->arena, &f->tensor_index, t.name, f->tensors.len))
            return gguf_fail(r, at, "there are two tensors of this name");
        vec_push(f->arena, &f->tensors, t);
    }
    return true;
}

static int compare_places(const void *a, const void *b)
{
    const GgufTensor *x = *(const GgufTensor *const *)a, *y = *(const GgufTensor *const *)b;
    return x->data < y->data ? -1 : x->data > y->data;
}

// No byte belongs to two of them.
static bool check_overlaps(GgufReader *r, const GgufTensor *first, uint64_t n)
{
    const GgufTensor **sorted = ARENA_ARRAY(r->file->arena, const GgufTensor *, n + 1);
    for (uint64_t i = 0; i < n; i++)
        sorted[i] = first + i;
    qsort(sorted, n, sizeof *sorted, compare_places);
    for (uint64_t i = 1; i < n; i++)
        if (sorted[i]->data < sorted[i - 1]->data + sorted[i - 1]->bytes) {
            r->what = arena_printf(r->file->arena, "tensor '%s'", sorted[i]->name);
            return gguf_fail(r, (size_t)(sorted[i]->data - r->part->data),
                             "its data overlap those of '%s'", sorted[i - 1]->name);
        }
    return true;
}

bool gguf_place_tensors(GgufReader *r, uint64_t n, const uint64_t *offset)
{
    rlx_assert(n <= r->file->tensors.len);
    GgufTensor *first = r->file->tensors.data + (r->file->tensors.len - n);
    for (uint64_t i = 0; i < n; i++) {
        GgufTensor *t = &first[i];
        r->what = arena_printf(r->file->arena, "tensor '%s'", t->name);
        if (offset[i] % r->part->alignment != 0)
            return gguf_fail(r, r->at, "its offset %llu is no multiple of the alignment %u",
                             (unsigned long long)offset[i], r->part->alignment);
        if (offset[i] > gguf_left(r) || t->bytes > gguf_left(r) - offset[i])
            return gguf_fail(r, r->at, "it has %llu bytes from offset %llu on, but the data have %zu",
                             (unsigned long long)t->bytes, (unsigned long long)offset[i], gguf_left(r));
        t->data = r->part->data + r->at + offset[i];
    }
    return n == 0 || check_overlaps(r, first, n);
}
