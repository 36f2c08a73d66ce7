// SPDX-License-Identifier: Apache-2.0
// Which bytes of the weights are which tensors of the file, and which tensors have become a part of the code
// in another way: their elements were looked at while the model was compiled, or are packed by something
// that the program does not have. Of these the program takes no other values.
#include "compiler/load/load.h"
#include "ir/graph/reads.h"

#include <stdlib.h>
#include <string.h>

// Of constants that are in the code, as text; and of a tensor whose values the program compares.
#define MOST_OWN_BYTES ((uint64_t)1 << 24)

static int by_name(const void *a, const void *b)
{
    const LoadTensor *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

static int by_place(const void *a, const void *b)
{
    const LoadPart *x = a, *y = b;
    return x->to < y->to ? -1 : x->to > y->to;
}

// The tensor in which the bytes lie; LOAD_NONE: they are not in the file.
static uint32_t find_tensor(const Load *l, const void *bytes, uint64_t n)
{
    const uintptr_t at = (uintptr_t)bytes;
    for (uint32_t i = 0; i < l->tensors.len; i++) {
        const GgufTensor *t = l->tensors.data[i].tensor;
        const uintptr_t begin = (uintptr_t)t->data;
        if (at >= begin && at - begin <= t->bytes && n <= t->bytes - (at - begin))
            return i;
    }
    return LOAD_NONE;
}

// --- parts ---------------------------------------------------------------------------------------

static bool is_same_format(const PackedBlocks *a, const PackedBlocks *b)
{
    return a->f == b->f && a->lanes == b->lanes && a->beside == b->beside;
}

static uint32_t number_format(Job *j, Load *l, const PackedBlocks *p)
{
    for (uint32_t i = 0; i < l->formats.len; i++)
        if (is_same_format(l->formats.data[i], p))
            return i;
    vec_push(j->cli->arena, &l->formats, p);
    return l->formats.len - 1;
}

static uint32_t number_layout(Job *j, Load *l, const GemmPacked *p)
{
    for (uint32_t i = 0; i < l->layouts.len; i++)
        if (memcmp(l->layouts.data[i], p, sizeof *p) == 0)
            return i;
    vec_push(j->cli->arena, &l->layouts, p);
    return l->layouts.len - 1;
}

// What a buffer is made of, in bytes.
static uint64_t source_bytes(const PlanBuffer *b, const PackedBlocks *packed, const GemmPacked *panels)
{
    uint64_t columns = 0;
    if (packed != NULL)
        return (uint64_t)(packed->columns * packed->blocks) * packed->f->bytes;
    if (panels == NULL)
        return b->bytes;
    for (uint32_t i = 0; i < panels->panels.n; i++) {
        const GemmRun *r = &panels->panels.run[i];
        columns += (uint64_t)(r->width * (r->count - 1) + r->real);
    }
    return (uint64_t)(panels->k * panels->n_matrices) * columns * dtype_info[panels->type].bytes;
}

static void add_part(Job *j, Load *l, const PlanBuffer *b, uint64_t base)
{
    const unsigned char *data = b->data;
    const PackedBlocks *packed = blocks_packed_in(b, &data);
    GemmPacked *panels = ARENA_NEW(j->cli->arena, GemmPacked);
    if (packed != NULL || !gemm_packed_in(b, &data, panels))
        panels = NULL;
    const uint64_t from_bytes = source_bytes(b, packed, panels);
    LoadPart p = {.to = base + b->offset, .bytes = b->bytes, .tensor = LOAD_NONE, .format = LOAD_NONE,
                  .buffer = b};
    if (data != NULL)
        p.tensor = find_tensor(l, data, from_bytes);
    if (p.tensor != LOAD_NONE) {
        LoadTensor *t = &l->tensors.data[p.tensor];
        p.from = (uint64_t)(data - t->tensor->data);
        t->is_loaded = true;
        p.packed = packed;
        p.panels = panels;
        p.format = packed != NULL   ? number_format(j, l, packed)
                   : panels != NULL ? number_layout(j, l, panels)
                                    : LOAD_NONE;
    }
    vec_push(j->cli->arena, &l->parts, p);
}

// Buffers that no kernel reads have no place.
static bool is_placed(const PlanBuffer *b)
{
    return b->first != UINT32_MAX && b->bytes > 0;
}

static void add_region(Job *j, Load *l, const Plan *p, Region region, uint64_t base)
{
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buffer = &p->buffers.data[b];
        if (buffer->region == region && is_placed(buffer))
            add_part(j, l, buffer, base);
    }
}

// In order, and those that several plans share once.
static void sort_parts(Load *l)
{
    uint32_t n = 0;
    if (l->parts.len == 0)
        return;
    qsort(l->parts.data, l->parts.len, sizeof *l->parts.data, by_place);
    for (uint32_t i = 0; i < l->parts.len; i++)
        if (n == 0 || l->parts.data[i].to != l->parts.data[n - 1].to)
            l->parts.data[n++] = l->parts.data[i];
    l->parts.len = n;
}

static bool place_own(const Job *j, Load *l)
{
    const LoadPart *largest = NULL;
    for (uint32_t i = 0; i < l->parts.len; i++) {
        LoadPart *p = &l->parts.data[i];
        if (p->tensor != LOAD_NONE)
            continue;
        p->from = l->own_bytes;
        l->own_bytes += (p->bytes + 7) / 8 * 8;
        largest = largest == NULL || p->bytes > largest->bytes ? p : largest;
    }
    return l->own_bytes <= MOST_OWN_BYTES ||
           diag_error(j->cli->diag, (Span){0}, E0003,
                      "--weights load: %llu bytes of constants would be in the code, '%s' with %llu above "
                      "all: programs pack blocks, and F32, F16 and BF16 as they are in the file",
                      (unsigned long long)l->own_bytes, largest->buffer->name,
                      (unsigned long long)largest->bytes);
}

// --- what is fixed -------------------------------------------------------------------------------

// May kernels have the operand in another order, or converted?
static bool is_packed(const Graph *g, const Node *n, NodeId operand)
{
    const uint8_t steps = op_info[n->op].steps;
    if (operand == 0 || !node_is_const(g, operand) || graph_node(g, operand)->dtype == DTYPE_u8)
        return false;
    return steps == OPSTEPS_INNER || steps == OPSTEPS_FILTER || graph_node(g, operand)->shape->rank > 2;
}

static void fix(Load *l, const void *bytes)
{
    const uint32_t t = find_tensor(l, bytes, 1);
    if (t != LOAD_NONE)
        l->tensors.data[t].is_fixed = true;
}

// The bytes of the file for which those of a constant stand.
static const void *source_of(const Job *j, const void *bytes)
{
    const ReadsWidened *w = reads_widened(j->reads, bytes);
    return w != NULL ? w->from : bytes;
}

// Does the plan have the constant only in ways that the program knows to make? Packing that it does not know
// bears the name of the constant.
static bool is_made(const Job *j, const Plan *p, NodeId id)
{
    const void *from = source_of(j, node_attr(graph_node(p->graph, id), A_const_data)->u.blob);
    bool is_there = false;
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buffer = &p->buffers.data[b];
        const unsigned char *data = buffer->data;
        GemmPacked panels;
        if (!is_placed(buffer))
            continue;
        if (gemm_packed_in(buffer, &data, &panels) || buffer->data != NULL)
            is_there = is_there || data == from;
        else if (buffer->fill != NULL && buffer->name != NULL &&
                 str_equal(buffer->name, node_name(p->graph, id)))
            return false;
    }
    return is_there;
}

// Constants that kernels have in an order, or as numbers, that the program does not make.
static void fix_packed(const Job *j, Load *l, const Plan *p)
{
    const Graph *g = p->graph;
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->n_src; i++)
            if (is_packed(g, n, n->src[i]) && !is_made(j, p, n->src[i]))
                fix(l, source_of(j, node_attr(graph_node(g, n->src[i]), A_const_data)->u.blob));
    }
    for (BufId b = 1; b < p->buffers.len; b++) { // as f32, which the program has not
        const PlanBuffer *buffer = &p->buffers.data[b];
        if (is_placed(buffer) && reads_widened(j->reads, buffer->data) != NULL)
            fix(l, source_of(j, buffer->data));
    }
}

// Has somebody looked at the numbers of a tensor?
static bool is_read(const Job *j, const LoadTensor *t)
{
    const ReadsWidened *w = reads_widened_from(j->reads, t->tensor->data);
    return reads_has_seen(j->reads, t->tensor->data) || (w != NULL && reads_has_seen(j->reads, w->to));
}

// Equal tensors may be one constant. A number alone may be looked at before anybody notes it.
static void fix_unloaded(Load *l)
{
    for (uint32_t i = 0; i < l->tensors.len; i++) {
        LoadTensor *t = &l->tensors.data[i];
        const GgufTensor *own = t->tensor;
        const uint64_t numel = own->dim[0] * own->dim[1] * own->dim[2] * own->dim[3];
        t->is_fixed = t->is_fixed || !t->is_loaded || numel == 1;
        for (uint32_t k = 0; k < l->tensors.len && !t->is_loaded; k++) {
            LoadTensor *other = &l->tensors.data[k];
            if (other->tensor->bytes == own->bytes && memcmp(other->tensor->data, own->data, own->bytes) == 0)
                other->is_fixed = true;
        }
    }
}

static bool find_fixed(const Job *j, Load *l)
{
    const PlanBuckets *b = j->plan->buckets;
    rlx_assert(j->reads != NULL);
    for (uint32_t i = 0; i < (b != NULL ? b->n : 1); i++)
        fix_packed(j, l, b != NULL ? b->plan[i] : j->plan);
    for (uint32_t i = 0; i < l->tensors.len; i++)
        if (is_read(j, &l->tensors.data[i]))
            l->tensors.data[i].is_fixed = true;
    fix_unloaded(l);
    for (uint32_t i = 0; i < l->tensors.len; i++) {
        const LoadTensor *t = &l->tensors.data[i];
        if (t->is_fixed && t->tensor->bytes > MOST_OWN_BYTES)
            return diag_error(j->cli->diag, (Span){0}, E0003,
                              "--weights load: tensor '%s' (%llu bytes) becomes a part of the code",
                              t->tensor->name, (unsigned long long)t->tensor->bytes);
    }
    return true;
}

static bool has_loops(const Plan *p)
{
    for (uint32_t i = 0; i < p->kernels.len; i++)
        if (p->kernels.data[i].loop != NULL)
            return true;
    return false;
}

bool load_find_parts(Job *j, Load *l)
{
    const PlanBuckets *b = j->plan->buckets;
    for (uint32_t i = 0; i < l->file.tensors.len; i++)
        vec_push(j->cli->arena, &l->tensors, ((LoadTensor){.tensor = &l->file.tensors.data[i]}));
    if (l->tensors.len == 0 || l->tensors.len >= LOAD_NONE)
        return load_refuse(j, "expected 1 to 65534 tensors");
    qsort(l->tensors.data, l->tensors.len, sizeof *l->tensors.data, by_name);
    for (uint32_t i = 0; i < (b != NULL ? b->n : 1); i++) {
        const Plan *p = b != NULL ? b->plan[i] : j->plan;
        if (has_loops(p))
            return load_refuse(j, "expected a model without loops");
        add_region(j, l, p, REGION_WEIGHTS, 0);
        add_region(j, l, p, REGION_EXPERTS, p->region_bytes[REGION_WEIGHTS]);
    }
    sort_parts(l);
    return place_own(j, l) && find_fixed(j, l);
}
