// SPDX-License-Identifier: Apache-2.0
// Every row of every table of base and ir: what the compiler cannot check because it is text, order, or a
// match between two tables.
#include "../unit/unit.h"
#include "ir/graph/intern.h"
#include "ir/kernel/kernel.h"

#include <ctype.h>

static bool is_identifier(const char *s)
{
    bool ok = islower((unsigned char)*s) != 0;
    for (; *s; s++)
        ok &= islower((unsigned char)*s) || isdigit((unsigned char)*s) || *s == '_';
    return ok;
}

// --- ops.def ---

typedef struct OpRow {
    const char *name, *fexpr, *iexpr;
} OpRow;

static const OpRow op_rows[OP_COUNT] = {
#define LEAF(name)                                              {#name, "", ""},
#define EW(name, arity, cls, cost, flags, fexpr, iexpr, kernel) {#name, #fexpr, #iexpr},
#define OP(name, ...)                                           {#name, "", ""},
#define SUGAR(name, ...)                                        {#name, "", ""},
#include "ir/graph/ops.def"
};

static void test_ops_are_found_by_name(void **state)
{
    (void)state;
    OpId found = OP_none;
    for (uint32_t i = OP_none + 1; i < OP_COUNT; i++) {
        assert_string_equal(op_info[i].name, op_rows[i].name);
        assert_true(is_identifier(op_info[i].name));
        assert_true(op_parse(op_info[i].name, &found));
        assert_int_equal(found, i); // so no name stands twice
    }
    assert_true(op_parse("gelu", &found)); // files with an op's older name open, and get the new one
    assert_int_equal(found, OP_gelu_erf);
    assert_string_equal(op_old_name(OP_gelu_erf), "gelu");
    assert_null(op_old_name(OP_gelu_tanh));
    assert_false(op_parse("none", &found));
    assert_false(op_parse("", &found));
    assert_false(op_parse("Add", &found));
}

static const bool has_kernel[OP_COUNT] = {
#define OP(name, ...) [OP_##name] = true,
#define NO_KERNEL(name, ...)
#include "ir/graph/ops.def"
};

static void test_op_columns(void **state)
{
    enum { WITHOUT_KERNEL = OPFLAG_VIEW | OPFLAG_PARTS | OPFLAG_POINT };
    (void)state;
    for (uint32_t i = OP_none + 1; i < OP_COUNT; i++) {
        const OpInfo *op = &op_info[i];
        assert_true(op->min_src <= op->max_src);
        assert_true((op->kind == OPKIND_EW) == (op->ew != EW_NONE));
        assert_true((op->kind == OPKIND_EW) == (op->kernel != NULL));
        assert_true((op->kind == OPKIND_LEAF) == (op->max_src == 0));
        assert_true(op->n_results <= NODE_MAX_RESULTS);
        if (op->kind == OPKIND_CORE)
            assert_true(has_kernel[i] == ((op->flags & WITHOUT_KERNEL) == 0));
        assert_true(op->steps != OPSTEPS_KERNEL || attr_find((OpId)i, "kernel") != ATTR_COUNT);
        assert_true(op->steps != OPSTEPS_DEPTH || attr_find((OpId)i, "depth") != ATTR_COUNT);
        if (op->kind == OPKIND_EW)
            assert_true(op->cost >= 1 && op->n_results == 1 && op->max_src <= 3);
    }
}

// The meanings that a class promises are there, and no other.
static void test_meanings_fit_the_class(void **state)
{
    static const bool has_float[] = {
        [EW_ARITH] = true, [EW_FLOAT] = true, [EW_INTS] = false, [EW_LOGIC] = false,
        [EW_CMP] = true,   [EW_TEST] = true,  [EW_SEL] = true};
    static const bool has_int[] = {[EW_ARITH] = true, [EW_FLOAT] = false, [EW_INTS] = true, [EW_LOGIC] = true,
                                   [EW_CMP] = true,   [EW_TEST] = false,  [EW_SEL] = true};
    (void)state;
    for (uint32_t i = 0; i < OP_COUNT; i++) {
        if (op_info[i].kind != OPKIND_EW)
            continue;
        bool is_ok = (strcmp(op_rows[i].fexpr, "NONE") != 0) == has_float[op_info[i].ew] &&
                     (strcmp(op_rows[i].iexpr, "NONE") != 0) == has_int[op_info[i].ew];
        if (!is_ok)
            fail_msg("the meanings of %s do not fit its class", op_info[i].name);
    }
}

// --- kernel forms ---

// One element type of each kind that a class takes; -1 ends the row.
static const int class_types[][4] = {
    [EW_NONE] = {-1},
    [EW_ARITH] = {DTYPE_f32, DTYPE_i32, DTYPE_u8, -1},
    [EW_FLOAT] = {DTYPE_f32, DTYPE_f64, -1},
    [EW_INTS] = {DTYPE_i64, DTYPE_u32, DTYPE_bool, -1},
    [EW_LOGIC] = {DTYPE_bool, -1},
    [EW_CMP] = {DTYPE_f32, DTYPE_i32, DTYPE_bool, -1},
    [EW_TEST] = {DTYPE_f32, -1},
    [EW_SEL] = {DTYPE_f32, DTYPE_i8, DTYPE_bool, -1},
};

static DType result_type(const OpInfo *op, DType t)
{
    return op->ew == EW_CMP || op->ew == EW_TEST ? DTYPE_bool : t;
}

static void check_form(Arena *a, const OpInfo *op, DType t)
{
    static const char *const names[] = {"a", "b", "c"};
    Kernel *k = kernel_new(a, op->name);
    KRef operand[3] = {0};
    KRef zero = k_index(k, 0);
    for (uint32_t i = 0; i < op->max_src; i++) {
        DType type = op->ew == EW_SEL && i == 0 ? DTYPE_bool : t;
        operand[i] = k_load(k, kernel_param(k, names[i], type, false, true), zero, 1, 1);
    }
    DType out = result_type(op, t);
    uint32_t y = kernel_param(k, "y", out, true, false);
    KRef value = k_form(k, op->kernel, operand, (int)t);
    if (k_inst(k, value)->dtype != out)
        fail_msg("the form of %s has another type than the op for %s", op->name, dtype_info[t].name);
    k_store(k, y, zero, value, 1);
    const char *message = kernel_verify(k);
    if (message)
        fail_msg("the form of %s does not verify: %s", op->name, message);
}

static void test_kernel_forms(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < OP_COUNT; i++) {
        const OpInfo *op = &op_info[i];
        if (op->kind != OPKIND_EW)
            continue;
        for (const int *t = class_types[op->ew]; *t >= 0; t++) {
            Arena a = {0};
            check_form(&a, op, (DType)*t);
            arena_free(&a);
        }
    }
}

// Each operand is a letter of the form, and nothing behind the last operand is, but what `let` names.
static void test_kernel_forms_use_their_operands(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < OP_COUNT; i++) {
        const OpInfo *op = &op_info[i];
        bool is_used[26] = {false};
        for (const char *p = op->kernel; p && *p; p++) {
            bool is_alone =
                !isalnum((unsigned char)p[1]) && (p == op->kernel || !isalnum((unsigned char)p[-1]));
            if (islower((unsigned char)*p) && is_alone)
                is_used[*p - 'a'] = true;
        }
        for (const char *p = op->kernel; p && (p = strstr(p, "(let ")) != NULL; p++)
            is_used[p[5] - 'a'] = false;
        for (uint32_t k = 0; op->kernel && k < 26; k++)
            if (is_used[k] != (k < op->max_src))
                fail_msg("%s has %u operands, but its form is %s", op->name, op->max_src, op->kernel);
    }
}

static void test_kops(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < KOP_COUNT; i++) {
        KOp found = KOP_COUNT;
        assert_true(is_identifier(kop_info[i].name));
        assert_true(kop_parse(kop_info[i].name, strlen(kop_info[i].name), &found));
        assert_int_equal(found, i);
        assert_in_range(kop_info[i].arity, 1, 3);
        assert_true(kop_info[i].cost >= 1);
    }
}

// --- attributes ---

static void test_attributes_stand_with_their_op(void **state)
{
    (void)state;
    uint32_t n_found = 0;
    for (uint32_t op = 0; op < OP_COUNT; op++) {
        AttrId first = ATTR_COUNT;
        uint32_t count = 0;
        attr_range((OpId)op, &first, &count);
        assert_true(count <= BUILD_MAX_ATTRS);
        n_found += count;
        for (uint32_t i = 0; i < count; i++) {
            const AttrInfo *info = &attr_info[first + i];
            assert_int_equal(info->op, op);
            assert_true(is_identifier(info->name));
            assert_true(strlen(info->text) > 0);
            assert_int_equal(attr_find((OpId)op, info->name), first + i);
        }
        assert_int_equal(attr_find((OpId)op, "no such attribute"), ATTR_COUNT);
    }
    assert_int_equal(n_found,
                     ATTR_COUNT); // rows of one op stand together, and none belongs to an elementwise op
}

// attr_default ends the program when a default does not parse.
static void test_defaults_parse(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    Graph *g = graph_new(&a, &d, "defaults");
    for (uint32_t i = 0; i < ATTR_COUNT; i++) {
        const AttrInfo *info = &attr_info[i];
        if (!info->dflt)
            continue;
        AttrVal v = attr_default(g, (AttrId)i);
        assert_int_equal(v.id, i);
        if (info->type == ATTR_STR)
            assert_string_equal(v.u.str, info->dflt);
    }
    arena_free(&a);
}

// The builder normalises axes by these names.
static void test_axis_attributes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < ATTR_COUNT; i++) {
        if (strcmp(attr_info[i].name, "axis") == 0)
            assert_int_equal(attr_info[i].type, ATTR_INT);
        if (strcmp(attr_info[i].name, "axes") == 0)
            assert_int_equal(attr_info[i].type, ATTR_INTS);
        if (attr_info[i].type == ATTR_BLOB)
            assert_int_equal(op_info[attr_info[i].op].kind, OPKIND_LEAF);
    }
}

// --- dtypes.def ---

static void test_dtypes(void **state)
{
    static const char letters[] = {
        [DCLASS_FLOAT] = 'f', [DCLASS_INT] = 'i', [DCLASS_UINT] = 'u', [DCLASS_BOOL] = 'b'};
    (void)state;
    for (uint32_t i = 0; i < DTYPE_COUNT; i++) {
        const DTypeInfo *t = &dtype_info[i];
        DType found = DTYPE_COUNT;
        assert_true(dtype_parse(t->name, &found));
        assert_int_equal(found, i);
        if (t->cls == DCLASS_BOOL || i == DTYPE_bf16 || dtype_is_narrow((DType)i)) {
            assert_int_equal(t->bytes, i == DTYPE_bf16 ? 2 : 1);
            assert_true(t->bits <= 8 * t->bytes);
            continue;
        }
        assert_int_equal(t->bits, 8 * t->bytes);
        assert_int_equal(t->name[0], letters[t->cls]);
        assert_int_equal(strtol(t->name + 1, NULL, 10), 8 * t->bytes);
        for (uint32_t k = 0; t->name[k]; k++)
            assert_int_equal(t->safetensors[k], toupper((unsigned char)t->name[k]));
    }
    for (uint32_t i = 0; i < DTYPE_COUNT; i++) {
        for (uint32_t k = 0; k < i; k++) {
            assert_int_not_equal(dtype_info[i].onnx, dtype_info[k].onnx);
            assert_string_not_equal(dtype_info[i].safetensors, dtype_info[k].safetensors);
        }
    }
}

static void test_dtype_aliases(void **state)
{
    static const struct {
        const char *name;
        DType type;
    } rows[] = {
        {"float32", DTYPE_f32}, {"float16", DTYPE_f16}, {"bfloat16", DTYPE_bf16},
        {"float64", DTYPE_f64}, {"int64", DTYPE_i64},   {"int8", DTYPE_i8},
        {"uint16", DTYPE_u16},  {"bool", DTYPE_bool},   {"float8_e5m2", DTYPE_f8e5m2},
        {"int4", DTYPE_i4},
    };
    (void)state;
    DType found = DTYPE_COUNT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(dtype_parse(rows[i].name, &found));
        assert_int_equal(found, rows[i].type);
    }
    assert_false(dtype_parse("float", &found));
    assert_false(dtype_parse("f32 ", &found));
    assert_false(dtype_parse("", &found));
}

// --- errors.def ---

static void test_error_codes(void **state)
{
    (void)state;
    long last = 0;
    for (uint32_t i = 0; i < DIAG_CODE_COUNT; i++) {
        const char *text = diag_code_text((DiagCode)i);
        DiagCode found = DIAG_CODE_COUNT;
        assert_int_equal(strlen(text), 5);
        assert_int_equal(text[0], 'E');
        long number = strtol(text + 1, NULL, 10);
        assert_true(number > last); // ordered, so none stands twice
        last = number;
        assert_true(diag_code_parse(text, &found));
        assert_int_equal(found, i);
        const char *title = diag_code_title((DiagCode)i), *explanation = diag_code_explanation((DiagCode)i);
        assert_true(strlen(title) > 0 && title[strlen(title) - 1] != '.');
        assert_true(strlen(explanation) > 20 && explanation[strlen(explanation) - 1] == '.');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_are_found_by_name),
        cmocka_unit_test(test_op_columns),
        cmocka_unit_test(test_meanings_fit_the_class),
        cmocka_unit_test(test_kernel_forms),
        cmocka_unit_test(test_kernel_forms_use_their_operands),
        cmocka_unit_test(test_kops),
        cmocka_unit_test(test_attributes_stand_with_their_op),
        cmocka_unit_test(test_defaults_parse),
        cmocka_unit_test(test_axis_attributes),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_dtype_aliases),
        cmocka_unit_test(test_error_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
