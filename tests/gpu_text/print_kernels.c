// SPDX-License-Identifier: Apache-2.0
// Writes kernels that use everything a GPU target can spell: print_kernels TARGET FOLDER makes
// FOLDER/NAME.txt for each. check_gpu_text.py compiles them.
#include "codegen/target/target.h"
#include "ir/kernel/kernel_fold.h"

#include <math.h>
#include <string.h>

typedef struct Printer {
    Arena *arena;
    const Target *target;
    const char *folder;
} Printer;

static bool print_kernel(const Printer *p, const Kernel *k)
{
    const char *wrong = kernel_verify(k);
    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
        return false;
    }
    const char *lacks = target_lacks(p->target, k);
    if (lacks) {
        fprintf(stderr, "left out: %s: %s\n", k->name, lacks);
        return true;
    }
    Str text = str_new(p->arena), all = str_new(p->arena);
    cfamily_print_kernel(p->target, k, &text);
    target_print_prelude(p->target, str_text(&text), &all);
    str_add(&all, str_text(&text));
    FILE *f = fopen(arena_printf(p->arena, "%s/%s.txt", p->folder, k->name), "w");
    if (!f)
        return false;
    fputs(str_text(&all), f);
    return fclose(f) == 0;
}

static Kernel *begin(const Printer *p, const char *name, DType type)
{
    Kernel *k = kernel_new(p->arena, name);
    kernel_param(k, "x", type, false, true);
    kernel_param(k, "w", type, false, true);
    kernel_param(k, "out", type, true, true);
    return k;
}

static KRef parallel(Kernel *k, int64_t n, const char *name)
{
    return k_loop(k, n, KFOR_PARALLEL, name);
}

// out[i * KOP_COUNT + op] = op(x[i], w[i], x[i + 1]) for every op of the type.
static Kernel *all_ops(const Printer *p, DType type)
{
    Kernel *k = begin(p, arena_printf(p->arena, "ops_%s", dtype_info[type].name), type);
    const uint32_t tests = kernel_param(k, "tests", DTYPE_bool, true, false);
    const KRef i = parallel(k, 64, "i");
    KRef operand[3];
    operand[0] = k_load(k, 0, i, 1, 1);
    operand[1] = k_load(k, 1, i, 1, 1);
    operand[2] = k_load(k, 0, k_expr(k, "$ + 1", i), 1, 1);
    for (int op = 0; op < KOP_COUNT; op++) {
        const uint32_t arity = kop_info[op].arity;
        if (!kop_is_defined((KOp)op, (int)type) || !target_spell(p->target, (KOp)op, (int)type, 1))
            continue;
        const bool is_select = kop_info[op].cls == KCLASS_SEL;
        const KRef first = is_select ? k_lt(k, operand[1], operand[2]) : operand[0];
        const KRef r = k_op(k, (KOp)op, first, arity > 1 ? operand[1] : 0, arity > 2 ? operand[2] : 0);
        const KRef at = k_expr(k, "$ * # + #", i, KOP_COUNT, op);
        k_store(k, kop_info[op].cls == KCLASS_CMP ? tests : 2, at, r, 1);
    }
    k_end(k);
    return k;
}

// From the type to every other.
static Kernel *all_casts(const Printer *p, DType type)
{
    Kernel *k = begin(p, arena_printf(p->arena, "casts_%s", dtype_info[type].name), type);
    const KRef i = parallel(k, 64, "i");
    const KRef x = k_load(k, 0, i, 1, 1);
    for (int to = 0; to < DTYPE_COUNT; to++) {
        if (!p->target->types[to].value || to == (int)type)
            continue;
        const uint32_t y =
            kernel_param(k, arena_printf(p->arena, "to_%s", dtype_info[to].name), (DType)to, true, false);
        const KRef v = k_cast(k, x, to);
        k_store(k, y, i, v, 1);
        k_store(k, 2, i, k_cast(k, v, (int)type), 1);
    }
    const KRef index = k_cast(k, x, KT_INDEX);
    k_store(k, 2, k_expr(k, "$ + 64", i), k_cast(k, index, (int)type), 1);
    k_store(k, 2, k_expr(k, "$ + 128", i), k_cast(k, i, (int)type), 1);
    k_end(k);
    return k;
}

static Kernel *form(const Printer *p, OpId op, DType type)
{
    Kernel *k = begin(p, arena_printf(p->arena, "form_%s", op_info[op].name), type);
    k->comment = arena_printf(p->arena, "%s of a model \\", op_info[op].name);
    const KRef i = parallel(k, 1000, "i");
    KRef operand[3];
    for (uint32_t s = 0; s < 3; s++)
        operand[s] = k_load(k, s, i, 1, 1);
    k_store(k, 2, i, k_form(k, op_info[op].kernel, operand, (int)type), 1);
    k_end(k);
    return k;
}

static Kernel *softmax(const Printer *p)
{
    Kernel *k = begin(p, "softmax", DTYPE_f32);
    const KRef row = parallel(k, 32, "row");
    const KRef top = k_var(k, k_number(k, DTYPE_f32, -HUGE_VAL), "top"),
               sum = k_var(k, k_number(k, DTYPE_f32, 0), "sum");
    for (int pass = 0; pass < 2; pass++) {
        const KRef j = k_loop(k, 100, KFOR_SERIAL, "j");
        const KRef at = k_expr(k, "$ * 100 + $", row, j), x = k_load(k, 0, at, 1, 1), most = k_get(k, top);
        if (pass == 0) {
            k_set(k, top, k_max(k, most, x));
        } else {
            const KRef e = k_exp(k, k_sub(k, x, most)), before = k_get(k, sum);
            k_store(k, 2, at, e, 1);
            k_set(k, sum, k_add(k, before, e));
        }
        k_end(k);
    }
    const KRef total = k_get(k, sum), j = k_loop(k, 100, KFOR_SERIAL, "j");
    const KRef at = k_expr(k, "$ * 100 + $", row, j), e = k_load(k, 2, at, 1, 1);
    k_store(k, 2, at, k_div(k, e, total), 1);
    k_end(k);
    k_end(k);
    return k;
}

static Kernel *matmul(const Printer *p, DType type)
{
    Kernel *k = begin(p, arena_printf(p->arena, "matmul_%s", dtype_info[type].name), type);
    const KRef i = parallel(k, 50, "i"), j = parallel(k, 70, "j");
    const KRef sum = k_var(k, k_number(k, DTYPE_f32, 0), "sum");
    const KRef c = k_loop(k, 90, KFOR_SERIAL, "c");
    const KRef x = k_cast(k, k_load(k, 0, k_expr(k, "$ * 90 + $", i, c), 1, 1), DTYPE_f32);
    const KRef w = k_cast(k, k_load(k, 1, k_expr(k, "$ * 70 + $", c, j), 1, 1), DTYPE_f32);
    const KRef before = k_get(k, sum);
    k_set(k, sum, k_fma(k, x, w, before));
    k_end(k);
    const KRef total = k_get(k, sum);
    k_store(k, 2, k_expr(k, "$ * 70 + $", i, j), k_cast(k, total, (int)type), 1);
    k_end(k);
    k_end(k);
    return k;
}

// Five loops of the grid, two of which start above 0 or step by more than 1.
static Kernel *deep_grid(const Printer *p)
{
    Kernel *k = begin(p, "deep_grid", DTYPE_f32);
    KRef at = k_index(k, 0);
    for (int d = 0; d < 5; d++) {
        const KRef i = k_for(k, k_index(k, d == 1), k_index(k, 4 + d), d == 3 ? 2 : 1, KFOR_PARALLEL, "i");
        at = k_expr(k, "$ * 10 + $", at, i);
    }
    const KRef x = k_load(k, 0, at, 1, 1);
    k_store(k, 2, at, k_neg(k, x), 1);
    for (int d = 0; d < 5; d++)
        k_end(k);
    return k;
}

// No grid: one thread; local arrays, branches, a loop to unroll, a barrier.
static Kernel *single(const Printer *p)
{
    Kernel *k = begin(p, "single", DTYPE_f16);
    k->may_alias = true;
    const KRef part = k_array(k, DTYPE_f16, 4), flags = k_array(k, DTYPE_bool, 4);
    KRef i = k_loop(k, 4, KFOR_UNROLL, "if");
    const KRef x = k_load(k, 0, i, 1, 1);
    k_astore(k, part, i, x);
    k_astore(k, flags, i, k_le(k, x, k_number(k, DTYPE_f16, -HUGE_VAL)));
    k_end(k);
    vec_push(k->arena, &k->insts, ((KInst){.kind = KI_barrier, .lanes = 1}));
    i = k_loop(k, 4, KFOR_SERIAL, "if");
    k_if(k, k_aload(k, flags, i, 1));
    k_comment(k, "inside\nof a branch");
    k_store(k, 2, i, k_aload(k, part, i, 1), 1);
    k_else(k);
    k_store(k, 2, i, k_number(k, DTYPE_f16, (double)NAN), 1);
    k_end(k);
    k_end(k);
    return k;
}

// Groups: what teams of several widths make of a vector that each thread fetches, handed through memory that
// all share.
static Kernel *group(const Printer *p, DType type)
{
    static const uint32_t widths[] = {2, 16, 64, 256};
    const uint8_t most = k_fetch_width((int)type);
    const bool is_bool = type == DTYPE_bool;
    Kernel *k = begin(p, arena_printf(p->arena, "group_%s", dtype_info[type].name), type);
    k_set_group(k, 256);
    const KRef shared = k_shared(k, (int)type, 256);
    const KRef i = k_for_group(k, 3, "i"), j = k_for_group(k, 5, "j"), t = k_thread(k);
    const KRef own = k_expr(k, "$ * #", t, most),
               at = k_expr(k, "($ * 5 + $) * # + $", i, j, 256L * most, own);
    const KRef part = k_array(k, (int)type, 2 * most);
    for (uint8_t n = 1; n <= most; n = (uint8_t)(n * 2)) {
        k_fetch(k, 0, at, part, k_index(k, 0), n);
        k_put(k, 2, at, part, k_index(k, 0), n);
    }
    KRef v = k_aload(k, part, k_index(k, 0), 1);
    for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++)
        v = k_team(k, is_bool ? KOP_or : w % 2 != 0 ? KOP_add : KOP_max, v, widths[w]);
    k_astore(k, shared, t, v);
    k_barrier(k);
    const KRef turn = k_loop(k, 2, KFOR_UNROLL, "turn");
    k_astore(k, part, turn, k_aload(k, shared, k_expr(k, "255 - $", t), 1));
    k_astore(k, part, k_index(k, 0), k_team(k, is_bool ? KOP_and : KOP_min, v, 128));
    k_put(k, 2, at, part, k_expr(k, "$ * #", turn, most), most);
    k_end(k);
    k_end(k);
    k_end(k);
    return k;
}

int main(int argc, char **argv)
{
    Arena arena = {0};
    const Target *target = argc == 3 ? target_find(argv[1]) : NULL;
    if (!target) {
        fprintf(stderr, "usage: print_kernels TARGET FOLDER\n");
        return 2;
    }
    const Printer p = {&arena, target, argv[2]};
    bool ok =
        print_kernel(&p, softmax(&p)) && print_kernel(&p, deep_grid(&p)) && print_kernel(&p, single(&p));
    ok = ok && print_kernel(&p, matmul(&p, DTYPE_f32)) && print_kernel(&p, matmul(&p, DTYPE_bf16));
    for (int op = 0; op < OP_COUNT && ok; op++)
        if (op_info[op].kind == OPKIND_EW && (op_info[op].ew == EW_FLOAT || op_info[op].ew == EW_ARITH))
            ok = print_kernel(&p, form(&p, (OpId)op, DTYPE_f32));
    for (int t = 0; t < DTYPE_COUNT && ok; t++)
        ok = print_kernel(&p, all_ops(&p, (DType)t)) && print_kernel(&p, all_casts(&p, (DType)t)) &&
             (k_fetch_width(t) == 0 || !kop_is_defined(t == DTYPE_bool ? KOP_or : KOP_add, t) ||
              print_kernel(&p, group(&p, (DType)t)));
    arena_free(&arena);
    return ok ? 0 : 1;
}
