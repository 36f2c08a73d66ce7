// SPDX-License-Identifier: Apache-2.0
// How gpu_matmul_simt.c multiplies slices into sums. Threads that multiply by themselves have blocks of four
// rows and four columns, a row of threads apart, so that they read shared memory by whole vectors. Warps of
// matrix units have the fragments of mma.sync.
#include "ir/kernel/device.h"
#include "passes/lower/gpu/gpu_simt.h"
#include "passes/lower/gpu/gpu_split.h"

enum {
    PART = 8,    // words of k that units take at a time
    A_WORDS = 4, // of a fragment of mma.sync
    B_WORDS = 2,
    MATRIX = 8,      // steps of simdgroups
    A_IS_SIGNED = 1, // constant of rlx_mma_bytes
    B_IS_SIGNED = 2
};

// --- threads alone -------------------------------------------------------------------------------

static KRef team_word(const GpuSimt *s, KRef word)
{
    return s->shape.teams == 1 ? word : k_expr(s->k, "$ * # + $", s->team, s->words, word);
}

// Lines of the thread. Its blocks are multiples of what lines are shifted by apart.
static void load_lines(const GpuSimt *s, const GpuSide *x, KRef step, KRef to)
{
    Kernel *k = s->k;
    const bool is_a = x == &s->a;
    const int64_t threads = is_a ? s->shape.threads_m : gpu_simt_threads_n(s);
    const KRef first = k_xor(k, is_a ? s->row : s->column, gpu_side_shift(s, step));
    const KRef from = k_expr(k, "$ * # + $", team_word(s, step), x->pitch, first);
    const KRef block = k_loop(k, x->lines / threads / GPU_SIMT_BLOCK, KFOR_UNROLL, "block");
    const KRef i = k_loop(k, GPU_SIMT_BLOCK, KFOR_UNROLL, "i");
    const KRef at = k_expr(k, "$ + ($ * # + $)", from, block, GPU_SIMT_BLOCK * threads, i);
    k_astore(k, to, k_expr(k, "$ * # + $", block, GPU_SIMT_BLOCK, i), k_aload(k, x->shared, at, 1));
    k_end(k);
    k_end(k);
}

static void multiply_fma(const GpuSimt *s, KRef sums)
{
    Kernel *k = s->k;
    const int64_t own_m = s->shape.rows / s->shape.threads_m;
    const int64_t own_n = s->shape.columns / gpu_simt_threads_n(s);
    const KRef a = k_array(k, DTYPE_f32, own_m), b = k_array(k, DTYPE_f32, own_n);
    const KRef step = k_loop(k, s->words, KFOR_UNROLL, "step");
    load_lines(s, &s->a, step, a);
    load_lines(s, &s->b, step, b);
    const KRef i = k_loop(k, own_m, KFOR_UNROLL, "i"), j = k_loop(k, own_n, KFOR_UNROLL, "j");
    const KRef at = k_expr(k, "$ * # + $", i, own_n, j);
    k_astore(k, sums, at, k_fma(k, k_aload(k, a, i, 1), k_aload(k, b, j, 1), k_aload(k, sums, at, 1)));
    k_end(k);
    k_end(k);
    k_end(k);
}

// --- matrix units --------------------------------------------------------------------------------

// Word w of a lane's fragment number i of the warp's lines, at words `part` on: of a's fragments it is 8 rows
// on where w is odd, and of both operands 4 words of k on where w is in the second half. Where a warp's lines
// begin is known to add to what is shifted in most tiles, so that the rest of an address is a constant.
static KRef fragment_at(const GpuSimt *s, const GpuSide *x, KRef part, KRef i, int64_t w)
{
    Kernel *k = s->k;
    const bool is_a = x == &s->a;
    const int64_t words = is_a ? A_WORDS : B_WORDS, lines = is_a ? GPU_UNIT_ROWS : GPU_UNIT_COLUMNS;
    const int64_t of_warp = lines * (is_a ? gpu_unit_rows(s) : gpu_unit_columns(s));
    const KRef lane = k_expr(k, "$ % #", s->thread, GPU_LANES), first = is_a ? s->row : s->column;
    const KRef word = team_word(s, k_expr(k, "$ % #", lane, GPU_UNIT_QUAD));
    const KRef from = k_expr(k, "$ * # + $ / #", word, x->pitch, lane, GPU_UNIT_QUAD);
    const KRef step = k_expr(k, "$ + #", part, w / (words / 2) * GPU_UNIT_QUAD);
    const KRef own = k_expr(k, "$ * # + #", i, lines, is_a ? w % 2 * GPU_UNIT_COLUMNS : 0);
    const KRef shift = gpu_side_shift(s, step);
    const KRef line = of_warp % GPU_SIMT_SHIFTED == 0 ? k_add(k, first, k_xor(k, own, shift))
                                                      : k_xor(k, k_add(k, first, own), shift);
    return k_aload(k, x->shared, k_expr(k, "$ + ($ * # + $)", from, step, x->pitch, line), 1);
}

static void load_rows(const GpuSimt *s, KRef part, KRef i, KRef to)
{
    for (int64_t w = 0; w < A_WORDS; w++)
        k_astore(s->k, to, k_index(s->k, w), fragment_at(s, &s->a, part, i, w));
}

static void load_columns(const GpuSimt *s, KRef part, KRef to)
{
    Kernel *k = s->k;
    const KRef j = k_loop(k, gpu_unit_columns(s), KFOR_UNROLL, "j");
    for (int64_t w = 0; w < B_WORDS; w++)
        k_astore(k, to, k_expr(k, "$ * # + #", j, B_WORDS, w), fragment_at(s, &s->b, part, j, w));
    k_end(k);
}

// The function for a product of units, and its constant.
typedef struct UnitCall {
    KDevice function;
    int64_t constant;
} UnitCall;

static UnitCall unit_call(const GpuSimt *s)
{
    const GpuMatmul *p = s->p;
    const int a = lower_node(s->l, p->a.id)->dtype;
    if (s->unit == GPU_UNIT_HALF)
        return (UnitCall){a == DTYPE_f16 ? KDEV_mma_f16 : KDEV_mma_bf16, 0};
    return (UnitCall){KDEV_mma_bytes,
                      (a == DTYPE_i8 ? A_IS_SIGNED : 0) | (p->bytes->has_signed_weights ? B_IS_SIGNED : 0)};
}

// Calls for each product of units: sums, the fragment of a, that of b.
static void multiply_words(const GpuSimt *s, KRef sums)
{
    Kernel *k = s->k;
    const UnitCall unit = unit_call(s);
    const int64_t columns = gpu_unit_columns(s);
    const KRef a = k_array(k, DTYPE_u32, A_WORDS), b = k_array(k, DTYPE_u32, columns * B_WORDS);
    const KRef part = k_for(k, k_index(k, 0), k_index(k, s->words), PART, KFOR_UNROLL, "part");
    load_columns(s, part, b);
    const KRef i = k_loop(k, gpu_unit_rows(s), KFOR_UNROLL, "i");
    load_rows(s, part, i, a);
    const KRef j = k_loop(k, columns, KFOR_UNROLL, "j");
    const KRef at = k_expr(k, "($ * # + $) * #", i, columns, j, GPU_UNIT_SUMS);
    const KRef of_b = k_expr(k, "$ * #", j, B_WORDS);
    k_device_list(k, unit.function, unit.constant,
                  (const KRef[KDEV_MAX_OPERANDS + 1]){sums, at, a, k_index(k, 0), b, of_b});
    k_end(k);
    k_end(k);
    k_end(k);
}

// Elements of f32 as the unit takes them: in two parts, or rounded.
static GpuSplit tf32_words(const GpuSimt *s, KRef from, int64_t n)
{
    return gpu_split_products(s->l) > 1 ? gpu_split_words(s->k, from, n)
                                        : (GpuSplit){.high = gpu_split_round(s->k, from, n)};
}

static void multiply_tf32(const GpuSimt *s, KRef sums)
{
    Kernel *k = s->k;
    const int64_t columns = gpu_unit_columns(s);
    const KRef a = k_array(k, DTYPE_f32, A_WORDS), b = k_array(k, DTYPE_f32, columns * B_WORDS);
    const KRef part = k_for(k, k_index(k, 0), k_index(k, s->words), PART, KFOR_UNROLL, "part");
    load_columns(s, part, b);
    const GpuSplit of_b = tf32_words(s, b, columns * B_WORDS);
    const KRef i = k_loop(k, gpu_unit_rows(s), KFOR_UNROLL, "i");
    load_rows(s, part, i, a);
    const GpuSplit of_a = tf32_words(s, a, A_WORDS);
    const KRef j = k_loop(k, columns, KFOR_UNROLL, "j");
    const KRef at = k_expr(k, "($ * # + $) * #", i, columns, j, GPU_UNIT_SUMS);
    const KRef first = k_expr(k, "$ * #", j, B_WORDS);
    if (of_a.low != 0)
        gpu_split_multiply(k, sums, at, &of_a, &of_b, first);
    else
        k_device(k, KDEV_mma_tf32, sums, at, of_a.high, k_index(k, 0), of_b.high, first);
    k_end(k);
    k_end(k);
    k_end(k);
}

static void multiply_simd(const GpuSimt *s, KRef sums)
{
    Kernel *k = s->k;
    const KRef step = k_for(k, k_index(k, 0), k_index(k, s->words), MATRIX, KFOR_UNROLL, "step");
    const KRef a = k_expr(k, "$ * # + $", step, s->a.pitch, s->row);
    const KRef b = k_expr(k, "$ * # + $", step, s->b.pitch, s->column);
    k_device_list(k, KDEV_simd_product, s->a.pitch,
                  (const KRef[KDEV_MAX_OPERANDS + 1]){sums, s->a.shared, a, s->b.shared, b});
    k_end(k);
}

void gpu_simt_multiply(const GpuSimt *s, KRef sums)
{
    static void (*const multiply[])(const GpuSimt *, KRef) = {
        [GPU_UNIT_FMA] = multiply_fma,    [GPU_UNIT_TF32] = multiply_tf32,
        [GPU_UNIT_HALF] = multiply_words, [GPU_UNIT_BYTES] = multiply_words,
        [GPU_UNIT_SIMD] = multiply_simd,  [GPU_UNIT_COOP] = gpu_coop_multiply};
    rlx_assert(s->unit < sizeof multiply / sizeof *multiply);
    multiply[s->unit](s, sums);
}
