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

static int by_place(const void *a, const void *b)
{
    const LoadPart *x = a, *y = b;
    return x->to < y->to ? -1 : x->to > y->to;
}

typedef struct Address {
    uintptr_t at;
    uint32_t tensor;
} Address;

static int by_address(const void *a, const void *b)
{
    const Address *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : (x->tensor < y->tensor ? -1 : 1);
}

static void sort_addresses(Job *j, Load *l)
{
    Arena scratch = {0};
    Address *all = ARENA_ARRAY(&scratch, Address, l->tensors.len);
    l->by_place = ARENA_ARRAY(j->cli->arena, uint32_t, l->tensors.len);
    for (uint32_t i = 0; i < l->tensors.len; i++)
        all[i] = (Address){(uintptr_t)l->tensors.data[i].data, i};
    qsort(all, l->tensors.len, sizeof *all, by_address);
    for (uint32_t i = 0; i < l->tensors.len; i++)
        l->by_place[i] = all[i].tensor;
    arena_free(&scratch);
}

// The tensor in which the bytes lie; LOAD_NONE: they are not in the file.
static uint32_t find_tensor(const Load *l, const void *bytes, uint64_t n)
{
    const uintptr_t at = (uintptr_t)bytes;
    uint32_t low = 0, high = l->tensors.len; // the last that begins there or before is below `low`
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if ((uintptr_t)l->tensors.data[l->by_place[middle]].data <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return LOAD_NONE;
    const LoadTensor *t = &l->tensors.data[l->by_place[low - 1]];
    const uint64_t from = at - (uintptr_t)t->data;
    return from <= t->bytes && n <= t->bytes - from ? l->by_place[low - 1] : LOAD_NONE;
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

// What a part is made of.
typedef struct Source {
    const unsigned char *data;
    uint64_t bytes;
    uint32_t kind;
    bool is_seen; // somebody has looked at the numbers
    const PackedBlocks *packed;
    const GemmPacked *panels;
} Source;

static bool is_seen(const Job *j, const void *data)
{
    const ReadsWidened *w = reads_widened_from(j->reads, data);
    return reads_has_seen(j->reads, data) || (w != NULL && reads_has_seen(j->reads, w->to));
}

static Source source_of_buffer(Job *j, const PlanBuffer *b)
{
    Source s = {.data = b->data, .bytes = b->bytes, .kind = RLX_LOAD_BYTES};
    GemmPacked *panels = ARENA_NEW(j->cli->arena, GemmPacked);
    const ReadsWidened *w = NULL;
    s.packed = blocks_packed_in(b, &s.data);
    if (s.packed != NULL) {
        s.kind = RLX_LOAD_BLOCKS;
    } else if (gemm_packed_in(b, &s.data, panels)) {
        s.kind = RLX_LOAD_PANELS;
        s.panels = panels;
    } else if (s.data != NULL && (w = reads_widened(j->reads, s.data)) != NULL) {
        s.kind = w->type == DTYPE_f16 ? RLX_LOAD_F16 : RLX_LOAD_BF16;
        s.data = w->from;
        s.bytes = b->bytes / 2;
    }
    if (s.kind == RLX_LOAD_BLOCKS || s.kind == RLX_LOAD_PANELS)
        s.bytes = source_bytes(b, s.packed, s.panels);
    s.is_seen = s.data != NULL && is_seen(j, s.data);
    return s;
}

// Bytes [to, to + bytes) of the weights. False: they are of no tensor.
static bool add_source(Job *j, Load *l, const Source *s, const PlanBuffer *b, uint64_t to, uint64_t bytes)
{
    const unsigned char *data = s->data != NULL ? reads_source(j->reads, s->data, s->bytes) : NULL;
    const uint32_t t = data != NULL ? find_tensor(l, data, s->bytes) : LOAD_NONE;
    if (t == LOAD_NONE)
        return false;
    LoadPart p = {.to = to, .bytes = bytes, .tensor = t, .kind = s->kind, .format = LOAD_NONE, .buffer = b};
    p.from = (uint64_t)(data - l->tensors.data[t].data);
    p.packed = s->packed;
    p.panels = s->panels;
    if (s->kind == RLX_LOAD_BLOCKS)
        p.format = number_format(j, l, s->packed);
    else if (s->kind == RLX_LOAD_PANELS)
        p.format = number_layout(j, l, s->panels);
    l->tensors.data[t].is_loaded = true;
    l->tensors.data[t].is_fixed = l->tensors.data[t].is_fixed || s->is_seen;
    vec_push(j->cli->arena, &l->parts, p);
    return true;
}

// Matrices of which each is a tensor.
static bool add_matrices(Job *j, Load *l, const Source *s, const PlanBuffer *b, uint64_t to)
{
    if (s->panels == NULL || s->panels->n_matrices < 2)
        return false;
    const uint32_t n_parts = l->parts.len;
    const int64_t n = s->panels->n_matrices;
    GemmPacked *each = arena_copy(j->cli->arena, s->panels, sizeof *s->panels);
    Source one = *s;
    each->n_matrices = 1;
    each->matrix = 0;
    one.panels = each;
    one.bytes = source_bytes(b, NULL, each);
    for (int64_t i = 0; i < n; i++, to += each->stride) {
        one.data = s->data + (uint64_t)(i * s->panels->matrix) * dtype_info[each->type].bytes;
        if (!add_source(j, l, &one, b, to, each->stride)) {
            l->parts.len = n_parts;
            return false;
        }
    }
    return true;
}

static void add_part(Job *j, Load *l, const PlanBuffer *b, uint64_t base)
{
    const Source s = source_of_buffer(j, b);
    const LoadPart own = {.to = base + b->offset, .bytes = b->bytes, .tensor = LOAD_NONE, .buffer = b,
                          .format = LOAD_NONE};
    if (!add_source(j, l, &s, b, own.to, own.bytes) && !add_matrices(j, l, &s, b, own.to))
        vec_push(j->cli->arena, &l->parts, own);
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

// The bytes of the file for which those of a constant stand.
static const void *source_of(const Job *j, const void *bytes)
{
    const ReadsWidened *w = reads_widened(j->reads, bytes);
    return w != NULL ? w->from : bytes;
}

// All tensors in which bytes of a constant lie.
static void fix(const Job *j, Load *l, NodeId id, const Graph *g)
{
    const Node *n = graph_node(g, id);
    const void *own = node_attr(n, A_const_data)->u.blob;
    const ReadsWidened *w = reads_widened(j->reads, own);
    const unsigned char *at = source_of(j, own);
    const uint64_t bytes = type_bytes(w != NULL ? w->type : (DType)n->dtype, n->shape);
    for (uint64_t i = 0; i < bytes;) {
        const unsigned char *from = reads_source(j->reads, at + i, 1);
        const uint32_t t = find_tensor(l, from, 1);
        if (t == LOAD_NONE)
            return;
        l->tensors.data[t].is_fixed = true;
        i += l->tensors.data[t].bytes - (uint64_t)(from - l->tensors.data[t].data);
    }
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
            is_there = is_there || source_of(j, data) == from;
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
                fix(j, l, n->src[i], g);
    }
}

// Equal tensors may be one constant. A number alone may be looked at before anybody notes it.
static void fix_unloaded(Load *l)
{
    for (uint32_t i = 0; i < l->tensors.len; i++) {
        LoadTensor *t = &l->tensors.data[i];
        const uint64_t numel = t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
        t->is_fixed = !t->is_unused && (t->is_fixed || !t->is_loaded || numel == 1);
        for (uint32_t k = 0; k < l->tensors.len && t->is_fixed && !t->is_loaded; k++) {
            LoadTensor *other = &l->tensors.data[k];
            if (other->bytes == t->bytes && memcmp(other->data, t->data, t->bytes) == 0)
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
        if (is_seen(j, l->tensors.data[i].data))
            l->tensors.data[i].is_fixed = true;
    fix_unloaded(l);
    for (uint32_t i = 0; i < l->tensors.len; i++) {
        const LoadTensor *t = &l->tensors.data[i];
        if (t->is_fixed && t->bytes > MOST_OWN_BYTES)
            return diag_error(j->cli->diag, (Span){0}, E0003,
                              "--weights load: tensor '%s' (%llu bytes) becomes a part of the code",
                              t->name, (unsigned long long)t->bytes);
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
    sort_addresses(j, l);
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
