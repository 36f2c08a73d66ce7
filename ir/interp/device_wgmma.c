// SPDX-License-Identifier: Apache-2.0
// wgmma (sm_90a): products of a warpgroup that run by themselves. They are computed when they are begun, by
// an agent that reads shared memory; sums and operands in registers stay pending until the group of products
// has been waited for.
#include "ir/interp/device_matrix.h"
#include "ir/interp/state.h"

#include <string.h>

enum {
    WARPGROUP = 128,
    MAX_SUMS = MATRIX_MAX_N / 2, // of a thread
    A_WORDS = 4,
    CHUNK_BYTES = 16, // that are next to each other in any order
    STEP_BYTES = 32,  // of k in a product
    MAX_ARRAYS = 2,    // of sums
    MAX_OPERANDS = 32, // in registers
    MAX_GROUPS = 4     // of products that have not ended
};

// Elements of each thread that products write, or read, until `group` has ended. group 0: not in use.
typedef struct Use {
    uint32_t group, n;
    unsigned char *state[WARPGROUP];
    unsigned char *is_poison; // n of each thread: what the elements are then
} Use;

// Products of a warpgroup. Groups count from 1: those up to `committed` are, of which those up to `ended`
// have been waited for.
typedef struct Products {
    uint32_t committed, ended;
    bool is_fenced, has_agent;
    uint32_t agent;         // of the open group
    Sync group[MAX_GROUPS]; // by number of the group
    Use sums[MAX_ARRAYS], operands[MAX_OPERANDS];
    unsigned char sum_poison[MAX_ARRAYS][WARPGROUP * MAX_SUMS];
    unsigned char operand_poison[MAX_OPERANDS][WARPGROUP * A_WORDS];
} Products;

static Products *products_of(Machine *m, uint32_t first)
{
    const uint32_t n = (machine_threads(m) + WARPGROUP - 1) / WARPGROUP;
    Products *all = machine_state(m, KDEV_wgmma, n * sizeof(Products));
    return &all[first / WARPGROUP];
}

const char *products_left(Machine *m, uint32_t t)
{
    const Products *s = products_of(m, t);
    return s->committed == s->ended && !s->has_agent ? NULL : "it ends before the products that it began";
}

// --- descriptors ---------------------------------------------------------------------------------

static CallResult make_desc(Call *c, uint32_t swizzle)
{
    for (uint32_t t = c->begin; t < c->end; t++) {
        const MatrixDesc d = {.address = (uint32_t)call_int(c, 0, t),
                              .lead = (uint32_t)call_int(c, 1, t),
                              .stride = (uint32_t)call_int(c, 2, t),
                              .swizzle = swizzle};
        call_set_int(c, t, (int64_t)matrix_desc_bits(&d));
    }
    return CALL_DONE;
}

CallResult interp_wgmma_desc(Call *c)
{
    return make_desc(c, 128);
}

CallResult interp_wgmma_desc_quarter(Call *c)
{
    return make_desc(c, 32);
}

CallResult interp_wgmma_desc_half(Call *c)
{
    return make_desc(c, 64);
}

CallResult interp_wgmma_desc_plain(Call *c)
{
    return make_desc(c, 0);
}

// --- operands ------------------------------------------------------------------------------------

// Numbers of both operands, steps of b by rows, and what of them is poison. Sums of bytes are those of one
// product, which f32 holds.
typedef struct Product {
    KWgmma w;
    uint32_t first; // thread
    float a[MATRIX_WGMMA_M * MATRIX_MAX_K], b[MATRIX_MAX_K * MATRIX_MAX_N];
    float sums[MATRIX_WGMMA_M * MATRIX_MAX_N];
    bool is_bad_row[MATRIX_WGMMA_M], is_bad_column[MATRIX_MAX_N];
} Product;

static uint32_t steps_of(const Product *p)
{
    return STEP_BYTES / dtype_info[p->w.type].bytes;
}

// `n` rows or columns of an operand in shared memory. Row i, step k goes to at[i * by_row + k * by_step].
typedef struct Target {
    float *at;
    DType type;
    uint32_t n, by_row, by_step;
    bool *is_bad;
} Target;

static void put_number(const Target *to, uint32_t row, uint32_t step, float v)
{
    to->at[row * to->by_row + step * to->by_step] = v;
}

// 16 bytes of numbers of row i and steps from k on, or (is_mn) of step k and rows from i on.
static bool read_chunk(const Call *c, const Product *p, const MatrixDesc *d, uint32_t who, const Target *to,
                       uint32_t i, uint32_t k)
{
    const uint32_t rank = machine_group_of(c->m, p->first), address = matrix_desc_place(d, i, k);
    unsigned char bytes[CHUNK_BYTES];
    bool poison = false;
    if (!shared_read(c, who, rank, address, bytes, CHUNK_BYTES, &poison))
        return false;
    for (uint32_t e = 0; e < CHUNK_BYTES / d->bytes; e++) {
        const uint32_t row = d->is_mn ? i + e : i;
        bool is_bad = false;
        uint16_t bits = 0;
        memcpy(&bits, bytes + (size_t)e * d->bytes, d->bytes);
        put_number(to, row, d->is_mn ? k : k + e, matrix_number(to->type, bits));
        if (poison && !shared_read(c, who, rank, address + d->bytes * e, &bits, d->bytes, &is_bad))
            return false;
        to->is_bad[row] |= is_bad;
    }
    return true;
}

static bool read_shared(const Call *c, const Product *p, const MatrixDesc *d, uint32_t who, const Target *to)
{
    const uint32_t chunk = CHUNK_BYTES / d->bytes;
    const uint32_t row_step = d->is_mn ? chunk : 1, k_step = d->is_mn ? 1 : chunk;
    if (d->is_mn && d->swizzle != 128)
        return call_fail(c, p->first, "a matrix by steps without the swizzle of 128 bytes");
    for (uint32_t i = 0; i < to->n; i += row_step)
        for (uint32_t k = 0; k < steps_of(p); k += k_step)
            if (!read_chunk(c, p, d, who, to, i, k))
                return false;
    return true;
}

// All threads of the warpgroup give the same.
static bool uniform(const Call *c, uint32_t first, uint32_t operand, uint64_t *v)
{
    *v = (uint64_t)call_int(c, operand, first);
    for (uint32_t t = first + 1; t < first + WARPGROUP; t++)
        if ((uint64_t)call_int(c, operand, t) != *v)
            return call_fail(c, t, "operand %u of a product differs between the threads of a warpgroup",
                             operand);
    return true;
}

static bool take_a(const Call *c, Product *p, uint32_t who)
{
    uint64_t bits = 0;
    if (!uniform(c, p->first, 1, &bits))
        return false;
    const MatrixDesc d = matrix_desc_of(bits, p->w.a_is_mn, dtype_info[p->w.type].bytes);
    return read_shared(c, p, &d, who,
                       &(Target){p->a, p->w.type, MATRIX_WGMMA_M, steps_of(p), 1, p->is_bad_row});
}

static bool read_b(const Call *c, Product *p, uint64_t bits, uint32_t who)
{
    const DType type = kwgmma_b_type(p->w);
    const MatrixDesc d = matrix_desc_of(bits, p->w.b_is_mn, dtype_info[type].bytes);
    const uint32_t n = (uint32_t)p->w.n;
    return read_shared(c, p, &d, who, &(Target){p->b, type, n, 1, n, p->is_bad_column});
}

// --- registers -----------------------------------------------------------------------------------

// The use of elements of which `state` is that of the first thread, or one that is free.
static Use *use_of(Use *all, uint32_t n, const unsigned char *state)
{
    Use *free = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (all[i].group != 0 && all[i].state[0] == state)
            return &all[i];
        else if (all[i].group == 0)
            free = &all[i];
    return free;
}

static Use *use_of_sums(Products *s, const Elements *d, uint32_t n)
{
    Use *u = use_of(s->sums, MAX_ARRAYS, d[0].state);
    if (u != NULL) {
        u->n = n;
        u->is_poison = s->sum_poison[u - s->sums];
    }
    return u;
}

static Use *use_of_words(Products *s, const Elements *words)
{
    Use *u = use_of(s->operands, MAX_OPERANDS, words[0].state);
    if (u != NULL) {
        u->n = A_WORDS;
        u->is_poison = s->operand_poison[u - s->operands];
    }
    return u;
}

// Elements of all threads are pending from now on. Those of a use that has not ended are so already.
static bool begin_use(const Call *c, uint32_t first, Use *u, uint32_t group, const Elements *e)
{
    if (u == NULL)
        return call_fail(c, first, "products on too many arrays at once");
    const bool is_new = u->group == 0;
    u->group = group;
    for (uint32_t t = 0; t < WARPGROUP && is_new; t++) {
        u->state[t] = e[t].state;
        for (uint32_t i = 0; i < u->n; i++) {
            if (e[t].state[i] == ELEMENT_PENDING)
                return call_fail(c, first + t, "an operand that other products have not ended with");
            u->is_poison[t * u->n + i] = e[t].state[i] == ELEMENT_UNWRITTEN;
            e[t].state[i] = ELEMENT_PENDING;
        }
    }
    return true;
}

// Whoever wrote to the elements before this changed what products read, or lost what they write.
static bool end_use(const Call *c, uint32_t first, Use *u, uint32_t ended)
{
    if (u->group == 0 || u->group > ended)
        return true;
    u->group = 0;
    for (uint32_t t = 0; t < WARPGROUP; t++)
        for (uint32_t i = 0; i < u->n; i++) {
            if (u->state[t][i] != ELEMENT_PENDING)
                return call_fail(c, first + t,
                                 "an element of a product was written before the product had ended");
            u->state[t][i] = u->is_poison[t * u->n + i] ? ELEMENT_UNWRITTEN : ELEMENT_WRITTEN;
        }
    return true;
}

static bool find_elements(const Call *c, uint32_t first, uint32_t operand, uint32_t at_operand, uint32_t n,
                          Elements *e)
{
    for (uint32_t t = 0; t < WARPGROUP; t++) {
        const int64_t at = at_operand != 0 ? call_int(c, at_operand, first + t) : 0;
        if (!call_elements(c, operand, first + t, at, n, &e[t]))
            return false;
    }
    return true;
}

// Words of a are laid out as those of mma.sync, each warp having 16 rows.
static void read_words(Product *p, const Elements *e, const Use *u)
{
    for (uint32_t t = 0; t < WARPGROUP; t++)
        for (uint32_t w = 0; w < A_WORDS; w++) {
            const uint32_t lane = t % MATRIX_LANES, row = t / MATRIX_LANES * 16 + matrix_a_row(lane, w);
            const uint32_t at = row * MATRIX_K + matrix_a_step(lane, w);
            p->a[at] = matrix_number(p->w.type, e[t].r[w] & 0xffff);
            p->a[at + 1] = matrix_number(p->w.type, e[t].r[w] >> 16);
            p->is_bad_row[row] |= u->is_poison[t * A_WORDS + w] != 0;
        }
}

static bool take_words(const Call *c, Product *p, Products *s, uint32_t group)
{
    Elements words[WARPGROUP];
    if (!find_elements(c, p->first, 1, 2, A_WORDS, words))
        return false;
    Use *u = use_of_words(s, words);
    if (!begin_use(c, p->first, u, group, words))
        return false;
    read_words(p, words, u);
    return true;
}

// Sum i of thread t.
static uint32_t sum_row(uint32_t t, uint32_t i)
{
    return t / MATRIX_LANES * 16 + matrix_sum_row(t % MATRIX_LANES, i);
}

static void take_sums(Product *p, const Elements *d, bool adds)
{
    const uint32_t n = (uint32_t)p->w.n;
    memset(p->sums, 0, sizeof(float) * MATRIX_WGMMA_M * n);
    for (uint32_t t = 0; adds && !kwgmma_has_words(p->w.type) && t < WARPGROUP; t++)
        for (uint32_t i = 0; i < n / 2; i++)
            p->sums[sum_row(t, i) * n + matrix_sum_column(t % MATRIX_LANES, i)] = d[t].f[i];
}

static void give_sums(const Product *p, const Elements *d, Use *u, bool adds)
{
    const uint32_t n = (uint32_t)p->w.n;
    for (uint32_t t = 0; t < WARPGROUP; t++)
        for (uint32_t i = 0; i < n / 2; i++) {
            const uint32_t row = sum_row(t, i), column = matrix_sum_column(t % MATRIX_LANES, i);
            const bool is_bad = p->is_bad_row[row] || p->is_bad_column[column];
            if (kwgmma_has_words(p->w.type))
                d[t].r[i] = (adds ? d[t].r[i] : 0) + (uint32_t)(int32_t)p->sums[row * n + column];
            else
                d[t].f[i] = p->sums[row * n + column];
            u->is_poison[t * u->n + i] = is_bad || (adds && u->is_poison[t * u->n + i]);
        }
}

// --- products ------------------------------------------------------------------------------------

// The agent of the group that is open.
static uint32_t agent_of(const Call *c, uint32_t first, Products *s)
{
    if (!s->has_agent)
        s->agent = agent_begin(c->m, first, AGENT_ASYNC);
    s->has_agent = true;
    return s->agent;
}

// Operands: sums, what a is (a descriptor, or (is_r) an array and an element of it), that of b, whether it
// adds.
static bool multiply(const Call *c, uint32_t first, bool is_r)
{
    Products *s = products_of(c->m, first);
    Product p = {.w = kwgmma_of(c->constant), .first = first};
    Elements d[WARPGROUP];
    uint64_t b = 0, adds = 0;
    const uint32_t n = (uint32_t)p.w.n, who = agent_of(c, first, s), group = s->committed + 1;
    if (!s->is_fenced)
        return call_fail(c, first, "a product without wgmma_fence behind other uses of registers");
    if (!uniform(c, first, is_r ? 3 : 2, &b) || !uniform(c, first, is_r ? 4 : 3, &adds) ||
        !find_elements(c, first, 0, 0, n / 2, d))
        return false;
    Use *sums = use_of_sums(s, d, n / 2);
    if (!begin_use(c, first, sums, group, d))
        return false;
    if (is_r ? !take_words(c, &p, s, group) : !take_a(c, &p, who))
        return false;
    if (!read_b(c, &p, b, who))
        return false;
    take_sums(&p, d, adds != 0);
    matrix_product(p.sums, p.a, p.b, (MatrixSize){MATRIX_WGMMA_M, n, steps_of(&p)});
    give_sums(&p, d, sums, adds != 0);
    return true;
}

static CallResult multiply_all(Call *c, bool is_r)
{
    if (!call_gathers(c, WARPGROUP))
        return CALL_BLOCKED;
    for (uint32_t first = c->begin; first < c->end; first += WARPGROUP)
        if (!multiply(c, first, is_r))
            break;
    return CALL_DONE;
}

CallResult interp_wgmma(Call *c)
{
    return multiply_all(c, false);
}

CallResult interp_wgmma_bytes(Call *c)
{
    return multiply_all(c, false);
}

CallResult interp_wgmma_r(Call *c)
{
    return multiply_all(c, true);
}

// --- order ---------------------------------------------------------------------------------------

CallResult interp_wgmma_fence(Call *c)
{
    if (!call_gathers(c, WARPGROUP))
        return CALL_BLOCKED;
    for (uint32_t first = c->begin; first < c->end; first += WARPGROUP)
        products_of(c->m, first)->is_fenced = true;
    return CALL_DONE;
}

static bool commit(const Call *c, uint32_t first)
{
    Products *s = products_of(c->m, first);
    if (s->committed - s->ended == MAX_GROUPS)
        return call_fail(c, first, "more than %d groups of products under way", MAX_GROUPS);
    Sync *group = &s->group[++s->committed % MAX_GROUPS];
    sync_clear(c->m, group);
    if (s->has_agent)
        sync_release(c->m, s->agent, s->agent + 1, group);
    s->has_agent = false;
    return true;
}

CallResult interp_wgmma_commit(Call *c)
{
    return call_each(c, WARPGROUP, commit);
}

// All but the newest `constant` groups of products end. What is done with registers afterwards has to be
// fenced off from further products.
static bool end_groups(const Call *c, uint32_t first)
{
    Products *s = products_of(c->m, first);
    bool ok = true;
    for (; s->committed - s->ended > c->constant; s->ended++)
        sync_acquire(c->m, first, first + WARPGROUP, &s->group[(s->ended + 1) % MAX_GROUPS]);
    for (uint32_t i = 0; ok && i < MAX_ARRAYS; i++)
        ok = end_use(c, first, &s->sums[i], s->ended);
    for (uint32_t i = 0; ok && i < MAX_OPERANDS; i++)
        ok = end_use(c, first, &s->operands[i], s->ended);
    s->is_fenced = false;
    return ok;
}

CallResult interp_wgmma_wait(Call *c)
{
    return call_each(c, WARPGROUP, end_groups);
}
