// SPDX-License-Identifier: Apache-2.0
// Memory plan: when every buffer holds data, and at which offset each lies.
// The bound beside the result is the largest sum of buffers that hold data at one time.
#include "passes/plan/memplan.h"
#include "passes/plan/dispatch.h"

enum { STAGED_ALIGN = 256, STAGED_PAD = 64 };

// GPUs read memory by lines of 128 bytes and fetch pairs of them. Rows that are whole lines need half as many
// requests where they begin with one. Buffers that are smaller are left where they are.
enum { GPU_ALIGN = 256 };

// Regions that another one begins behind are whole lines, too.
static void align_regions(Plan *p)
{
    static const Region before[] = {REGION_STATE, REGION_WEIGHTS};
    for (uint32_t i = 0; i < sizeof before / sizeof *before; i++)
        p->region_bytes[before[i]] = plan_round_up(p->region_bytes[before[i]], GPU_ALIGN);
}

static void align_buffers(Plan *p)
{
    for (BufId b = 1; b < p->buffers.len; b++) {
        PlanBuffer *buf = &p->buffers.data[b];
        if (buf->bytes >= GPU_ALIGN && buf->align < GPU_ALIGN)
            buf->align = GPU_ALIGN;
    }
}

// Where memory is short, buffers begin at multiples of a word, or of their elements. What loops pass on to
// the kernels of their bodies keeps its alignment.
static void align_closely(Plan *p, Arena *scratch)
{
    enum { WORD = 4 };
    uint64_t *align = ARENA_ARRAY(scratch, uint64_t, p->buffers.len);
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        for (uint32_t j = 0; j < k->args.len; j++) {
            const uint64_t own = k->loop != NULL ? 64 : dtype_info[k->kernel->params.data[j].dtype].bytes;
            uint64_t *of = &align[k->args.data[j].buf];
            *of = own > *of ? own : *of;
        }
    }
    for (uint32_t i = 0; i < p->inputs.len + p->outputs.len; i++) {
        const PlanIo *io = i < p->inputs.len ? &p->inputs.data[i] : &p->outputs.data[i - p->inputs.len];
        const uint64_t own = dtype_info[io->dtype].bytes;
        align[io->buf] = own > align[io->buf] ? own : align[io->buf];
    }
    for (BufId b = 1; b < p->buffers.len; b++) {
        PlanBuffer *buf = &p->buffers.data[b];
        const uint64_t least = align[b] > WORD ? align[b] : WORD;
        if (buf->region == REGION_ARENA && buf->align > least)
            buf->align = least;
    }
}

// --- offsets -------------------------------------------------------------------------------------

// All in one block.
static void place_block(Planner *m, PlaceItem *items, uint32_t n)
{
    Plan *p = m->plan;
    PlaceResult result;
    place_solve(m->pass->scratch, items, n, (PlaceBudget){m->pass->options->place_budget}, &result);
    memplan_overlap(m, m->pass->scratch, 0, items, n, &result);
    memplan_turn(m, items);
    p->region_bytes[REGION_ARENA] = result.arena;
    p->arena_lower_bound = result.lower_bound;
    p->arena_optimal = result.optimal;
}

static void place_arena(Planner *m)
{
    Plan *p = m->plan;
    PlaceItem *items = ARENA_ARRAY(m->pass->scratch, PlaceItem, p->buffers.len);
    BufId *ids = ARENA_ARRAY(m->pass->scratch, BufId, p->buffers.len);
    uint32_t n = 0;
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        if (!planner_is_arena(m, b) || m->owner[b] != b || buf->first == UINT32_MAX || m->is_staged[b])
            continue;
        ids[n] = b;
        m->item[b] = n + 1;
        items[n++] = (PlaceItem){
            .first = buf->first, .last = buf->last, .size = buf->bytes, .align = buf->align, .fixed = -1};
    }
    memplan_find_overlaps(m, n);
    if (plan_count_banks(p, false) != 0)
        memplan_place_banks(m, items, ids, n);
    else
        place_block(m, items, n);
    for (uint32_t i = 0; i < n; i++)
        p->buffers.data[ids[i]].offset = items[i].offset;
    for (BufId b = 1; b < p->buffers.len; b++)
        if (m->owner[b] != b) {
            p->buffers.data[b].offset = p->buffers.data[m->owner[b]].offset;
            p->buffers.data[b].bank = p->buffers.data[m->owner[b]].bank;
        }
}

// --- what a GPU and its host exchange ------------------------------------------------------------

void memplan_for_exchanged(Planner *m, void (*fn)(Planner *m, BufId b))
{
    const Plan *p = m->plan;
    for (uint32_t i = 0; plan_io(p, i) != NULL; i++)
        fn(m, plan_io(p, i)->buf);
    for (uint32_t i = 0; i < p->checks.len; i++)
        fn(m, p->checks.data[i].buf);
    for (uint32_t i = 0; i < p->experts.layers.len; i++)
        fn(m, p->experts.layers.data[i].choice);
}

static void mark_staged(Planner *m, BufId b)
{
    m->is_staged[b] = planner_is_arena(m, b);
}

static void place_staged(Planner *m, BufId b)
{
    uint64_t *end = &m->plan->region_bytes[REGION_ARENA];
    if (!m->is_staged[b])
        return;
    m->is_staged[b] = false; // once
    PlanBuffer *buf = planner_buffer(m, b);
    buf->offset = plan_round_up(*end, buf->align);
    *end = buf->offset + plan_round_up(buf->bytes, STAGED_PAD);
}

// Behind all else in the arena, so that few copies move all of it.
static void place_exchanged(Planner *m)
{
    Plan *p = m->plan;
    uint64_t *end = &p->region_bytes[REGION_ARENA];
    *end = p->gpu.staged = plan_round_up(*end, STAGED_ALIGN);
    if (p->page != 0)
        *end += plan_round_up(planner_buffer(m, p->page)->bytes, STAGED_PAD);
    memplan_for_exchanged(m, place_staged);
    p->arena_lower_bound += *end - p->gpu.staged;
}

// Persistent regions: one after the other. Constants that no kernel reads any more (they were packed) get no
// bytes. On microcontrollers, which load words, they are next to each other in flash.
static void place_region(Planner *m, Region region)
{
    enum { WORDS = 8 };
    const bool is_close = region == REGION_WEIGHTS && m->pass->options->caps->prefers_ints;
    uint64_t next = 0;
    for (BufId b = 1; b < m->plan->buffers.len; b++) {
        PlanBuffer *buf = planner_buffer(m, b);
        if (buf->region != region || (region == REGION_WEIGHTS && buf->first == UINT32_MAX))
            continue;
        if (is_close && buf->align > WORDS)
            buf->align = WORDS;
        buf->offset = plan_round_up(next, buf->align);
        next = buf->offset + plan_round_up(buf->bytes, buf->align);
    }
    m->plan->region_bytes[region] = next;
}

// Constants that stay in the user's file: whole ones, as the model has them. (What the bodies of loops read
// is copied next to each other.)
static void find_in_file(Planner *m)
{
    const PlanFile *f = m->pass->options->file;
    if (f == NULL || m->pass->frame != NULL)
        return;
    m->plan->file = f;
    m->plan->region_bytes[REGION_FILE] = f->len;
    for (BufId b = 1; b < m->plan->buffers.len; b++) {
        PlanBuffer *buf = planner_buffer(m, b);
        if (buf->region != REGION_WEIGHTS || buf->first == UINT32_MAX ||
            !plan_file_has(f, buf->data, buf->bytes))
            continue;
        buf->region = REGION_FILE;
        buf->align = PLAN_FILE_ALIGN;
        buf->offset = (uint64_t)((const unsigned char *)buf->data - f->data);
    }
}

// Kernels by what they depend on, as if no bytes were used twice: their groups are what memory must not
// split.
static void find_groups_first(Planner *m)
{
    place_region(m, REGION_ARENA);
    place_region(m, REGION_STATE);
    place_region(m, REGION_PARAM);
    dispatch_arrange(m->plan, m->pass->options);
}

// A buffer holds data for the whole of a group, whose kernels are in no order.
static void extend_to_groups(Plan *p, Arena *scratch)
{
    const uint32_t n = p->kernels.len;
    uint32_t *begin = ARENA_ARRAY(scratch, uint32_t, n + 1u), *end = ARENA_ARRAY(scratch, uint32_t, n + 1u);
    for (uint32_t i = 1; i < n; i++)
        begin[i] = plan_opens_group(p, i) ? i : begin[i - 1];
    for (uint32_t i = n; i-- > 0;)
        end[i] = i + 1 < n && !plan_opens_group(p, i + 1) ? end[i + 1] : i;
    for (BufId b = 1; b < p->buffers.len && n != 0; b++) {
        PlanBuffer *buf = &p->buffers.data[b];
        buf->first = buf->first < n ? begin[buf->first] : buf->first;
        buf->last = end[buf->last];
    }
}

// A buffer without bytes may have the address of another one.
static bool is_empty_alias(const Plan *p, const PlanArg *written, const PlanArg *other)
{
    const PlanBuffer *a = &p->buffers.data[written->buf], *b = &p->buffers.data[other->buf];
    return a->region == b->region && (a->bytes == 0 || b->bytes == 0) &&
           a->offset + written->byte_offset == b->offset + other->byte_offset;
}

// Compilers may warn of restrict pointers that are equal, though nothing is read or written through them.
static void mark_empty_aliases(Plan *p, PlanKernel *k)
{
    for (uint32_t i = 0; i < k->args.len; i++)
        for (uint32_t j = 0; k->args.data[i].is_written && j < k->args.len; j++)
            if (i != j && is_empty_alias(p, &k->args.data[i], &k->args.data[j]))
                k->kernel->may_alias = true;
}

static Planner planner_of(Pass *p)
{
    const Plan *plan = p->plan;
    Planner m = {.pass = p,
                 .plan = p->plan,
                 .owner = ARENA_ARRAY(p->scratch, BufId, plan->buffers.len),
                 .is_output = ARENA_ARRAY(p->scratch, bool, plan->buffers.len),
                 .is_staged = ARENA_ARRAY(p->scratch, bool, plan->buffers.len),
                 .item = ARENA_ARRAY(p->scratch, uint32_t, plan->buffers.len),
                 .is_latency = p->options->goal == PLAN_LATENCY && p->options->caps->is_gpu,
                 .has_exchange = p->options->caps->is_gpu && p->frame == NULL};
    for (BufId b = 1; b < plan->buffers.len; b++)
        m.owner[b] = b;
    for (uint32_t i = 0; i < plan->outputs.len; i++)
        m.is_output[plan->outputs.data[i].buf] = true;
    for (uint32_t i = 0; i < plan->sizes.len; i++)
        m.is_output[plan->sizes.data[i].buf] = true;
    for (uint32_t i = 0; i < plan->checks.len; i++)
        m.is_output[plan->checks.data[i].buf] = true;
    if (m.has_exchange)
        memplan_for_exchanged(&m, mark_staged);
    return m;
}

// Which buffers have bytes of their own, and from which kernel to which they hold data.
static void settle_buffers(Planner *m)
{
    const bool shares = m->pass->options->opt_level >= 1;
    if (m->pass->frame != NULL && shares)
        memplan_carry(m);
    if (m->is_latency)
        find_groups_first(m);
    plan_find_lifetimes(m->plan);
    if (shares)
        memplan_share(m);
    if (m->is_latency)
        extend_to_groups(m->plan, m->pass->scratch);
}

static void place_buffers(Planner *m)
{
    place_region(m, REGION_STATE);
    place_region(m, REGION_PARAM);
    place_region(m, REGION_PREPARED);
    memplan_begin_banks(m->pass);
    place_arena(m);
    if (m->is_latency)
        plan_find_lifetimes(m->plan);
    if (m->has_exchange)
        place_exchanged(m);
    find_in_file(m);
    place_region(m, REGION_WEIGHTS);
    if (plan_count_banks(m->plan, true) != 0)
        memplan_place_weights(m);
    place_region(m, REGION_EXPERTS);
    place_region(m, REGION_MAPS);
    place_region(m, REGION_ROWS);
}

// Every buffer that is used lies in its region, at a multiple of its alignment.
static bool are_buffers_placed(const Plan *p)
{
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *x = &p->buffers.data[b];
        const bool has_place =
            x->first != UINT32_MAX && x->region != REGION_OUTER && x->region != REGION_FILE;
        if (has_place && (x->offset % (x->align != 0 ? x->align : 1) != 0 ||
                          x->offset + x->bytes > p->region_bytes[x->region]))
            return false;
    }
    return true;
}

void memplan_run(Pass *p, LeadMemo *known)
{
    rlx_assert(p->plan->buffers.len > 0 && p->plan->n_check_kernels <= p->plan->kernels.len);
    if (pass_is_serial(p))
        align_closely(p->plan, p->scratch);
    Planner m = planner_of(p);
    m.known = known;
    settle_buffers(&m);
    place_buffers(&m);
}

bool pass_memplan(Pass *p)
{
    const bool is_gpu = p->options->caps->is_gpu;
    if (is_gpu)
        align_buffers(p->plan);
    p->failed = !memplan_fit(p);
    if (p->failed)
        return false;
    if (is_gpu)
        align_regions(p->plan);
    for (uint32_t i = 0; i < p->plan->kernels.len; i++)
        mark_empty_aliases(p->plan, &p->plan->kernels.data[i]);
    rlx_assert(are_buffers_placed(p->plan));
    return !p->failed;
}
