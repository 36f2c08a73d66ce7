// SPDX-License-Identifier: Apache-2.0
// A kernel as a program of the machine: every value has a register, every jump a place, every constant is
// there before it begins. Values that nobody uses are left out, as emitters leave them out.
#include "ir/interp/resolve.h"

#include <string.h>

enum { FORK_BYTES = 48 << 10, FORK_MOST = 64, FORK_LEAST = 4, BLOCKS = 64 };

// --- registers -----------------------------------------------------------------------------------

uint32_t resolve_register(Resolver *r, uint32_t bytes)
{
    Program *p = r->p;
    const uint32_t slot = p->register_bytes, all = (bytes * p->threads + 7) / 8 * 8;
    rlx_assert(all <= UINT32_MAX / 2 - slot);
    p->register_bytes = slot + all;
    return slot;
}

static uint32_t value_bytes(const KInst *n)
{
    return cell_bytes(n->dtype) * n->lanes;
}

static bool has_register(const KInst *n)
{
    const uint8_t cls = kkind_info[n->kind].cls;
    return (kkind_is_expression(n->kind) && n->kind != KI_list && n->kind != KI_address) ||
           cls == KIND_VALUE || n->kind == KI_var;
}

// The register of a value; constants get theirs when they are first asked for.
uint32_t resolve_slot(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    if (ref == 0)
        return 0;
    if (n->kind == KI_const && r->slot[ref] == 0) {
        r->slot[ref] = resolve_register(r, value_bytes(n));
        vec_push(r->arena, &r->p->constants,
                 ((Constant){.slot = r->slot[ref], .type = n->dtype, .bits = n->imm}));
    }
    return r->slot[ref];
}

// --- code ----------------------------------------------------------------------------------------

static uint32_t here(const Resolver *r)
{
    return r->p->code.len;
}

static Code *push(Resolver *r, Step run, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    Code c = {.run = run, .kind = n->kind, .kop = n->kop, .dtype = n->dtype, .from = n->dtype, .ref = ref};
    c.lanes = n->lanes;
    c.count = n->count;
    c.imm = n->imm;
    const CellClass cls = cell_class(n->dtype);
    c.shift = (uint8_t)(cls == CELL_INT || cls == CELL_UINT ? 64 - dtype_info[n->dtype].bits : 0);
    c.d = has_register(n) ? r->slot[ref] : 0;
    vec_push(r->arena, &r->p->code, c);
    return &r->p->code.data[r->p->code.len - 1];
}

static Code *push_plain(Resolver *r, Step run, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    const uint32_t a = resolve_slot(r, n->a), b = resolve_slot(r, n->b), c = resolve_slot(r, n->c);
    Code *code = push(r, run, ref);
    code->a = a;
    code->b = b;
    code->c = c;
    return code;
}

// Something that is there for the control flow alone.
static Code *push_mark(Resolver *r, Step run, KRef ref)
{
    Code *c = push(r, run, ref);
    c->kind = KI_comment;
    c->d = 0;
    return c;
}

static void resolve_op(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    const KInst *src = k_inst(r->k, kop_info[n->kop].cls == KCLASS_SEL ? n->b : n->a);
    const CellClass cls = cell_class(src->dtype);
    Code *c = push_plain(r, op_steps[n->kop][cls], ref);
    c->from = src->dtype;
}

// Of a float of at most 16 bits: rounded to that.
static uint32_t narrowed(Resolver *r, uint32_t slot, int type, KRef ref, uint32_t to)
{
    Code *c = push(r, step_narrow, ref);
    c->dtype = (uint8_t)type;
    c->a = slot;
    c->d = to;
    c->from = DTYPE_f32;
    return to;
}

static bool is_narrow(int type)
{
    return cell_class(type) == CELL_F32 && type != DTYPE_f32;
}

static void resolve_cast(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref), *src = k_inst(r->k, n->a);
    uint32_t from = resolve_slot(r, n->a);
    if (n->imm == KCAST_VALUE && is_narrow(src->dtype) && src->kind == KI_op && src->dtype != n->dtype)
        from = narrowed(r, from, src->dtype, ref, resolve_register(r, value_bytes(src)));
    Code *c = push(r,
                   n->imm == KCAST_BITS    ? step_bits
                   : n->imm == KCAST_ROUND ? step_round
                                           : cast_step(cell_class(n->dtype), cell_class(src->dtype)),
                   ref);
    c->a = from;
    c->from = src->dtype;
    if (n->imm == KCAST_VALUE && is_narrow(n->dtype)) {
        const uint32_t wide = resolve_register(r, value_bytes(n)), own = c->d;
        c->d = wide;
        narrowed(r, wide, n->dtype, ref, own);
    }
}

// The register of an index of a parameter: behind a KI_point, with where that points to.
static uint32_t index_slot(Resolver *r, KRef index, int64_t param, KRef ref)
{
    const uint32_t slot = resolve_slot(r, index), base = r->point[param];
    if (base == 0)
        return slot;
    const uint32_t sum = resolve_register(r, 8);
    Code *c = push(r, op_steps[KOP_add][CELL_INDEX], ref);
    *c = (Code){.run = c->run,
                .kind = KI_op,
                .kop = KOP_add,
                .dtype = KT_INDEX,
                .from = KT_INDEX,
                .lanes = 1,
                .d = sum,
                .a = slot,
                .b = base,
                .ref = ref};
    return sum;
}

static void resolve_memory(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    const bool is_store = n->kind == KI_store;
    const uint32_t index = index_slot(r, is_store ? n->b : n->a, n->imm, ref), value = resolve_slot(r, n->a);
    Code *c = push(r, is_store ? store_step(n->dtype) : load_step(n->dtype), ref);
    c->a = is_store ? value : index;
    c->b = is_store ? index : 0;
    c->at = (uint32_t)n->imm;
}

static void resolve_wide(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    const uint32_t index = index_slot(r, n->a, n->imm, ref), at = resolve_slot(r, n->c);
    const uint32_t own = n->kind == KI_put ? resolve_register(r, cell_bytes(n->dtype)) : 0;
    Code *c = push(r, n->kind == KI_put ? step_put : step_fetch, ref);
    c->d = own;
    c->a = index;
    c->c = at;
    c->at = (uint32_t)n->imm;
    c->target = r->array[n->b];
}

static void resolve_array(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    Program *p = r->p;
    Array a = {.type = n->dtype, .is_shared = n->flags == KARRAY_SHARED, .n = n->imm};
    a.element = array_element_bytes(n->dtype, a.is_shared);
    r->array[ref] = p->arrays.len;
    if (a.is_shared) {
        p->shared_bytes = (p->shared_bytes + 15) / 16 * 16;
        a.data = SHARED_BEGIN + p->shared_bytes;
        p->shared_bytes += (uint32_t)a.n * a.element;
    } else {
        a.data = p->array_bytes;
        a.state = p->state_bytes;
        const bool is_of_one = r->k->group == 0 && r->parts <= 1 && r->fork_end == 0;
        const size_t threads = is_of_one ? 1 : p->threads;
        p->array_bytes += ((size_t)a.n * a.element * threads + 15) / 16 * 16;
        p->state_bytes += (size_t)a.n * threads;
    }
    vec_push(r->arena, &p->arrays, a);
    push(r, step_array, ref)->at = p->arrays.len - 1;
}

static void resolve_element(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    const uint32_t index = resolve_slot(r, n->b), value = n->kind == KI_astore ? resolve_slot(r, n->c) : 0;
    Code *c = push(r, n->kind == KI_astore ? step_astore : step_aload, ref);
    c->b = index;
    c->c = value;
    c->at = r->array[n->a];
}

static void resolve_copy(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    const bool is_set = n->kind == KI_set;
    if (r->is_left_out[ref])
        return;
    const uint32_t from = resolve_slot(r, is_set ? n->b : n->a);
    Code *c = push(r, step_copy, ref);
    c->a = from;
    c->d = r->slot[is_set ? n->a : ref];
}

static void resolve_lanes(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    Code *c = push_plain(r,
                         n->kind == KI_splat ? step_splat
                         : n->kind == KI_zip ? step_zip
                                             : step_hreduce,
                         ref);
    c->count = k_inst(r->k, n->a)->lanes;
}

static void resolve_team(Resolver *r, KRef ref)
{
    push_plain(r, step_team, ref);
}

static void resolve_number(Resolver *r, KRef ref)
{
    const uint8_t kind = k_inst(r->k, ref)->kind;
    push(r, kind == KI_part ? step_part : kind == KI_since ? step_since : step_thread, ref);
}

// In force up to the end of the block.
static void resolve_point(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    const uint32_t entry = resolve_slot(r, n->a), own = resolve_slot(r, n->b),
                   address = resolve_register(r, 8);
    const uint32_t base = resolve_register(r, 8);
    Code *load = push(r, load_step(DTYPE_u64), ref);
    *load = (Code){.run = load->run,
                   .kind = KI_load,
                   .dtype = DTYPE_u64,
                   .lanes = 1,
                   .count = 1,
                   .d = address,
                   .a = entry,
                   .at = r->k->params.data[n->imm].table - 1,
                   .ref = ref};
    Code *c = push(r, step_point, ref);
    c->a = address;
    c->b = own;
    c->d = base;
    vec_push(r->arena, &r->points, ((Point){(uint32_t)n->imm, r->point[n->imm], r->depth}));
    r->point[n->imm] = base;
}

// --- device functions ----------------------------------------------------------------------------

static Operand operand_of(Resolver *r, char letter, KRef of, KRef ref)
{
    const KInst *n = k_inst(r->k, of);
    Operand o = {.letter = letter, .type = n->dtype};
    if (letter == 'F' || letter == 'R') {
        o.at = r->array[of];
    } else if (letter == 'p') {
        o.at = (uint32_t)n->imm;
        o.slot = index_slot(r, n->a, n->imm, ref);
    } else {
        o.slot = resolve_slot(r, of);
    }
    return o;
}

// Functions by which the copy engine or wgmma read what threads may have written.
static bool wants_fences(KDevice f)
{
    return f == KDEV_wgmma || f == KDEV_wgmma_bytes || f == KDEV_wgmma_r || f == KDEV_bulk_store ||
           (f >= KDEV_tma_store_2d && f <= KDEV_tma_store_4d);
}

static void resolve_device(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    const KDevice f = kdev_of(n);
    const KRef own[3] = {n->a, n->b, n->c};
    const char *letters = device_info[f].operands;
    const uint32_t count = (uint32_t)strlen(letters);
    Operand operand[KDEV_MAX_OPERANDS];
    for (uint32_t i = 0; i < count; i++)
        operand[i] =
            operand_of(r, letters[i], n->kind == KI_device ? k_device_operand(r->k, n, i) : own[i], ref);
    const uint32_t first = r->p->operands.len;
    for (uint32_t i = 0; i < count; i++)
        vec_push(r->arena, &r->p->operands, operand[i]);
    Code *c = push(r, step_device, ref);
    c->kop = (uint8_t)f;
    c->imm = kdev_constant(n);
    c->at = first;
    c->count = count;
    c->target = r->loop;
    r->p->has_fences = r->p->has_fences || wants_fences(f);
}

static void resolve_matrix(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    if (n->kop == KMATRIX_store) {
        const uint32_t index = resolve_slot(r, n->b), step = resolve_slot(r, n->c);
        Code *c = push(r, step_matrix, ref);
        c->at = r->array[n->a];
        c->b = index;
        c->c = step;
    } else {
        Code *c = push_plain(r, step_matrix, ref);
        c->at = (uint32_t)n->imm;
    }
    r->p->code.data[here(r) - 1].flags = n->flags;
    r->p->has_matrix = true;
}

// --- blocks --------------------------------------------------------------------------------------

static void open(Resolver *r, uint32_t code, uint8_t form)
{
    rlx_assert(r->depth < BLOCKS);
    r->block[r->depth++] = (Block){.code = code, .form = form, .loop = r->loop};
}

static void resolve_if(Resolver *r, KRef ref)
{
    open(r, here(r), BLOCK_IF);
    push_plain(r, step_if, ref);
}

static void end_points(Resolver *r)
{
    while (r->points.len > 0 && r->points.data[r->points.len - 1].depth >= r->depth) {
        const Point p = r->points.data[--r->points.len];
        r->point[p.param] = p.before;
    }
}

static void resolve_else(Resolver *r, KRef ref)
{
    Block *b = &r->block[r->depth - 1];
    end_points(r);
    b->jump = here(r);
    push_mark(r, step_jump, ref);
    r->p->code.data[b->code].target = here(r);
}

// A loop over groups runs once in each group.
static void resolve_group(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    int64_t low = 0, high = 0;
    const bool is_const = k_is_const(r->k, n->a, &low) && k_is_const(r->k, n->b, &high);
    rlx_assert(is_const && high > low && (high - low + n->imm - 1) / n->imm <= UINT32_MAX);
    open(r, here(r), BLOCK_GROUP);
    Code *c = push_plain(r, step_group, ref);
    c->count = (uint32_t)((high - low + n->imm - 1) / n->imm);
    c->other = (uint32_t)n->imm;
    r->p->n_groups *= c->count;
}

static void resolve_for(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    if (n->flags == KFOR_GROUP) {
        resolve_group(r, ref);
        return;
    }
    if (r->fork_end == 0 && resolve_may_fork(r, ref)) {
        open(r, here(r), BLOCK_FORK);
        r->fork_end = k_block_end(r->k, ref);
        push_mark(r, step_fork, ref);
        resolve_fork(r, ref, here(r) - 1);
        return;
    }
    if (r->is_joined[ref]) { // to the loops of a fork
        open(r, here(r), BLOCK_NONE);
        return;
    }
    if (r->fork_end == 0 && r->is_batch[ref]) {
        open(r, here(r), BLOCK_BATCH);
        r->batch_end = k_block_end(r->k, ref);
        push_plain(r, step_batch, ref);
        resolve_batch(r, ref, here(r) - 1);
        return;
    }
    open(r, here(r), BLOCK_LOOP);
    r->loop = here(r);
    push_plain(r, step_for, ref)->c = r->way;
}

static void resolve_one(Resolver *r, KRef ref);

// Behind the rest of the body: what follows for each iteration.
static void resolve_chain(Resolver *r, uint32_t begin, KRef end)
{
    const uint32_t chain = here(r);
    r->batch_end = 0;
    push_mark(r, step_chain, end)->at = r->p->code.data[begin].at;
    for (KRef ref = r->p->code.data[begin].ref + 1; ref < end; ref++)
        if (r->is_chain[ref])
            resolve_one(r, ref);
    r->p->code.data[chain].count = here(r) - chain - 1;
    push_mark(r, step_batch_next, end)->target = begin;
    r->p->code.data[begin].other = here(r);
}

static void resolve_end(Resolver *r, KRef ref)
{
    const Block b = r->block[--r->depth];
    Code *code = r->p->code.data;
    r->depth++;
    end_points(r);
    r->depth--;
    r->loop = b.loop;
    if (b.form == BLOCK_IF) {
        code[b.code].other = here(r);
        code[b.jump != 0 ? b.jump : b.code].target = here(r);
        push_mark(r, step_join, ref);
    } else if (b.form == BLOCK_LOOP) {
        push_mark(r, step_next, ref)->target = b.code;
        r->p->code.data[b.code].other = here(r);
        push_mark(r, step_join, ref);
    } else if (b.form == BLOCK_FORK) {
        push_mark(r, step_fork_next, ref)->target = b.code;
        r->p->code.data[b.code].other = here(r);
        r->fork_end = 0;
    } else if (b.form == BLOCK_BATCH) {
        resolve_chain(r, b.code, ref);
    }
}

// --- kernels -------------------------------------------------------------------------------------

static void resolve_barrier(Resolver *r, KRef ref)
{
    push_mark(r, step_barrier, ref);
}

static void (*const rules[KI_COUNT])(Resolver *, KRef) = {
    [KI_part] = resolve_number,     [KI_thread] = resolve_number, [KI_op] = resolve_op,
    [KI_since] = resolve_number,
    [KI_cast] = resolve_cast,       [KI_splat] = resolve_lanes,   [KI_zip] = resolve_lanes,
    [KI_hreduce] = resolve_lanes,   [KI_call] = resolve_device,   [KI_load] = resolve_memory,
    [KI_get] = resolve_copy,        [KI_aload] = resolve_element, [KI_var] = resolve_copy,
    [KI_set] = resolve_copy,        [KI_array] = resolve_array,   [KI_astore] = resolve_element,
    [KI_store] = resolve_memory,    [KI_fetch] = resolve_wide,    [KI_put] = resolve_wide,
    [KI_team] = resolve_team,       [KI_point] = resolve_point,   [KI_for] = resolve_for,
    [KI_if] = resolve_if,           [KI_else] = resolve_else,     [KI_end] = resolve_end,
    [KI_barrier] = resolve_barrier, [KI_matrix] = resolve_matrix, [KI_device] = resolve_device,
};

static void resolve_one(Resolver *r, KRef ref)
{
    const KInst *n = k_inst(r->k, ref);
    if (kkind_is_expression(n->kind) && !r->is_used[ref])
        return;
    if (r->same[ref] != 0)
        r->slot[ref] = r->slot[r->same[ref]];
    if (has_register(n) && n->kind != KI_const && r->slot[ref] == 0)
        r->slot[ref] = resolve_register(r, value_bytes(n));
    if (rules[n->kind] != NULL)
        rules[n->kind](r, ref);
}

static void count_uses(Resolver *r)
{
    for (KRef ref = r->k->insts.len; ref-- > 1;) {
        const KInst *n = k_inst(r->k, ref);
        const KRef src[3] = {n->a, n->b, n->c};
        const bool is_dead = kkind_is_expression(n->kind) && !r->is_used[ref];
        for (uint32_t i = 0; !is_dead && n->kind != KI_prefetch && i < 3; i++)
            r->is_used[src[i]] = true;
    }
}

// How many iterations of parallel loops run at once: as many as have room in a cache.
static uint32_t fork_threads(const Resolver *r)
{
    uint64_t bytes = 1;
    for (KRef ref = 1; ref < r->k->insts.len; ref++) {
        const KInst *n = k_inst(r->k, ref);
        bytes += has_register(n) && n->kind != KI_const && r->same[ref] == 0 &&
                         (r->is_used[ref] || !kkind_is_expression(n->kind))
                     ? value_bytes(n)
                     : 0;
    }
    const uint64_t n = FORK_BYTES / bytes;
    return n > FORK_MOST ? FORK_MOST : n < FORK_LEAST ? FORK_LEAST : (uint32_t)n;
}

uint32_t resolve_groups_at_once(const Kernel *k)
{
    rlx_assert(k->group != 0 || k->cluster <= 1);
    return k->resident > 1 ? k->resident : k->cluster > 1 ? k->cluster : 1;
}

static uint32_t thread_count(Resolver *r, const EvalLaunch *l)
{
    if (r->k->group != 0)
        return (uint32_t)r->k->group * resolve_groups_at_once(r->k);
    const bool has_batches = resolve_find_batches(r);
    if (l->parts > 1)
        return l->parts;
    for (KRef ref = 1; ref < r->k->insts.len; ref++)
        if (k_inst(r->k, ref)->kind == KI_for && resolve_may_fork(r, ref))
            return fork_threads(r);
    return has_batches ? fork_threads(r) : 1;
}

// Groups follow each other along the innermost loop.
static void find_strides(Program *p)
{
    int64_t inner = 1;
    for (uint32_t i = p->code.len; i-- > 0;)
        if (p->code.data[i].run == step_group) {
            p->code.data[i].imm = inner;
            inner *= p->code.data[i].count;
        }
}

Program *program_make(Arena *a, const EvalLaunch *l)
{
    const Kernel *k = l->kernel;
    Resolver r = {.arena = a, .k = k, .p = ARENA_NEW(a, Program), .parts = l->parts};
    r.slot = ARENA_ARRAY(a, uint32_t, k->insts.len);
    r.array = ARENA_ARRAY(a, uint32_t, k->insts.len);
    r.is_used = ARENA_ARRAY(a, bool, k->insts.len);
    r.is_joined = ARENA_ARRAY(a, bool, k->insts.len);
    r.point = ARENA_ARRAY(a, uint32_t, (size_t)k->params.len + 1);
    r.same = ARENA_ARRAY(a, KRef, k->insts.len);
    r.is_left_out = ARENA_ARRAY(a, bool, k->insts.len);
    r.is_batch = ARENA_ARRAY(a, bool, k->insts.len);
    r.is_chain = ARENA_ARRAY(a, bool, k->insts.len);
    r.p->k = k;
    r.p->n_groups = 1;
    r.p->shared_bytes = k->shared_bytes;
    count_uses(&r);
    resolve_copies(&r);
    r.p->threads = thread_count(&r, l);
    r.way = resolve_register(&r, 8); // register 0 stands for none
    for (KRef ref = 1; ref < k->insts.len; ref++)
        if (ref >= r.batch_end || !r.is_chain[ref])
            resolve_one(&r, ref);
    push_mark(&r, step_end, k->insts.len - 1);
    find_strides(r.p);
    return r.p;
}
