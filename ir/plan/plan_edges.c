// SPDX-License-Identifier: Apache-2.0
// Which kernels must wait for which: a sweep over the kernels in order, with the bytes of each region as
// disjoint pieces that remember who wrote them last and who has read them since. Of the edges that it finds,
// those stay that no path of others replaces.
#include "ir/plan/plan.h"
#include <stdlib.h>
#include <string.h>

// Readers of a piece since it was written, the last one first. Pieces that were one share their lists.
typedef struct Reader {
    uint32_t kernel;
    const struct Reader *next;
} Reader;

typedef struct Piece {
    uint64_t begin, end;
    uint32_t writer; // 1 + kernel; 0: nobody
    const Reader *readers;
} Piece;

typedef struct Pieces {
    VEC(Piece) list; // sorted, disjoint; together all bytes that somebody touched
} Pieces;

// Kernels that a kernel comes after, as bits, as far as they are among the last ones before it. Word w of all
// kernels is at w % WINDOW_WORDS, for the WINDOW_WORDS words up to that of the kernel.
enum { WINDOW_WORDS = 16 };
typedef struct Window {
    uint64_t word[WINDOW_WORDS];
} Window;

typedef struct Sweep {
    const Plan *plan;
    Arena *scratch;
    Pieces pieces[REGION_COUNT];
    Window *window;  // by kernel
    uint32_t *stamp; // by kernel: 1 + the last one that was found to come after it
} Sweep;

typedef struct Access {
    Region region;
    uint64_t begin, end;
    bool is_written;
} Access;

// Memory of the plan around a loop's body has no offsets here: any two of its places may be one.
static Access access_of(const Plan *p, const PlanArg *a)
{
    const PlanBuffer *b = &p->buffers.data[a->buf];
    Access x = {b->region, b->offset + a->begin, b->offset + a->end, a->is_written};
    if (b->region == REGION_OUTER && a->begin < a->end) {
        x.begin = 0;
        x.end = 1;
    }
    return x;
}

static bool is_constant(Region r)
{
    return r == REGION_WEIGHTS || r == REGION_EXPERTS || r == REGION_MAPS || r == REGION_FILE ||
           r == REGION_ROWS;
}

// First piece that ends behind `at`.
static uint32_t find_piece(const Pieces *p, uint64_t at)
{
    uint32_t low = 0, high = p->list.len;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (p->list.data[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// --- the sweep -----------------------------------------------------------------------------------

static void add_edge(Sweep *s, PlanKernel *k, uint32_t at, uint32_t before)
{
    if (before == at || s->stamp[before] == at + 1)
        return;
    s->stamp[before] = at + 1;
    vec_push(s->plan->arena, &k->launch.after, before);
}

static void find_edges(Sweep *s, uint32_t at, const Access *x)
{
    PlanKernel *k = &s->plan->kernels.data[at];
    const Pieces *p = &s->pieces[x->region];
    for (uint32_t i = find_piece(p, x->begin); i < p->list.len && p->list.data[i].begin < x->end; i++) {
        const Piece *piece = &p->list.data[i];
        if (piece->writer != 0 && (piece->readers == NULL || !x->is_written))
            add_edge(s, k, at, piece->writer - 1);
        for (const Reader *r = piece->readers; x->is_written && r != NULL; r = r->next)
            add_edge(s, k, at, r->kernel);
    }
}

static Piece touched(Sweep *s, Piece p, uint32_t at, bool is_written)
{
    if (is_written) {
        p.writer = at + 1;
        p.readers = NULL;
    } else if ((p.readers == NULL || p.readers->kernel != at) && p.writer != at + 1) {
        Reader *r = ARENA_NEW(s->scratch, Reader);
        *r = (Reader){at, p.readers};
        p.readers = r;
    }
    return p;
}

// The kernel touches the bytes: pieces that they cut are cut.
static void touch(Sweep *s, uint32_t at, const Access *x)
{
    Pieces *p = &s->pieces[x->region], next = {0};
    const uint32_t from = find_piece(p, x->begin);
    uint32_t to = from;
    uint64_t done = x->begin;
    for (; to < p->list.len && p->list.data[to].begin < x->end; to++) {
        const Piece old = p->list.data[to];
        Piece part = old;
        if (old.begin < x->begin)
            vec_push(s->scratch, &next.list, ((Piece){old.begin, x->begin, old.writer, old.readers}));
        if (old.begin > done) // a gap that nobody has touched
            vec_push(s->scratch, &next.list,
                     touched(s, (Piece){done, old.begin, 0, NULL}, at, x->is_written));
        part.begin = old.begin > x->begin ? old.begin : x->begin;
        part.end = old.end < x->end ? old.end : x->end;
        vec_push(s->scratch, &next.list, touched(s, part, at, x->is_written));
        done = part.end;
        if (old.end > x->end)
            vec_push(s->scratch, &next.list, ((Piece){x->end, old.end, old.writer, old.readers}));
    }
    if (done < x->end)
        vec_push(s->scratch, &next.list, touched(s, (Piece){done, x->end, 0, NULL}, at, x->is_written));
    const uint32_t gone = to - from, came = next.list.len, behind = p->list.len - to;
    for (uint32_t i = gone; i < came; i++)
        vec_push(s->scratch, &p->list, (Piece){0});
    memmove(p->list.data + from + came, p->list.data + to, behind * sizeof(Piece));
    memcpy(p->list.data + from, next.list.data, came * sizeof(Piece));
    p->list.len = from + came + behind;
}

// --- edges that others replace -------------------------------------------------------------------

static bool is_in_window(uint32_t kernel, uint32_t of)
{
    return of / 64 - kernel / 64 < WINDOW_WORDS;
}

static bool is_after(const Sweep *s, uint32_t kernel, uint32_t before)
{
    return is_in_window(before, kernel) &&
           (s->window[kernel].word[before / 64 % WINDOW_WORDS] >> before % 64 & 1) != 0;
}

// What `before` comes after is what `kernel` comes after.
static void join_windows(Sweep *s, uint32_t kernel, uint32_t before)
{
    for (uint32_t w = before / 64 + 1;
         w-- > 0 && is_in_window(w * 64, kernel) && is_in_window(w * 64, before);)
        s->window[kernel].word[w % WINDOW_WORDS] |= s->window[before].word[w % WINDOW_WORDS];
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void reduce_edges(Sweep *s, uint32_t at)
{
    PlanKernel *k = &s->plan->kernels.data[at];
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->launch.after.len; i++)
        join_windows(s, at, k->launch.after.data[i]);
    for (uint32_t i = 0; i < k->launch.after.len; i++)
        if (!is_after(s, at, k->launch.after.data[i]))
            k->launch.after.data[n++] = k->launch.after.data[i];
    k->launch.after.len = n;
    for (uint32_t i = 0; i < n; i++)
        if (is_in_window(k->launch.after.data[i], at))
            s->window[at].word[k->launch.after.data[i] / 64 % WINDOW_WORDS] |=
                UINT64_C(1) << k->launch.after.data[i] % 64;
    if (n > 1)
        qsort(k->launch.after.data, n, sizeof *k->launch.after.data, by_number);
}

static void find_kernel(Sweep *s, uint32_t at)
{
    PlanKernel *k = &s->plan->kernels.data[at];
    k->launch.after.len = 0;
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t j = 0; j < k->args.len; j++) {
            const Access x = access_of(s->plan, &k->args.data[j]);
            if (x.begin >= x.end || is_constant(x.region))
                continue;
            if (pass == 0)
                find_edges(s, at, &x);
            else
                touch(s, at, &x);
        }
    reduce_edges(s, at);
    k->launch.level = 0;
    for (uint32_t i = 0; i < k->launch.after.len; i++) {
        const uint32_t level = s->plan->kernels.data[k->launch.after.data[i]].launch.level + 1;
        k->launch.level = level > k->launch.level ? level : k->launch.level;
    }
}

// What is prepared once has ended when a run begins: no edge leads from there.
void plan_find_edges(Plan *plan)
{
    rlx_assert(plan->buffers.len > 0);
    Arena scratch = {0};
    const uint32_t n = plan->kernels.len;
    Sweep s = {.plan = plan,
               .scratch = &scratch,
               .window = ARENA_ARRAY(&scratch, Window, n + 1u),
               .stamp = ARENA_ARRAY(&scratch, uint32_t, n + 1u)};
    for (uint32_t i = 0; i < n; i++) {
        if (i == plan->prepare.n_kernels)
            memset(s.pieces, 0, sizeof s.pieces);
        find_kernel(&s, i);
        if (plan->kernels.data[i].loop != NULL)
            plan_find_edges(plan->kernels.data[i].loop->body);
    }
    arena_free(&scratch);
}

// --- groups --------------------------------------------------------------------------------------

// A loop is many launches, between which the host may have to read: it stands alone.
static bool stands_apart(const Plan *p, uint32_t at)
{
    const PlanKernel *k = &p->kernels.data[at];
    return k->loop != NULL || k[-1].loop != NULL || at == p->prepare.n_kernels ||
           (at == p->n_check_kernels && p->checks.len != 0);
}

void plan_find_groups(Plan *plan)
{
    uint32_t group = 0, first = 0; // of the kernels of the group
    for (uint32_t i = 0; i < plan->kernels.len; i++) {
        PlanKernel *k = &plan->kernels.data[i];
        const bool depends =
            k->launch.after.len != 0 && k->launch.after.data[k->launch.after.len - 1] >= first;
        if (i != 0 && (depends || stands_apart(plan, i))) {
            group++;
            first = i;
        }
        k->launch.group = group;
        if (k->loop != NULL)
            plan_find_groups(k->loop->body);
    }
}
