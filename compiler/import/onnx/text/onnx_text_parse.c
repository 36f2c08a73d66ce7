// SPDX-License-Identifier: Apache-2.0
// Cast from strings to numbers. An automaton says of every byte whether it is a digit before the point, after
// it or of the exponent; the digits are summed up with the powers of ten of their places. At most 19 digits
// count. Spaces around a number are allowed; INF, Infinity and NaN may have a sign and any case; what is no
// number gives NaN, or 0 as an integer. f64: exact where the digits fit 53 bits and the power of ten is at
// most 22.
#include "compiler/import/onnx/onnx_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 19, MAX_POWER = 340 };

// States of the automaton; the class of a byte leads to the next one.
enum {
    S_BEGIN,
    S_SIGN,
    S_INT,
    S_LONE_POINT,
    S_FRACTION,
    S_POINT,
    S_E,
    S_E_SIGN,
    S_E_DIGIT,
    S_END,
    S_BAD,
    N_STATES
};
enum { C_ZERO, C_DIGIT, C_SIGN, C_POINT, C_E, C_SPACE, C_OTHER, N_CLASSES };

static const int32_t table[N_STATES][N_CLASSES] = {
    [S_BEGIN] = {S_BEGIN, S_INT, S_SIGN, S_LONE_POINT, S_BAD, S_BEGIN, S_BAD},
    [S_SIGN] = {S_SIGN, S_INT, S_BAD, S_LONE_POINT, S_BAD, S_BAD, S_BAD},
    [S_INT] = {S_INT, S_INT, S_BAD, S_POINT, S_E, S_END, S_BAD},
    [S_LONE_POINT] = {S_LONE_POINT, S_FRACTION, S_BAD, S_BAD, S_BAD, S_BAD, S_BAD},
    [S_FRACTION] = {S_FRACTION, S_FRACTION, S_BAD, S_BAD, S_E, S_END, S_BAD},
    [S_POINT] = {S_POINT, S_FRACTION, S_BAD, S_BAD, S_E, S_END, S_BAD},
    [S_E] = {S_E, S_E_DIGIT, S_E_SIGN, S_BAD, S_BAD, S_BAD, S_BAD},
    [S_E_SIGN] = {S_E_SIGN, S_E_DIGIT, S_BAD, S_BAD, S_BAD, S_BAD, S_BAD},
    [S_E_DIGIT] = {S_E_DIGIT, S_E_DIGIT, S_BAD, S_BAD, S_BAD, S_END, S_BAD},
    [S_END] = {S_END, S_BAD, S_BAD, S_BAD, S_BAD, S_END, S_BAD},
    [S_BAD] = {S_BAD, S_BAD, S_BAD, S_BAD, S_BAD, S_BAD, S_BAD},
};

static int32_t class_of(uint32_t c)
{
    return c == 0                            ? C_ZERO
           : c >= '0' && c <= '9'            ? C_DIGIT
           : c == '+' || c == '-'            ? C_SIGN
           : c == '.'                        ? C_POINT
           : c == 'e' || c == 'E'            ? C_E
           : c == ' ' || (c >= 9 && c <= 13) ? C_SPACE
                                             : C_OTHER;
}

typedef struct Parse {
    int64_t axis; // of the bytes
    NodeId text;
    NodeId state;  // i32, after every byte
    NodeId digit;  // u64, what every byte is as a digit
    NodeId result; // i32: the last state
} Parse;

static NodeId walk(OnnxNode *n, const Parse *p, bool all)
{
    int32_t classes[256];
    for (uint32_t c = 0; c < 256; c++)
        classes[c] = class_of(c);
    const Shape list = {.rank = 1, .dim = {256}}, states = {.rank = 2, .dim = {N_STATES, N_CLASSES}};
    NodeBuild b =
        ONNX_BEGIN(n, OP_dfa, p->text,
                   onnx_const(n, DTYPE_i32, &list, arena_copy(n->model->arena, classes, sizeof classes),
                              sizeof classes));
    node_src(&b, onnx_const(n, DTYPE_i32, &states, table, sizeof table));
    node_int(&b, A_dfa_all, all);
    return onnx_end(n, &b);
}

static NodeId in_state(OnnxNode *n, NodeId state, int32_t which)
{
    return onnx_op2(n, OP_eq, state, onnx_scalar(n, DTYPE_i32, which));
}

static NodeId both(OnnxNode *n, NodeId a, NodeId b)
{
    return onnx_op2(n, OP_logical_and, a, b);
}

// True for the bytes that are digits while the automaton is in a state.
static NodeId digits_of(OnnxNode *n, const Parse *p, int32_t state)
{
    const NodeId is_digit = onnx_op2(n, OP_le, p->digit, onnx_scalar(n, DTYPE_u64, 9));
    return both(n, is_digit, in_state(n, p->state, state));
}

static NodeId sum(OnnxNode *n, const Parse *p, NodeId v)
{
    return onnx_reduce(n, OP_reduce_sum, v, &p->axis, 1);
}

static NodeId count(OnnxNode *n, const Parse *p, NodeId flags)
{
    return sum(n, p, onnx_cast(n, flags, DTYPE_i64));
}

static NodeId running(OnnxNode *n, NodeId flags)
{
    return onnx_cumsum(n, onnx_cast(n, flags, DTYPE_i64), -1, false);
}

static NodeId powers_u64(OnnxNode *n)
{
    uint64_t *v = ARENA_ARRAY(n->model->arena, uint64_t, DIGITS + 1);
    v[0] = 1;
    for (uint32_t i = 1; i <= DIGITS; i++)
        v[i] = v[i - 1] * 10;
    const Shape s = {.rank = 1, .dim = {DIGITS + 1}};
    return onnx_const(n, DTYPE_u64, &s, v, (DIGITS + 1) * sizeof *v);
}

// The digits of the bytes `which` as a number, u64; *dropped: how many behind the first 19 do not count.
static NodeId number_of(OnnxNode *n, const Parse *p, NodeId which, NodeId *dropped)
{
    const NodeId not_zero = onnx_op2(n, OP_ne, p->digit, onnx_scalar(n, DTYPE_u64, 0));
    const NodeId begun =
        onnx_op2(n, OP_gt, running(n, both(n, which, not_zero)), onnx_scalar(n, DTYPE_i64, 0));
    const NodeId counts = both(n, which, begun);
    const NodeId total = count(n, p, counts);
    const NodeId most = onnx_op2(n, OP_min, total, onnx_scalar(n, DTYPE_i64, DIGITS));
    const NodeId place = onnx_op2(n, OP_sub, most, running(n, counts));
    const NodeId is_in = both(n, counts, onnx_op2(n, OP_ge, place, onnx_scalar(n, DTYPE_i64, 0)));
    const NodeId at = onnx_op3(n, OP_where, is_in, place, onnx_scalar(n, DTYPE_i64, 0));
    const NodeId value = onnx_op2(n, OP_mul, p->digit, onnx_gather(n, powers_u64(n), at, 0));
    *dropped = onnx_op2(n, OP_sub, total, most);
    return sum(n, p, onnx_op3(n, OP_where, is_in, value, onnx_scalar(n, DTYPE_u64, 0)));
}

// True where a minus is the byte that led to a state.
static NodeId has_minus(OnnxNode *n, const Parse *p, int32_t state)
{
    const NodeId is_minus = onnx_op2(n, OP_eq, p->text, onnx_scalar(n, DTYPE_u8, '-'));
    return onnx_op2(n, OP_gt, count(n, p, both(n, is_minus, in_state(n, p->state, state))),
                    onnx_scalar(n, DTYPE_i64, 0));
}

static NodeId negated(OnnxNode *n, NodeId v, NodeId when)
{
    return onnx_op3(n, OP_where, when, onnx_op1(n, OP_neg, v), v);
}

static NodeId powers_f64(OnnxNode *n)
{
    double *v = ARENA_ARRAY(n->model->arena, double, MAX_POWER + 1);
    for (uint32_t i = 0; i <= MAX_POWER; i++)
        v[i] = i <= 308 ? strtod(arena_printf(n->model->arena, "1e%u", i), NULL) : (double)INFINITY;
    const Shape s = {.rank = 1, .dim = {MAX_POWER + 1}};
    return onnx_const(n, DTYPE_f64, &s, v, (MAX_POWER + 1) * sizeof *v);
}

// v * 10^power in two steps, so that what fits is not lost on the way.
static NodeId scale(OnnxNode *n, NodeId v, NodeId power)
{
    const NodeId table_node = powers_f64(n), zero = onnx_scalar(n, DTYPE_i64, 0);
    const NodeId size = onnx_op2(n, OP_min, onnx_op1(n, OP_abs, power), onnx_scalar(n, DTYPE_i64, 2 * 308));
    const NodeId first = onnx_op2(n, OP_min, size, onnx_scalar(n, DTYPE_i64, 308));
    const NodeId rest = onnx_op2(n, OP_sub, size, first);
    const NodeId a = onnx_gather(n, table_node, first, 0), b = onnx_gather(n, table_node, rest, 0);
    const NodeId down = onnx_op2(n, OP_div, onnx_op2(n, OP_div, v, a), b);
    const NodeId up = onnx_op2(n, OP_mul, onnx_op2(n, OP_mul, v, a), b);
    return onnx_op3(n, OP_where, onnx_op2(n, OP_lt, power, zero), down, up);
}

static NodeId is_number(OnnxNode *n, const Parse *p)
{
    NodeId ok = in_state(n, p->result, S_INT);
    static const int32_t ends[] = {S_FRACTION, S_POINT, S_E_DIGIT, S_END};
    for (uint32_t i = 0; i < sizeof ends / sizeof *ends; i++)
        ok = onnx_op2(n, OP_logical_or, ok, in_state(n, p->result, ends[i]));
    return ok;
}

// Infinities and NaN by name: 1, 2: infinite; 3: NaN or no number at all.
static NodeId named(OnnxNode *n, const Parse *p, NodeId value)
{
    static const struct {
        const char *text;
        double value;
    } names[] = {{"inf", (double)INFINITY},       {"+inf", (double)INFINITY},
                 {"-inf", -(double)INFINITY},     {"infinity", (double)INFINITY},
                 {"+infinity", (double)INFINITY}, {"-infinity", -(double)INFINITY}};
    enum { N = sizeof names / sizeof *names };
    ProtobufCBinaryData keys[N];
    double *v = ARENA_ARRAY(n->model->arena, double, N + 1);
    v[0] = (double)NAN;
    for (uint32_t i = 0; i < N; i++) {
        keys[i] =
            (ProtobufCBinaryData){.len = strlen(names[i].text), .data = (uint8_t *)(uintptr_t)names[i].text};
        v[i + 1] = names[i].value;
    }
    const Shape s = {.rank = 1, .dim = {N + 1}};
    const NodeId found = onnx_text_find(n, onnx_text_change_case(n, p->text, false), keys, N);
    const NodeId at = onnx_op2(n, OP_add, found, onnx_scalar(n, DTYPE_i32, 1));
    const NodeId other = onnx_gather(n, onnx_const(n, DTYPE_f64, &s, v, (N + 1) * sizeof *v), at, 0);
    return onnx_op3(n, OP_where, is_number(n, p), value, other);
}

NodeId onnx_text_number(OnnxNode *n, NodeId text, DType to)
{
    Parse p = {.text = text, .axis = (int64_t)onnx_shape(n, text)->rank - 1};
    NodeId dropped = 0, ignored = 0;
    p.state = walk(n, &p, true);
    p.result = walk(n, &p, false);
    // Bytes below '0' become large.
    p.digit = onnx_op2(n, OP_sub, onnx_cast(n, text, DTYPE_u64), onnx_scalar(n, DTYPE_u64, '0'));
    const NodeId in_fraction = digits_of(n, &p, S_FRACTION);
    const NodeId mantissa_digits = onnx_op2(n, OP_logical_or, digits_of(n, &p, S_INT), in_fraction);
    NodeId mantissa = number_of(n, &p, mantissa_digits, &dropped);
    NodeId exponent = onnx_cast(n, number_of(n, &p, digits_of(n, &p, S_E_DIGIT), &ignored), DTYPE_i64);
    exponent = onnx_op2(n, OP_min, exponent, onnx_scalar(n, DTYPE_i64, 100000));
    exponent = negated(n,
                       onnx_op3(n, OP_where, onnx_op2(n, OP_lt, exponent, onnx_scalar(n, DTYPE_i64, 0)),
                                onnx_scalar(n, DTYPE_i64, 100000), exponent),
                       has_minus(n, &p, S_E_SIGN));
    const NodeId power =
        onnx_op2(n, OP_add, onnx_op2(n, OP_sub, exponent, count(n, &p, in_fraction)), dropped);
    const NodeId is_negative = has_minus(n, &p, S_SIGN);
    const bool is_int = dtype_info[to].cls == DCLASS_INT || dtype_info[to].cls == DCLASS_UINT;
    NodeId value = negated(n, scale(n, onnx_cast(n, mantissa, DTYPE_f64), power), is_negative);
    mantissa = onnx_squeeze(n, negated(n, onnx_cast(n, mantissa, DTYPE_i64), is_negative), &p.axis, 1);
    const NodeId is_whole =
        onnx_squeeze(n, onnx_op2(n, OP_eq, power, onnx_scalar(n, DTYPE_i64, 0)), &p.axis, 1);
    value = named(n, &p, onnx_squeeze(n, value, &p.axis, 1));
    if (!is_int)
        return onnx_cast(n, value, to);
    // Whole numbers beyond 53 bits are exact, and wrap.
    return onnx_op3(n, OP_where, both(n, is_whole, is_number(n, &p)), onnx_cast(n, mantissa, to),
                    onnx_cast(n, value, to));
}
