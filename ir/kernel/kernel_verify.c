// SPDX-License-Identifier: Apache-2.0
// What must hold for every kernel that a schedule hands to an emitter. Written from the contract in kernel.h
// alone, so that it does not share mistakes with the builders.
#include "ir/kernel/device.h"
#include "ir/kernel/kernel_group.h"

#include <stdarg.h>
#include <string.h>

enum { MAX_BLOCKS_DEEP = 60, MAX_LANES = 64 };

typedef struct Checker {
    const Kernel *k;
    KRef at;
    const char *message;
    uint32_t *block; // by instruction: the block that it is in
    bool *is_closed; // by block
    uint32_t open[MAX_BLOCKS_DEEP];
    uint8_t opener[MAX_BLOCKS_DEEP]; // KKind
    uint32_t depth, n_blocks;
    uint32_t n_group_loops;
    bool has_matrix; // matrix registers are in use
} Checker;

static bool fail(Checker *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fail(Checker *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(c->k->arena, fmt, args);
    va_end(args);
    c->message = arena_printf(c->k->arena, "%s: instruction %u: %s", c->k->name, c->at, text);
    return false;
}

// Operand r of the current instruction: defined before, in scope, with a value.
static bool check_ref(Checker *c, KRef r)
{
    if (r == 0 || r >= c->at)
        return fail(c, "operand %u is not defined before", r);
    if (c->is_closed[c->block[r]])
        return fail(c, "operand %u is out of scope", r);
    const uint8_t kind = k_inst(c->k, r)->kind;
    const bool is_value = kkind_is_expression(kind) || kkind_info[kind].cls == KIND_VALUE;
    return is_value || fail(c, "operand %u has no value", r);
}

static bool check_typed(Checker *c, KRef r, int type, uint8_t lanes)
{
    if (!check_ref(c, r))
        return false;
    const KInst *n = k_inst(c->k, r);
    if (n->dtype == type && n->lanes == lanes)
        return true;
    return fail(c, "operand %u is %s with %d lanes, expected %s with %d", r, kt_name(n->dtype), n->lanes,
                kt_name(type), lanes);
}

static bool check_place(Checker *c, KRef r, KKind kind)
{
    if (r == 0 || r >= c->at || k_inst(c->k, r)->kind != kind)
        return fail(c, "operand %u is not a variable or array", r);
    return !c->is_closed[c->block[r]] || fail(c, "variable %u is out of scope", r);
}

static bool check_op(Checker *c, const KInst *n)
{
    if (n->kop >= KOP_COUNT)
        return fail(c, "unknown operation");
    const KOpInfo *info = &kop_info[n->kop];
    const KRef src[3] = {n->a, n->b, n->c};
    const uint32_t first = info->cls == KCLASS_SEL;
    if (first && !check_typed(c, n->a, DTYPE_bool, n->lanes))
        return false;
    if (!check_ref(c, src[first]))
        return false;
    const int type = k_inst(c->k, src[first])->dtype;
    for (uint32_t i = first; i < 3; i++) {
        if (i < info->arity && !check_typed(c, src[i], type, n->lanes))
            return false;
        if (i >= info->arity && src[i])
            return fail(c, "%s has too many operands", info->name);
    }
    if (n->dtype != (info->cls == KCLASS_CMP ? (int)DTYPE_bool : type))
        return fail(c, "result of %s is %s", info->name, kt_name(n->dtype));
    return kop_is_defined((KOp)n->kop, type) ||
           fail(c, "%s is not defined for %s", info->name, kt_name(type));
}

static bool check_joint(Checker *c, const KInst *n)
{
    const uint8_t op = n->kop;
    const bool joins =
        op == KOP_add || op == KOP_mul || op == KOP_min || op == KOP_max || op == KOP_and || op == KOP_or;
    return joins || fail(c, "no horizontal %s", op < KOP_COUNT ? kop_info[op].name : "operation");
}

static bool check_hreduce(Checker *c, const KInst *n)
{
    if (!check_joint(c, n))
        return false;
    if (!check_ref(c, n->a) || k_inst(c->k, n->a)->lanes < 2)
        return c->message ? false : fail(c, "horizontal reduction of a scalar");
    return check_typed(c, n->a, n->dtype, k_inst(c->k, n->a)->lanes);
}

static bool check_memory(Checker *c, const KInst *n)
{
    const KParam *p = &c->k->params.data[n->imm];
    if (p->dtype != n->dtype)
        return fail(c, "%s value in %s buffer", kt_name(n->dtype), kt_name((int)p->dtype));
    if (n->count < 1 || n->count > n->lanes)
        return fail(c, "%d of %d lanes", n->count, n->lanes);
    return n->dtype != DTYPE_bool || n->lanes == 1 || fail(c, "lane masks have no memory form");
}

static bool check_point(Checker *c, const KInst *n)
{
    const Kernel *k = c->k;
    const KParam *p = &k->params.data[n->imm];
    if (p->is_written || p->table == 0 || p->table > k->params.len ||
        k->params.data[p->table - 1].dtype != DTYPE_u64)
        return fail(c, "%s has no table of addresses", p->name);
    return true;
}

static bool check_array(Checker *c, const KInst *n)
{
    return n->imm > 0 || fail(c, "empty array");
}

static bool check_element(Checker *c, const KInst *n)
{
    return k_inst(c->k, n->a)->dtype == n->dtype || fail(c, "element type differs");
}

static bool check_variable(Checker *c, const KInst *n)
{
    const KInst *v = k_inst(c->k, n->a);
    return (v->dtype == n->dtype && v->lanes == n->lanes) || fail(c, "type of variable %u differs", n->a);
}

static bool open_block(Checker *c, uint8_t kind)
{
    if (c->depth == MAX_BLOCKS_DEEP)
        return fail(c, "more than %d nested blocks", MAX_BLOCKS_DEEP - 1);
    c->opener[c->depth] = kind;
    c->open[c->depth++] = c->n_blocks++;
    return true;
}

static bool close_block(Checker *c)
{
    if (c->depth < 2)
        return fail(c, "no open block");
    c->is_closed[c->open[--c->depth]] = true;
    return true;
}

static bool check_for(Checker *c, const KInst *n)
{
    if (n->imm < 1 || n->flags > KFOR_GIVEN || n->dtype != KT_INDEX)
        return fail(c, "malformed loop");
    return n->flags != KFOR_GROUP || c->depth - 1 == c->n_group_loops++ ||
           fail(c, "a loop over groups in or behind something else");
}

static bool check_else(Checker *c, const KInst *n)
{
    (void)n;
    return c->opener[c->depth - 1] == KI_if || fail(c, "else without if");
}

static bool check_const(Checker *c, const KInst *n)
{
    return n->lanes == 1 || fail(c, "constant vector");
}

static bool check_part(Checker *c, const KInst *n)
{
    return (n->dtype == KT_INDEX && n->lanes == 1 && (n->imm == 0 || n->imm == 1)) ||
           fail(c, "malformed part");
}

static bool check_zip(Checker *c, const KInst *n)
{
    if ((n->dtype != DTYPE_f32 && n->dtype != DTYPE_i32) || n->lanes <= 1)
        return fail(c, "zip of other than f32 and i32 vectors");
    return (n->imm >= KZIP_LOW && n->imm <= KZIP_ODD) || fail(c, "malformed zip");
}

static bool check_custom(Checker *c, const KInst *n)
{
    (void)n;
    return c->k->custom != NULL || fail(c, "no text");
}

static bool check_cast(Checker *c, const KInst *n)
{
    if (!check_ref(c, n->a))
        return false;
    const int from = k_inst(c->k, n->a)->dtype;
    if (k_inst(c->k, n->a)->lanes != n->lanes)
        return fail(c, "lanes change in a cast");
    return n->lanes == 1 || (n->imm == KCAST_VALUE && k_casts_vectors(from, n->dtype)) ||
           (n->imm == KCAST_ROUND && from == DTYPE_f32 && n->dtype == DTYPE_i32) ||
           (n->imm == KCAST_BITS && k_bitcasts_vectors(from, n->dtype)) ||
           fail(c, "no cast of vectors from %s to %s", kt_name(from), kt_name(n->dtype));
}

static bool check_matrix_memory(Checker *c, const KInst *n)
{
    if (n->imm < 0 || n->imm >= (int64_t)c->k->params.len)
        return fail(c, "no such parameter");
    const KParam *p = &c->k->params.data[n->imm];
    if (p->dtype != DTYPE_bf16 && (p->dtype != DTYPE_i32 || n->kop == KMATRIX_split))
        return fail(c, "%s holds nothing for matrix registers", p->name);
    if (n->kop == KMATRIX_split ? !p->is_written : !p->is_read)
        return fail(c, "%s is not declared as %s", p->name, n->kop == KMATRIX_split ? "written" : "read");
    return check_typed(c, n->a, KT_INDEX, 1) && check_typed(c, n->b, KT_INDEX, 1);
}

static bool check_matrix(Checker *c, const KInst *n)
{
    const bool is_edge = n->kop == KMATRIX_begin || n->kop == KMATRIX_end;
    if (is_edge) {
        if (c->has_matrix == (n->kop == KMATRIX_begin))
            return fail(c, "matrix registers begin or end twice");
        c->has_matrix = !c->has_matrix;
        return !c->has_matrix || (check_typed(c, n->a, KT_INDEX, 1) && check_typed(c, n->b, KT_INDEX, 1));
    }
    if (n->kop == KMATRIX_split)
        return check_matrix_memory(c, n) && check_typed(c, n->c, DTYPE_f32, n->lanes);
    if (!c->has_matrix || n->count > 7 || (n->flags & 15) > 7 || n->flags >> 4 > 7)
        return fail(c, "no such matrix register");
    if (n->kop == KMATRIX_load)
        return check_matrix_memory(c, n);
    if (n->kop == KMATRIX_store)
        return check_place(c, n->a, KI_array) &&
               (k_inst(c->k, n->a)->dtype == DTYPE_f32 || k_inst(c->k, n->a)->dtype == DTYPE_i32) &&
               check_typed(c, n->b, KT_INDEX, 1) && check_typed(c, n->c, KT_INDEX, 1);
    return n->kop == KMATRIX_zero || n->kop == KMATRIX_mac || fail(c, "unknown matrix statement");
}

// Values of a list are what the statement behind it says; here only that they are there.
static bool check_list(Checker *c, const KInst *n)
{
    const KRef r[3] = {n->a, n->b, n->c};
    for (uint32_t i = 0; i < 3 && r[i] != 0; i++)
        if (r[i] >= c->at || c->is_closed[c->block[r[i]]])
            return fail(c, "operand %u is not defined before, or out of scope", r[i]);
    return n->a != 0 || fail(c, "empty list");
}

static bool check_operand(Checker *c, KRef r, char letter)
{
    static const struct {
        char letter;
        int type;
    } values[] = {{'i', KT_INDEX}, {'u', DTYPE_u64}, {'r', DTYPE_u32}, {'f', DTYPE_f32}, {'b', DTYPE_bool}};
    if (letter == 'f' && r != 0 && r < c->at && k_is_half(k_inst(c->k, r)->dtype))
        return check_ref(c, r) && (k_inst(c->k, r)->lanes == 1 || fail(c, "operand %u is a vector", r));
    for (uint32_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i].letter == letter)
            return check_typed(c, r, values[i].type, 1);
    if (letter == 'p')
        return check_place(c, r, KI_address);
    if (letter == 'V')
        return check_place(c, r, KI_var) &&
               (k_inst(c->k, r)->dtype == KT_INDEX || fail(c, "type of variable %u differs", r));
    const int element = letter == 'F' ? DTYPE_f32 : DTYPE_u32;
    return check_place(c, r, KI_array) &&
           (k_inst(c->k, r)->dtype == element || fail(c, "element type of array %u differs", r));
}

static bool check_call(Checker *c, const KInst *n)
{
    const KDevice f = kdev_of(n);
    if ((uint32_t)f >= KDEV_COUNT || (device_info[f].result == KDEV_VOID) != (n->kind == KI_device))
        return fail(c, "no such device function");
    const KRef own[3] = {n->a, n->b, n->c};
    const char *letters = device_info[f].operands;
    uint32_t i = 0;
    for (; letters[i] != '\0'; i++)
        if (!check_operand(c, n->kind == KI_device ? k_device_operand(c->k, n, i) : own[i], letters[i]))
            return false;
    const KRef rest = n->kind == KI_device ? k_device_operand(c->k, n, i) : i < 3 ? own[i] : 0;
    return rest == 0 || fail(c, "%s has too many operands", device_info[f].name);
}

// An operand by its role in kinds.def.
static bool check_role(Checker *c, const KInst *n, KRef r, char role)
{
    switch (role) {
    case 'i':
        return check_typed(c, r, KT_INDEX, 1);
    case 'b':
        return check_typed(c, r, DTYPE_bool, 1);
    case 'v':
        return check_typed(c, r, n->dtype, n->lanes);
    case 's':
        return check_typed(c, r, n->dtype, 1);
    case 'V':
        return check_place(c, r, KI_var);
    case 'A':
        return check_place(c, r, KI_array);
    default:
        return fail(c, "no role %c", role);
    }
}

static bool check_operands(Checker *c, const KInst *n)
{
    const KKindInfo *kind = &kkind_info[n->kind];
    const KRef src[3] = {n->a, n->b, n->c};
    const size_t count = strlen(kind->operands);
    if (kind->operands[0] == '*')
        return true;
    for (size_t i = 0; i < 3; i++) {
        if (i >= count && src[i] != 0)
            return fail(c, "%s has too many operands", kind->name);
        if (i < count && !check_role(c, n, src[i], kind->operands[i]))
            return false;
    }
    return true;
}

static bool check_param(Checker *c, const KInst *n)
{
    const uint8_t use = kkind_info[n->kind].param;
    if (use == KPARAM_NO)
        return true;
    if (n->imm < 0 || n->imm >= (int64_t)c->k->params.len)
        return fail(c, "no parameter %lld", (long long)n->imm);
    const KParam *p = &c->k->params.data[n->imm];
    if ((use == KPARAM_READ && !p->is_read) || (use == KPARAM_WRITE && !p->is_written))
        return fail(c, "%s is not declared as %s", p->name, use == KPARAM_READ ? "read" : "written");
    return true;
}

static bool check_group(Checker *c, const KInst *n)
{
    const char *wrong = kernel_wrong_group(c->k, n);
    return wrong == NULL || fail(c, "%s", wrong);
}

static bool check_blocks(Checker *c, const KInst *n)
{
    return (!kkind_closes(n->kind) || close_block(c)) && (!kkind_opens(n->kind) || open_block(c, n->kind));
}

// What kinds.def does not say of an instruction.
static bool check_own(Checker *c, const KInst *n)
{
    static bool (*const rules[KI_COUNT])(Checker *, const KInst *) = {
        [KI_const] = check_const,     [KI_part] = check_part,       [KI_thread] = check_part,
        [KI_since] = check_part,
        [KI_op] = check_op,           [KI_cast] = check_cast,       [KI_zip] = check_zip,
        [KI_hreduce] = check_hreduce, [KI_call] = check_call,       [KI_list] = check_list,
        [KI_load] = check_memory,     [KI_get] = check_variable,    [KI_aload] = check_element,
        [KI_set] = check_variable,    [KI_array] = check_array,     [KI_astore] = check_element,
        [KI_store] = check_memory,    [KI_prefetch] = check_memory, [KI_team] = check_joint,
        [KI_point] = check_point,     [KI_for] = check_for,         [KI_else] = check_else,
        [KI_matrix] = check_matrix,   [KI_device] = check_call,     [KI_custom] = check_custom,
    };
    return rules[n->kind] == NULL || rules[n->kind](c, n);
}

// Vectors exist for f32, its halves and i32, for bool as masks, and for bytes, which nothing computes with.
static bool check_lanes(Checker *c, const KInst *n)
{
    const uint8_t lanes = n->lanes;
    if (n->kind == KI_none || n->kind >= KI_COUNT)
        return fail(c, "unknown kind %d", n->kind);
    if (lanes == 0 || lanes > MAX_LANES || (lanes & (lanes - 1)))
        return fail(c, "%d lanes", lanes);
    if (n->dtype > KT_INDEX)
        return fail(c, "unknown type %d", n->dtype);
    if (lanes == 1 || n->kind == KI_matrix || n->dtype == DTYPE_f32 || n->dtype == DTYPE_i32 ||
        n->dtype == DTYPE_bool || k_is_half(n->dtype))
        return true;
    const bool is_moved = n->kind != KI_op && n->kind != KI_hreduce;
    return (k_is_byte(n->dtype) && is_moved) || fail(c, "no vectors of %s", kt_name(n->dtype));
}

const char *kernel_verify_at(const Kernel *k, KRef *at)
{
    Checker c = {.k = k};
    c.block = ARENA_ARRAY(k->arena, uint32_t, k->insts.len);
    c.is_closed = ARENA_ARRAY(k->arena, bool, (size_t)k->insts.len + 1);
    open_block(&c, KI_none);
    for (c.at = 1; c.at < k->insts.len; c.at++) {
        const KInst *n = k_inst(k, c.at);
        *at = c.at;
        c.block[c.at] = c.open[c.depth - 1];
        if (!check_lanes(&c, n) || !check_operands(&c, n) || !check_param(&c, n) || !check_own(&c, n) ||
            !check_group(&c, n) || !check_blocks(&c, n))
            return c.message;
    }
    if (c.depth != 1 || c.has_matrix)
        fail(&c, c.depth != 1 ? "block not closed" : "matrix registers not ended");
    return c.message;
}

const char *kernel_verify(const Kernel *k)
{
    KRef unused = 0;
    return kernel_verify_at(k, &unused);
}
