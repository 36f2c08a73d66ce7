// SPDX-License-Identifier: Apache-2.0
// See kernel_work.h. Loops are walked as the kernel would: where bounds or conditions inside of a loop depend
// on its variable (borders of images), every turn is looked at, else one turn counts for all.
#include "ir/kernel/kernel_work.h"
#include "base/arena.h"
#include "ir/eval/scalar.h"
#include "ir/kernel/device.h"
#include "ir/kernel/dsp.h"
#include "ir/kernel/kernel_fold.h"
#include <math.h>
#include <string.h>

const char *const work_names[WORK_KINDS] = {
#define WORK(name, meaning) #name,
#include "ir/kernel/work.def"
#undef WORK
};

enum { MAX_DEPTH = 30, BUDGET = 1 << 23 };
#define ON_DATA (1u << 31) // depends on what memory holds

typedef struct Walk {
    const Kernel *k;
    Work work;
    KernelBytes *bytes; // by parameter; NULL: nobody asked
    int64_t *value;     // of indices, where they are known
    bool *is_known;
    uint32_t *on;            // which loops it depends on, by depth; ON_DATA
    double turns[MAX_DEPTH]; // of the open loops, as far as one visit stands for several
    uint32_t depth;
    uint32_t visited;
    bool is_inner; // in a loop that has no loop inside
} Walk;

// --- values of indices ---------------------------------------------------------------------------

#define NONE 0
#define I    int64_t
#define KOP(name, arity, cost, fexpr, iexpr, cls)                                                            \
    static int64_t value_##name(int64_t a, int64_t b, int64_t c)                                             \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return (int64_t)(iexpr);                                                                             \
    }
#include "ir/kernel/kops.def"
#undef KOP

static int64_t (*const values[KOP_COUNT])(int64_t a, int64_t b, int64_t c) = {
#define KOP(name, arity, cost, fexpr, iexpr, cls) [KOP_##name] = value_##name,
#include "ir/kernel/kops.def"
#undef KOP
};

static void evaluate(Walk *w, KRef r, const KInst *n)
{
    const bool is_op = n->kind == KI_op && !kt_is_float(n->dtype);
    const bool is_copy =
        n->kind == KI_cast && !kt_is_float(n->dtype) && !kt_is_float(k_inst(w->k, n->a)->dtype);
    w->is_known[r] = n->kind == KI_const;
    if (n->kind == KI_const)
        w->value[r] = n->imm;
    if ((is_op || is_copy) && w->is_known[n->a] && (n->b == 0 || w->is_known[n->b]) &&
        (n->c == 0 || w->is_known[n->c])) {
        w->value[r] =
            is_copy ? w->value[n->a] : values[n->kop](w->value[n->a], w->value[n->b], w->value[n->c]);
        w->is_known[r] = true;
    }
}

// What values depend on. Loads from memory that the kernel writes stay where they are, as reads of variables
// do.
static void find_dependences(Walk *w)
{
    uint32_t open[MAX_DEPTH + 1], depth = 0, here = 0; // open: bits of blocks, 0 for ifs
    uint32_t n_open = 0;
    for (KRef r = 1; r < w->k->insts.len; r++) {
        const KInst *n = k_inst(w->k, r);
        const bool stays = n->kind == KI_get || n->kind == KI_aload ||
                           (n->kind == KI_load && w->k->params.data[n->imm].is_written);
        w->on[r] = w->on[n->a] | w->on[n->b] | w->on[n->c] | (stays ? here : 0);
        if (n->kind == KI_get || n->kind == KI_aload || n->kind == KI_load)
            w->on[r] |= ON_DATA;
        if (kkind_opens(n->kind) && n->kind != KI_else && n_open < MAX_DEPTH) {
            open[n_open++] = n->kind == KI_for ? 1u << depth++ : 0;
            here |= open[n_open - 1];
            if (n->kind == KI_for)
                w->on[r] |= open[n_open - 1];
        } else if (n->kind == KI_end && n_open > 0) {
            here &= ~open[--n_open];
            depth -= open[n_open] != 0;
        }
    }
}

// --- what is counted -----------------------------------------------------------------------------

// Times for each time that its block runs: less where it is computed outside of loops.
static double share(const Walk *w, uint32_t on)
{
    double outside = 1;
    for (uint32_t d = w->depth; d-- > 0 && (on >> d & 1) == 0;)
        outside *= w->turns[d];
    return 1 / (outside > 1 ? outside : 1);
}

// An operand of a device function. The last tile of a loop may be smaller: what the others have counts.
static double known(const Walk *w, const KInst *n, int operand)
{
    KRef r = operand < 0 ? 0 : k_device_operand(w->k, n, (uint32_t)operand);
    const KInst *v = k_inst(w->k, r);
    if (v->kind == KI_op && v->kop == KOP_min)
        r = k_inst(w->k, v->a)->kind == KI_const ? v->a : k_inst(w->k, v->b)->kind == KI_const ? v->b : r;
    return w->is_known[r] ? (double)w->value[r] : 1;
}

static void add_bytes(Walk *w, uint32_t param, bool is_written, double bytes)
{
    if (w->bytes != NULL)
        *(is_written ? &w->bytes[param].written : &w->bytes[param].read) += bytes;
}

// Bytes that a call touches from the address that an operand is.
static void add_device_bytes(Walk *w, const KInst *n, double times)
{
    static const struct {
        KDevice device;
        int operand;
        bool is_written;
        int x, y; // operands: bytes are each * x * y + once * y; x or y -1: 1
        double each, once;
    } touched[] = {{KDEV_dsp_pair_i8, 0, true, 3, 4, 4, 0},      {KDEV_dsp_pair_i8, 1, false, 3, 4, 1, 0},
                   {KDEV_dsp_pair_i8, 2, false, 3, 4, 1, 0},     {KDEV_dsp_pair_u8, 0, true, 3, 4, 4, 0},
                   {KDEV_dsp_pair_u8, 1, false, 3, 4, 1, 0},     {KDEV_dsp_pair_u8, 2, false, 3, 4, 1, 0},
                   {KDEV_dsp_edge_i8, 0, true, 4, -1, 2, 0},     {KDEV_dsp_edge_i8, 1, false, 4, -1, 1, 0},
                   {KDEV_dsp_edge_u8, 0, true, 4, -1, 2, 0},     {KDEV_dsp_edge_u8, 1, false, 4, -1, 1, 0},
                   {KDEV_dsp_sums2, 0, true, -1, 4, 0, 32},      {KDEV_dsp_sums2, 1, false, 3, 4, 8, 0},
                   {KDEV_dsp_sums2, 2, false, 3, 4, 8, 16},      {KDEV_dsp_sums1, 0, true, -1, 4, 0, 16},
                   {KDEV_dsp_sums1, 1, false, 3, 4, 4, 0},       {KDEV_dsp_sums1, 2, false, 3, 4, 8, 16},
                   {KDEV_dsp_row_i8, 0, true, -1, 4, 0, 32},     {KDEV_dsp_row_i8, 1, false, 3, 4, 4, 0},
                   {KDEV_dsp_row_i8, 2, false, 3, 4, 32, 32},    {KDEV_dsp_row_u8, 0, true, -1, 4, 0, 32},
                   {KDEV_dsp_row_u8, 1, false, 3, 4, 4, 0},      {KDEV_dsp_row_u8, 2, false, 3, 4, 32, 32},
                   {KDEV_dsp_bytes2, 0, true, -1, 4, 0, 4},      {KDEV_dsp_bytes2, 1, false, 3, 4, 8, 0},
                   {KDEV_dsp_bytes2, 2, false, 3, 4, 8, 32},     {KDEV_dsp_bytes2, 5, true, -1, 4, 0, 4},
                   {KDEV_dsp_points, 0, true, 4, 6, 1, 0},       {KDEV_dsp_points, 1, false, 4, 5, 1, 0},
                   {KDEV_dsp_points, 3, true, 4, 5, 2, 0},       {KDEV_dsp_planes_i8, 0, true, 4, 5, 8, 0},
                   {KDEV_dsp_windows, 0, true, 4, 6, 4, 0},      {KDEV_dsp_windows, 3, false, 4, 5, 1, 0},
                   {KDEV_dsp_ahead, 0, true, 4, 6, 4, 0},        {KDEV_dsp_ahead, 3, false, 4, 5, 1, 0},
                   {KDEV_dsp_planes_i8, 1, false, 3, 5, 4, 0},   {KDEV_dsp_planes_u8, 0, true, 4, 5, 8, 0},
                   {KDEV_dsp_planes_u8, 1, false, 3, 5, 4, 0},   {KDEV_dsp_taps1, 0, true, 3, 4, 4, 0},
                   {KDEV_dsp_taps1, 1, false, 3, 4, 32, 0},      {KDEV_dsp_taps1, 2, false, -1, -1, 0, 68},
                   {KDEV_dsp_taps2, 0, true, 3, 4, 4, 0},        {KDEV_dsp_taps2, 1, false, 3, 4, 56, 0},
                   {KDEV_dsp_taps2, 2, false, -1, -1, 0, 68},    {KDEV_dsp_eight_i8, 1, false, 3, -1, 4, 0},
                   {KDEV_dsp_eight_i8, 2, false, 3, -1, 32, 32}, {KDEV_dsp_eight_u8, 1, false, 3, -1, 4, 0},
                   {KDEV_dsp_eight_u8, 2, false, 3, -1, 32, 32}, {KDEV_dsp_clamp, 0, true, 1, 2, 1, 0}};
    for (size_t i = 0; w->bytes != NULL && i < sizeof touched / sizeof *touched; i++) {
        if (touched[i].device != kdev_of(n))
            continue;
        const KInst *at = k_inst(w->k, k_device_operand(w->k, n, (uint32_t)touched[i].operand));
        const double y = known(w, n, touched[i].y);
        if (at->kind == KI_address)
            add_bytes(w, (uint32_t)at->imm, touched[i].is_written,
                      times * y * (touched[i].each * known(w, n, touched[i].x) + touched[i].once));
    }
}

// Pairs of pixels, each of which reads all weights. A pixel without a partner takes what a pair does.
static void add_points(Walk *w, const KInst *n, double times)
{
    const double pairs = times * ceil(known(w, n, 4) / 2), length = known(w, n, 5), channels = known(w, n, 6);
    const KInst *weights = k_inst(w->k, k_device_operand(w->k, n, 2));
    w->work.n[WORK_copied] += pairs * length;
    w->work.n[WORK_pairs] += pairs * length / 2 * channels / 4;
    w->work.n[WORK_scaled] += pairs * channels / 4;
    w->work.n[WORK_block] += pairs * channels / 4;
    if (w->bytes != NULL && weights->kind == KI_address)
        add_bytes(w, (uint32_t)weights->imm, false, pairs * channels * (length + 8));
}

// Pairs of pixels as well, with windows of several runs.
static void add_windows(Walk *w, const KInst *n, double times)
{
    const int64_t shape = (int64_t)known(w, n, 7);
    const double pairs = times * known(w, n, 4), steps = (double)dsp_window_words(shape);
    const double blocks = pairs * known(w, n, 6) / 2;
    const KInst *weights = k_inst(w->k, k_device_operand(w->k, n, 2));
    if (known(w, n, 5) != 0)
        w->work.n[WORK_copied] += pairs * (double)(dsp_window_rows(shape) * dsp_window_run(shape));
    w->work.n[WORK_pairs] += blocks * steps;
    w->work.n[WORK_scaled] += blocks;
    w->work.n[WORK_block] += times + blocks;
    if (w->bytes != NULL && weights->kind == KI_address)
        add_bytes(w, (uint32_t)weights->imm, false, blocks * (steps * 8 + 32));
}

// Of depthwise windows: rows of planes that are made, and rows of windows.
static void add_planes(Walk *w, const KInst *n, double times)
{
    enum { ROW = 4 };
    const KDevice f = kdev_of(n);
    if (f == KDEV_dsp_planes_i8 || f == KDEV_dsp_planes_u8)
        w->work.n[WORK_planes] += times * known(w, n, 4) * (known(w, n, 5) + ROW);
    if (f == KDEV_dsp_taps1 || f == KDEV_dsp_taps2)
        w->work.n[f == KDEV_dsp_taps1 ? WORK_windows : WORK_strided] +=
            times * known(w, n, 3) * (double)dsp_taps_insns((int64_t)known(w, n, 4));
}

static void add_device(Walk *w, const KInst *n, double times)
{
    static const struct {
        KDevice device;
        WorkKind kind;
        int x, y; // operands whose product is how much it does; y -1: x alone
    } devices[] = {{KDEV_dsp_pair_i8, WORK_copied, 3, 4},  {KDEV_dsp_pair_u8, WORK_copied, 3, 4},
                   {KDEV_dsp_edge_i8, WORK_copied, 4, -1}, {KDEV_dsp_edge_u8, WORK_copied, 4, -1},
                   {KDEV_dsp_sums2, WORK_pairs, 3, 4},     {KDEV_dsp_sums1, WORK_singles, 3, 4},
                   {KDEV_dsp_bytes2, WORK_pairs, 3, 4},    {KDEV_dsp_row_i8, WORK_rows, 3, 4},
                   {KDEV_dsp_row_u8, WORK_rows, 3, 4},     {KDEV_dsp_eight_i8, WORK_rows, 3, -1},
                   {KDEV_dsp_eight_u8, WORK_rows, 3, -1},  {KDEV_dsp_clamp, WORK_copied, 1, 2}};
    if (kdev_of(n) == KDEV_dsp_points)
        add_points(w, n, times);
    if (kdev_of(n) == KDEV_dsp_windows || kdev_of(n) == KDEV_dsp_ahead)
        add_windows(w, n, times);
    add_planes(w, n, times);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        if (devices[i].device != kdev_of(n))
            continue;
        const double y = known(w, n, devices[i].y);
        w->work.n[devices[i].kind] += times * known(w, n, devices[i].x) * y;
        w->work.n[WORK_scaled] += devices[i].device == KDEV_dsp_bytes2 ? times * y : 0;
        const bool has_blocks = devices[i].kind != WORK_copied;
        w->work.n[WORK_block] += times * (1 + (has_blocks ? y : 0));
    }
}

// What functions for vectors of bytes do: as often as some operands say, and for every 16 inputs of one
// operand.
typedef struct VectorWork {
    KDevice device;
    WorkKind kind;
    int inputs;   // operand; -1: 16
    int count[3]; // operands
    double share;
    bool is_block;           // of channels
    double once[3], each[3]; // bytes of the first three operands: each time, and for every 16 inputs
    int pixels; // operand, four of which are computed at once; one alone is WORK_singles. 0: none
} VectorWork;

enum { DEEP_PIXELS = 4 }; // operand of rvv_deep

static const VectorWork vectors[] = {
    {KDEV_byte_window_i8, WORK_copied, 2, {3, 5, -1}, 1, false, {0}, {16, 16, 0}, 0},
    {KDEV_byte_window_u8, WORK_copied, 2, {3, 5, -1}, 1, false, {0}, {16, 16, 0}, 0},
    {KDEV_byte_clamp, WORK_copied, 1, {2, -1, -1}, 1, false, {0}, {16, 0, 0}, 0},
    {KDEV_mve_columns_i8, WORK_copied, -1, {3, -1, -1}, 2, false, {32, 24, 0}, {0}, 0},
    {KDEV_mve_columns_u8, WORK_copied, -1, {3, -1, -1}, 2, false, {32, 24, 0}, {0}, 0},
    {KDEV_mve_sums2, WORK_pairs, 3, {4, -1, -1}, 1, true, {32, 0, 16}, {0, 32, 64}, 0},
    {KDEV_mve_sums1, WORK_singles, 3, {4, -1, -1}, 1, true, {16, 0, 16}, {0, 16, 64}, 0},
    {KDEV_mve_bytes2, WORK_pairs, 3, {4, 5, -1}, 0.5, true, {8, 0, 32}, {0, 32, 64}, 0},
    {KDEV_mve_bytes1, WORK_singles, 3, {4, -1, -1}, 1, true, {4, 0, 32}, {0, 16, 64}, 0},
    {KDEV_mve_deep, WORK_rows, -1, {3, 4, 5}, 0.25, false, {4, 64, 8}, {0}, 0},
    {KDEV_mve_apart, WORK_rows, -1, {3, 4, 5}, 0.25, false, {4, 64, 8}, {0}, 0},
    {KDEV_mve_wide, WORK_rows, 8, {3, 4, 5}, 0.25, false, {4, 0, 8}, {0, 64, 32}, 0},
    // Of a block and of four pixels; windows of rvv_deep are taken for those of nine taps.
    {KDEV_rvv_sums, WORK_pairs, 3, {4, 5, -1}, 1. / 64, true, {256, 0, 64}, {0, 64, 256}, 5},
    {KDEV_rvv_bytes, WORK_pairs, 3, {4, 5, -1}, 1. / 64, true, {64, 0, 128}, {0, 64, 256}, 5},
    {KDEV_rvv_deep, WORK_rows, -1, {3, 4, -1}, 1. / 64, false, {64, 576, 272}, {0}, 0},
};

static void add_vector_bytes(Walk *w, const KInst *n, const VectorWork *v, double count, double inputs)
{
    for (uint32_t i = 0; i < 3; i++) {
        const KInst *at = k_inst(w->k, k_device_operand(w->k, n, i));
        if (at->kind == KI_address)
            add_bytes(w, (uint32_t)at->imm, i == 0, count * (v->once[i] + v->each[i] * inputs));
    }
}

// Pixels of rvv_deep, which computes four at once. Two and three that are left take what four do, and one
// takes half of it.
static double deep_pixels(double pixels)
{
    const double left = fmod(pixels, 4);
    return pixels - left + (left > 1 ? 4 : 2 * left);
}

static void add_vectors(Walk *w, const KInst *n, double times)
{
    for (const VectorWork *v = vectors; v < vectors + sizeof vectors / sizeof *vectors; v++) {
        if (v->device != kdev_of(n))
            continue;
        double count = times * v->share;
        for (uint32_t j = 0; j < 3; j++) {
            const double of = known(w, n, v->count[j]);
            count *= v->device == KDEV_rvv_deep && v->count[j] == DEEP_PIXELS ? deep_pixels(of) : of;
        }
        const bool is_alone = v->pixels != 0 && known(w, n, v->pixels) == 1;
        count *= is_alone ? 4 : 1;
        const double inputs = ceil(known(w, n, v->inputs) / 16);
        const bool is_scaled = v->device == KDEV_mve_bytes2 || v->device == KDEV_mve_bytes1 ||
                               v->device == KDEV_rvv_bytes;
        w->work.n[is_alone ? WORK_singles : v->kind] += count * inputs;
        w->work.n[WORK_scaled] += is_scaled ? count : 0;
        w->work.n[WORK_block] += times + (v->is_block ? count : 0);
        add_vector_bytes(w, n, v, count, inputs);
    }
}

static void add_call(Walk *w, const KInst *n, double times)
{
    add_device(w, n, times);
    add_device_bytes(w, n, times);
    add_vectors(w, n, times);
}

static WorkKind kind_of_op(const Walk *w, const KInst *n)
{
    static const bool is_product[KOP_COUNT] = {
        [KOP_mul] = true,    [KOP_fma] = true,    [KOP_mad] = true,    [KOP_dot8] = true,
        [KOP_pair8] = true,  [KOP_dot16] = true,  [KOP_mad_bb] = true, [KOP_mad_bt] = true,
        [KOP_mad_tt] = true, [KOP_mulh] = true,   [KOP_mulh_add] = true,
        [KOP_mulh_near] = true};
    const int of = k_inst(w->k, n->a)->dtype;
    if (n->dtype == KT_INDEX || of == KT_INDEX)
        return WORK_index;
    if (dtype_info[n->dtype].bytes == 8 || dtype_info[of].bytes == 8)
        return WORK_wide;
    if (is_product[n->kop])
        return WORK_product;
    const bool is_choice = kop_info[n->kop].cls != KCLASS_SAME || n->kop == KOP_min || n->kop == KOP_max;
    return is_choice ? WORK_choice : WORK_integer;
}

// Which kind of work a load, a store, a cast or an operation is. WORK_KINDS: none.
static WorkKind kind_of_inst(const Walk *w, const KInst *n)
{
    const bool is_real = kt_is_float(n->dtype) || (n->a != 0 && kt_is_float(k_inst(w->k, n->a)->dtype));
    if (n->kind == KI_op || n->kind == KI_cast)
        return is_real ? WORK_real : n->kind == KI_op ? kind_of_op(w, n) : WORK_integer;
    if (n->kind == KI_load || n->kind == KI_aload)
        return WORK_load;
    return n->kind == KI_store || n->kind == KI_astore ? WORK_store : WORK_KINDS;
}

// Operations that are counted once more as a part of their kind.
static const struct {
    KOp op;
    WorkKind kind, part;
} parts[] = {{KOP_mulh, WORK_product, WORK_upper},      {KOP_mulh_add, WORK_product, WORK_upper},
             {KOP_mulh_near, WORK_product, WORK_upper}, {KOP_shl, WORK_integer, WORK_shift},
             {KOP_shr, WORK_integer, WORK_shift},       {KOP_min, WORK_choice, WORK_bound},
             {KOP_max, WORK_choice, WORK_bound},        {KOP_mul, WORK_wide, WORK_wide_product},
             {KOP_shl, WORK_wide, WORK_wide_shift},     {KOP_shr, WORK_wide, WORK_wide_shift}};

static void add_parts(Walk *w, const KInst *n, WorkKind kind, bool is_inner, double times)
{
    static const WorkKind inner[WORK_KINDS] = {
        [WORK_load] = WORK_in_load,       [WORK_store] = WORK_in_store, [WORK_product] = WORK_in_product,
        [WORK_integer] = WORK_in_integer, [WORK_index] = WORK_in_index,
    };
    for (size_t i = 0; n->kind == KI_op && i < sizeof parts / sizeof *parts; i++)
        w->work.n[parts[i].part] += n->kop == parts[i].op && kind == parts[i].kind ? times : 0;
    if (n->kind == KI_aload || n->kind == KI_astore)
        w->work.n[WORK_local] += times;
    if (n->kind == KI_load && dtype_info[n->dtype].bytes == 1)
        w->work.n[WORK_byte] += times;
    if (is_inner && inner[kind] != 0)
        w->work.n[inner[kind]] += times;
}

static void add_inst(Walk *w, const KInst *n, uint32_t on, double times)
{
    const double part = kkind_is_expression(n->kind) ? share(w, on) : 1;
    const WorkKind kind = kind_of_inst(w, n);
    times *= part;
    if (kind != WORK_KINDS) {
        w->work.n[kind] += kind == WORK_real && n->kind == KI_op ? times * kop_info[n->kop].cost : times;
        add_parts(w, n, kind, w->is_inner && part == 1, times);
    } else if (n->kind == KI_device)
        add_call(w, n, times);
    if (kkind_info[n->kind].param == KPARAM_READ || kkind_info[n->kind].param == KPARAM_WRITE)
        add_bytes(w, (uint32_t)n->imm, kkind_info[n->kind].param == KPARAM_WRITE,
                  times * n->count * (double)dtype_info[w->k->params.data[n->imm].dtype].bytes);
}

// --- the walk ------------------------------------------------------------------------------------

static void walk(Walk *w, KRef from, KRef to, double times);

// Do bounds or conditions inside depend on the loop's variable, and on nothing that is unknown?
static bool has_borders(const Walk *w, KRef r, KRef end)
{
    for (KRef i = r + 1; i < end; i++) {
        const KInst *n = k_inst(w->k, i);
        const uint32_t on = n->kind == KI_for  ? w->on[n->a] | w->on[n->b]
                            : n->kind == KI_if ? w->on[n->a]
                                               : 0;
        if ((on & ON_DATA) == 0 && (on >> w->depth & 1) != 0)
            return true;
    }
    return false;
}

static bool is_innermost(const Walk *w, KRef r, KRef end)
{
    for (KRef i = r + 1; i < end; i++)
        if (k_inst(w->k, i)->kind == KI_for && k_inst(w->k, i)->flags != KFOR_UNROLL)
            return false;
    return true;
}

static void walk_for(Walk *w, KRef r, KRef end, double times)
{
    const KInst *n = k_inst(w->k, r);
    const bool is_known = w->is_known[n->a] && w->is_known[n->b];
    const int64_t lo = w->value[n->a], turns = is_known ? (w->value[n->b] - lo + n->imm - 1) / n->imm : 1;
    if (turns <= 0 || w->depth == MAX_DEPTH)
        return;
    const bool is_each = is_known && w->visited < BUDGET && turns <= (BUDGET - w->visited) / (end - r) &&
                         has_borders(w, r, end);
    const bool was_inner = w->is_inner;
    if (n->flags != KFOR_UNROLL) {
        w->work.n[WORK_turn] += times * (double)turns;
        w->is_inner = is_innermost(w, r, end);
        w->work.n[WORK_entry] += w->is_inner ? times : 0;
        w->work.n[WORK_in_turn] += w->is_inner ? times * (double)turns : 0;
    }
    w->turns[w->depth++] = (double)turns;
    for (int64_t i = 0; i < (is_each ? turns : 1); i++) {
        w->value[r] = lo + i * n->imm;
        w->is_known[r] = is_known;
        walk(w, r + 1, end, is_each ? times : times * (double)turns);
    }
    w->depth--;
    w->is_inner = was_inner;
}

static void walk_if(Walk *w, KRef r, KRef end, double times)
{
    const KRef cond = k_inst(w->k, r)->a;
    KRef turn = end;
    int depth = 0;
    for (KRef i = r + 1; i < end; i++) {
        if (depth == 0 && k_inst(w->k, i)->kind == KI_else)
            turn = i;
        depth += kkind_depth(k_inst(w->k, i)->kind);
    }
    const double yes = !w->is_known[cond] ? 0.5 : w->value[cond] != 0;
    if (yes > 0)
        walk(w, r + 1, turn, times * yes);
    if (yes < 1 && turn < end)
        walk(w, turn + 1, end, times * (1 - yes));
}

static void walk(Walk *w, KRef from, KRef to, double times)
{
    for (KRef r = from; r < to; r++) {
        const KInst *n = k_inst(w->k, r);
        const bool is_block = n->kind == KI_for || n->kind == KI_if;
        const KRef end = is_block ? k_block_end(w->k, r) : r;
        w->visited++;
        if (n->kind == KI_for)
            walk_for(w, r, end, times);
        else if (n->kind == KI_if)
            walk_if(w, r, end, times);
        else {
            evaluate(w, r, n);
            add_inst(w, n, w->on[r], times);
        }
        r = end;
    }
}

Work work_and_bytes(const Kernel *k, KernelBytes *bytes)
{
    Arena scratch = {0};
    Walk w = {.k = k, .bytes = bytes};
    w.work.n[WORK_kernel] = 1;
    w.value = ARENA_ARRAY(&scratch, int64_t, k->insts.len);
    w.is_known = ARENA_ARRAY(&scratch, bool, k->insts.len);
    w.on = ARENA_ARRAY(&scratch, uint32_t, k->insts.len);
    find_dependences(&w);
    walk(&w, 1, k->insts.len, 1);
    arena_free(&scratch);
    return w.work;
}

Work work_of_kernel(const Kernel *k)
{
    return work_and_bytes(k, NULL);
}
