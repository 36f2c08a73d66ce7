// SPDX-License-Identifier: Apache-2.0
// The one walk that prints kernels, for every language with C's statements. What differs is in Target.
#include "codegen/target/device.h"
#include "codegen/walk/constants.h"
#include "codegen/walk/expand.h"
#include "codegen/walk/sequence.h"
#include "codegen/walk/walk.h"
#include "ir/kernel/kernel_words.h"

#include <string.h>

// --- types and constants -------------------------------------------------------------------------

static const char *vector_type(Walk *w, int type, int lanes)
{
    const char letter = type == DTYPE_f32 || k_is_half(type) ? 'f'
                        : type == DTYPE_u8                   ? 'b'
                        : type == DTYPE_i8                   ? 'c'
                                                             : 'i';
    return arena_printf(w->arena, "rlx_v%d%c", lanes, letter);
}

static const char *value_type(Walk *w, int type, int lanes)
{
    return lanes > 1 ? vector_type(w, type, lanes) : walk_type(w, type)->value;
}

// --- expressions ---------------------------------------------------------------------------------

// A template on one operand of type `from`, result of type `to`.
const char *walk_expand(Walk *w, const char *template, int to, int from, const char *operand)
{
    const TypeSpell *ts = walk_type(w, to);
    const ExpandArgs args = {.operand = {operand},
                             .type = ts->value,
                             .name = ts->name,
                             .wide = ts->wide,
                             .vector = walk_type(w, from)->name};
    return expand_text(w->arena, template, &args);
}

static const char *op_text(Walk *w, const KInst *n)
{
    const KInst *src = k_inst(w->k, kop_info[n->kop].cls == KCLASS_SEL ? n->b : n->a);
    const TypeSpell *ts = walk_type(w, src->dtype);
    ExpandArgs args = {.type = ts->value, .name = ts->name, .wide = ts->wide, .lanes = src->lanes};
    if (src->lanes > 1)
        args.vector = vector_type(w, src->dtype, src->lanes);
    const KRef operand[3] = {n->a, n->b, n->c};
    for (uint32_t i = 0; i < kop_info[n->kop].arity; i++)
        args.operand[i] = walk_expr(w, operand[i]);
    const char *template = value_template(w->t, w->k, n);
    rlx_assert(template);
    int64_t right = 0;
    if (n->kop == KOP_add && n->dtype == KT_INDEX && k_is_const(w->k, n->b, &right) && right < 0 &&
        right != INT64_MIN) {
        template = "$0 - $1";
        args.operand[1] = arena_printf(w->arena, "%lld", (long long)-right);
    }
    return expand_text(w->arena, template, &args);
}

// A store rounds, so what it stores need not be rounded before.
typedef enum CastUse { CAST_VALUE, CAST_STORED } CastUse;

// Lanes of f16 and bf16 are those of f32: casts only round them.
static const char *vector_cast_text(Walk *w, const KInst *n, const KInst *src, CastUse use)
{
    const char *from = vector_type(w, src->dtype, src->lanes),
               *mask = src->dtype == DTYPE_bool ? "mask_" : "";
    const bool is_half = k_is_half(n->dtype), was_half = k_is_half(src->dtype);
    const char *to = n->dtype == DTYPE_bool ? "mask" : dtype_info[is_half ? (int)DTYPE_f32 : n->dtype].name;
    const char *how = n->imm == KCAST_ROUND ? "round_" : mask, *text = walk_expr(w, n->a);
    if (n->imm == KCAST_BITS)
        return arena_printf(w->arena, "(%s)(%s)", vector_type(w, n->dtype, n->lanes), text);
    if (was_half && src->kind == KI_op && src->dtype != n->dtype)
        text = arena_printf(w->arena, "%s_as_%s(%s)", from, dtype_info[src->dtype].name, text);
    if (!(is_half || n->dtype == DTYPE_f32) || !(was_half || src->dtype == DTYPE_f32))
        text = arena_printf(w->arena, "%s_%sto_%s(%s)", from, how, to, text);
    return is_half && use == CAST_VALUE
               ? arena_printf(w->arena, "%s_as_%s(%s)", vector_type(w, n->dtype, n->lanes),
                              dtype_info[n->dtype].name, text)
               : text;
}

// The bits of a value of type `from` as an unsigned number, then as a value of type `to`.
static const char *bitcast_text(Walk *w, const KInst *n, const KInst *src)
{
    const int from = src->dtype, to = n->dtype;
    const TypeSpell *ts = walk_type(w, to);
    const char *text = walk_expr(w, n->a);
    if (walk_is_float(from))
        text = walk_expand(w,
                           from == DTYPE_f32   ? "rlx_bits_of($0)"
                           : from == DTYPE_f64 ? "rlx_bits64_of($0)"
                                               : walk_type(w, from)->store,
                           from, from, text);
    if (to == DTYPE_f32 || to == DTYPE_f64) {
        const int bits = to == DTYPE_f32 ? DTYPE_u32 : DTYPE_u64;
        text = walk_expand(w, w->t->cast, bits, bits, text);
        return walk_expand(w, to == DTYPE_f32 ? "rlx_of_bits($0)" : "rlx_of_bits64($0)", to, to, text);
    }
    if (walk_is_float(to)) {
        const int bits = dtype_info[to].bytes == 2 ? DTYPE_u16 : DTYPE_u8;
        return walk_expand(w, ts->load, to, to, walk_expand(w, w->t->cast, bits, bits, text));
    }
    text = walk_expand(w, to == DTYPE_bool ? "$0 != 0" : w->t->cast, to, to, text);
    return ts->round ? walk_expand(w, ts->round, to, to, text) : text;
}

static const char *cast_text(Walk *w, const KInst *n, CastUse use)
{
    const KInst *src = k_inst(w->k, n->a);
    if (n->lanes > 1)
        return vector_cast_text(w, n, src, use);
    if (n->imm)
        return bitcast_text(w, n, src);
    const TypeSpell *to = walk_type(w, n->dtype), *from = walk_type(w, src->dtype);
    const bool truncates = walk_is_float(src->dtype) && !walk_is_float(n->dtype);
    const char *template = n->dtype == DTYPE_bool ? "$0 != 0"
                           : truncates            ? "rlx_$V_to_$S($0)"
                                                  : target_cast(w->t, src->dtype, n->dtype);
    const char *text = walk_expr(w, n->a);
    // Arithmetic on narrow floats is rounded where its value leaves the type.
    if (from->round && walk_is_float(src->dtype) && src->dtype != n->dtype && src->kind == KI_op)
        text = walk_expand(w, from->round, src->dtype, src->dtype, text);
    if (strcmp(to->value, from->value) != 0 || n->dtype == DTYPE_bool)
        text = walk_expand(w, template, n->dtype, src->dtype, text);
    return to->round && use == CAST_VALUE ? walk_expand(w, to->round, n->dtype, n->dtype, text) : text;
}

static const char *splat_text(Walk *w, const KInst *n)
{
    const char *how = n->dtype == DTYPE_bool ? "mask" : "set";
    return arena_printf(w->arena, "%s_%s(%s)", vector_type(w, n->dtype, n->lanes), how, walk_expr(w, n->a));
}

static const char *hreduce_text(Walk *w, const KInst *n)
{
    const KInst *src = k_inst(w->k, n->a);
    const char *name = kop_info[n->kop].name;
    if (n->dtype == DTYPE_bool)
        name = n->kop == KOP_and ? "all" : "any";
    return arena_printf(w->arena, "%s_h%s(%s)", vector_type(w, src->dtype, src->lanes), name,
                        walk_expr(w, n->a));
}

static const char *element_text(Walk *w, const char *base, KRef index)
{
    return arena_printf(w->arena, "%s[%s]", base, walk_expr(w, index));
}

// The suffix of the helper that reads or writes lanes: elements of parameters may have other types than
// lanes.
static const char *memory_suffix(const KInst *n)
{
    const bool is_param = n->kind == KI_load || n->kind == KI_store;
    return !is_param || !k_is_half(n->dtype) ? "" : n->dtype == DTYPE_f16 ? "_f16" : "_bf16";
}

static const char *vector_load_text(Walk *w, const KInst *n, const char *element)
{
    const char *type = vector_type(w, n->dtype, n->lanes), *suffix = memory_suffix(n);
    if (n->count == n->lanes)
        return arena_printf(w->arena, "%s_load%s(&%s)", type, suffix, element);
    return arena_printf(w->arena, "%s_load%s_n(&%s, %d)", type, suffix, element, n->count);
}

// Elements of local arrays are values; f32 and the integers look the same in memory, and vectors are loaded
// from them.
const char *walk_array_type(const Walk *w, int type)
{
    if (type == DTYPE_bool)
        return walk_type(w, type)->value;
    return walk_type(w, walk_is_float(type) && type != DTYPE_f64 ? (int)DTYPE_f32 : type)->storage;
}

static const char *load_text(Walk *w, const KInst *n)
{
    const bool is_array = n->kind == KI_aload;
    const char *element =
        is_array ? element_text(w, w->name[n->a], n->b) : element_text(w, w->param[n->imm], n->a);
    if (n->lanes > 1)
        return vector_load_text(w, n, element);
    return is_array ? element : walk_expand(w, walk_type(w, n->dtype)->load, n->dtype, n->dtype, element);
}

// KI_list has no text of its own: its operands are looked through.
static const char *device_text(Walk *w, const KInst *n)
{
    const char *text[KDEV_MAX_OPERANDS];
    const KRef own[3] = {n->a, n->b, n->c};
    uint32_t count = 0;
    for (; count < KDEV_MAX_OPERANDS; count++) {
        const KRef r = n->kind == KI_device ? k_device_operand(w->k, n, count) : count < 3 ? own[count] : 0;
        if (r == 0)
            break;
        text[count] = walk_expr(w, r);
    }
    return device_call_text(w->arena, n, text, count);
}

static const char *value_text(Walk *w, const KInst *n, CastUse use)
{
    switch (n->kind) {
    case KI_const:
        return constant_text(w->t, n, w->arena);
    case KI_part:
        return n->imm ? w->t->parts : w->t->part;
    case KI_since:
        return "since";
    case KI_thread:
        return w->t->group->thread;
    case KI_op:
        return op_text(w, n);
    case KI_cast:
        return cast_text(w, n, use);
    case KI_splat:
        return splat_text(w, n);
    case KI_zip:
        return arena_printf(w->arena, "%s_zip_%s(%s, %s)", vector_type(w, n->dtype, n->lanes),
                            kzip_words[n->imm], walk_expr(w, n->a), walk_expr(w, n->b));
    case KI_hreduce:
        return hreduce_text(w, n);
    case KI_get:
        return w->name[n->a];
    case KI_call:
        return device_text(w, n);
    case KI_address:
        return walk_address(w, n);
    default:
        return load_text(w, n);
    }
}

const char *walk_expr(Walk *w, KRef r)
{
    return w->name[r] ? w->name[r] : value_text(w, k_inst(w->k, r), CAST_VALUE);
}

// --- statements ----------------------------------------------------------------------------------

void walk_line(Walk *w, const char *fmt, ...)
{
    for (int i = 0; i < w->indent; i++)
        str_add(w->out, "    ");
    va_list args;
    va_start(args, fmt);
    str_add(w->out, arena_vprintf(w->arena, fmt, args));
    va_end(args);
    str_char(w->out, '\n');
}

// mark: the names in scope outside of the block.
static void open_block(Walk *w, uint32_t mark)
{
    vec_push(w->arena, &w->marks, mark);
    w->indent++;
}

static void close_block(Walk *w)
{
    w->indent--;
    names_release(&w->names, w->marks.data[--w->marks.len]);
}

// The end of a loop stands behind `<`, which binds tighter than a choice.
static const char *bound_text(Walk *w, KRef r)
{
    const char *text = walk_expr(w, r);
    return strchr(text, '?') != NULL ? arena_printf(w->arena, "(%s)", text) : text;
}

static void print_for(Walk *w, KRef r)
{
    const KInst *n = k_inst(w->k, r);
    const char *lo = n->flags == KFOR_GIVEN ? "since" : walk_expr(w, n->a);
    const char *hi = n->flags == KFOR_GIVEN ? "until" : bound_text(w, n->b);
    const int place = walk_grid_place(w, r);
    const uint32_t mark = names_mark(&w->names);
    const char *name = w->name[r] = names_take(&w->names, n->text ? n->text : "i");
    if (place >= 0) {
        walk_grid_loop(w, r, (uint32_t)place);
    } else {
        const char *how = n->flags == KFOR_UNROLL ? w->t->unroll : n->flags == KFOR_ROLL ? w->t->roll : NULL;
        if (how)
            walk_line(w, "%s", how);
        const char *next = n->imm == 1 ? arena_printf(w->arena, "%s++", name)
                                       : arena_printf(w->arena, "%s += %lld", name, (long long)n->imm);
        walk_line(w, "for (%s %s = %s; %s < %s; %s) {", walk_type(w, KT_INDEX)->value, name, lo, name, hi,
                  next);
    }
    open_block(w, mark);
}

static const char *stored_text(Walk *w, KRef r)
{
    const KInst *n = k_inst(w->k, r);
    return n->kind == KI_cast && !w->name[r] ? value_text(w, n, CAST_STORED) : walk_expr(w, r);
}

// An array whose elements go to memory by KI_put alone is rounded there.
static bool is_rounded_later(const Walk *w, KRef array)
{
    for (KRef r = array + 1; r < w->k->insts.len; r++) {
        const KInst *n = k_inst(w->k, r);
        const bool names = n->a == array || n->b == array || n->c == array;
        if (names && n->kind != KI_put && (n->kind != KI_astore || n->a != array))
            return false;
    }
    return true;
}

static void print_store(Walk *w, const KInst *n)
{
    const bool is_array = n->kind == KI_astore;
    const KRef value = is_array ? n->c : n->a;
    const char *element = element_text(w, is_array ? w->name[n->a] : w->param[n->imm], n->b);
    if (n->lanes == 1) {
        const bool keeps = is_array && !is_rounded_later(w, n->a);
        const char *moved = is_array ? NULL : walk_moved(w, value),
                   *text = moved ? moved : keeps ? walk_expr(w, value) : stored_text(w, value);
        if (!is_array && !moved)
            text = walk_expand(w, walk_type(w, n->dtype)->store, n->dtype, n->dtype, text);
        walk_line(w, "%s = %s;", element, text);
        return;
    }
    const char *type = vector_type(w, n->dtype, n->lanes), *suffix = memory_suffix(n),
               *text = is_array ? walk_expr(w, value) : stored_text(w, value);
    if (n->count == n->lanes)
        walk_line(w, "%s_store%s(&%s, %s);", type, suffix, element, text);
    else
        walk_line(w, "%s_store%s_n(&%s, %s, %d);", type, suffix, element, text, n->count);
}

static void print_prefetch(Walk *w, const KInst *n)
{
    const ExpandArgs args = {.operand = {element_text(w, w->param[n->imm], n->a)}};
    if (w->t->prefetch)
        walk_line(w, "%s", expand_text(w->arena, w->t->prefetch, &args));
}

static void print_point(Walk *w, const KInst *n)
{
    const KParam *p = &w->k->params.data[n->imm];
    const char *type = walk_type(w, (int)p->dtype)->storage, *entry = walk_expr(w, n->a);
    const char *table = w->base[p->table - 1], *own = walk_expr(w, n->b), *name = names_take(&w->names, "at");
    walk_line(w, "const %s *const %s = %s[%s] != 0 ? (const %s *)(uintptr_t)%s[%s] : %s + (%s);", type, name,
              table, entry, type, table, entry, w->base[n->imm], own);
    w->param[n->imm] = name;
}

static void print_wait(Walk *w)
{
    if (w->t->wait)
        walk_line(w, "%s", w->t->late_wait && kernel_takes_long(w->k) ? w->t->late_wait : w->t->wait);
}

static void print_array(Walk *w, KRef r)
{
    const KInst *n = k_inst(w->k, r);
    if (n->flags == KARRAY_SHARED) // declared at the top
        return;
    w->name[r] = names_take(&w->names, n->text ? n->text : "part");
    const ExpandArgs args = {.operand = {walk_array_type(w, n->dtype), w->name[r],
                                         arena_printf(w->arena, "%lld", (long long)n->imm)}};
    walk_line(w, "%s", expand_text(w->arena, w->t->array, &args));
}

// Text from the model: nothing in it may end the comment or join it with the next line.
static void print_comment(Walk *w, const char *text)
{
    Str s = str_new(w->arena);
    for (const char *p = text; *p; p++)
        str_char(&s, *p < ' ' || *p > '~' || *p == '\\' ? '_' : *p == '?' && p[1] == '?' ? '_' : *p);
    walk_line(w, "// %s", str_text(&s));
}

static void print_notes(Walk *w, const char *notes)
{
    while (notes != NULL && *notes != '\0') {
        const size_t n = strcspn(notes, "\n");
        print_comment(w, arena_strndup(w->arena, notes, n));
        notes += n + (notes[n] == '\n');
    }
}

// Its one user is a store, which rounds.
static bool is_only_stored(const Walk *w, KRef r)
{
    const KInst *user = k_inst(w->k, w->values[r].last_use);
    if (w->values[r].n_uses != 1 || k_inst(w->k, r)->lanes != 1)
        return false;
    return (user->kind == KI_store && user->a == r) ||
           (user->kind == KI_astore && user->c == r && is_rounded_later(w, user->a));
}

// Is it a statement or an expression of one block that leaves this value alone?
static bool is_straight(const KInst *n, KRef value)
{
    const bool is_block = n->kind == KI_for || n->kind == KI_if || n->kind == KI_else || n->kind == KI_end;
    return !is_block && n->a != value && n->b != value && n->c != value;
}

// The variable that begins as the value, and can stand for it: nothing reads the value before, and what reads
// it later does so in the same block, before the variable changes. 0: there is none near.
static KRef find_variable(const Walk *w, KRef value)
{
    enum { NEAR = 256 };
    const Value *v = &w->values[value];
    KRef var = value + 1;
    if (v->is_inline || v->last_use - value > NEAR)
        return 0;
    while (var < v->last_use && is_straight(k_inst(w->k, var), value))
        var++;
    if (k_inst(w->k, var)->kind != KI_var || v->expires < var)
        return 0;
    for (KRef r = var + 1; r <= v->last_use; r++) {
        const KInst *n = k_inst(w->k, r);
        if ((n->kind == KI_set && n->a == var) || !is_straight(n, UINT32_MAX))
            return 0;
    }
    return var;
}

static void print_value(Walk *w, KRef r)
{
    const Value *v = &w->values[r];
    if (v->n_uses == 0 || v->is_inline || find_variable(w, r) != 0)
        return;
    const KInst *n = k_inst(w->k, r);
    const char *text = value_text(w, n, is_only_stored(w, r) ? CAST_STORED : CAST_VALUE);
    const char *name = n->kind == KI_part     ? names_take(&w->names, n->imm ? "parts" : "part")
                       : n->kind == KI_thread ? names_take(&w->names, "thread")
                                              : names_take_temp(&w->names);
    // Choices are not constants: clang would try both arms of each again and again, in time without bound.
    const char *word = strchr(text, '?') != NULL ? "" : "const ";
    walk_line(w, "%s%s %s = %s;", word, value_type(w, n->dtype, n->lanes), name, text);
    w->name[r] = name;
}

// Templates: $0 $1 $2 the operands, $L the register, $T and $S those of a product.
static void print_matrix(Walk *w, const KInst *n)
{
    static const char *const text[KMATRIX_COUNT] = {
        [KMATRIX_begin] = "RLX_MATRIX_BEGIN(matrix, $0, $1);",
        [KMATRIX_zero] = "rlx_matrix_zero(matrix, $L);",
        [KMATRIX_load] = "rlx_matrix_load(matrix, $L, &$V[$0], $1);",
        [KMATRIX_mac] = "rlx_matrix_mac(matrix, $L, $T, $S);",
        [KMATRIX_store] = "rlx_matrix_store(matrix, $L, &$0[$1], $2);",
        [KMATRIX_split] = "$T_parts(&$V[$0], $1, $2);",
        [KMATRIX_end] = "RLX_MATRIX_END(matrix);",
    };
    static const char bytes_mac[] = "rlx_matrix_mac_bytes(matrix, $L, $T, $S);";
    const bool is_split = n->kop == KMATRIX_split;
    const bool is_bytes = n->kop == KMATRIX_mac && n->dtype == DTYPE_i32;
    ExpandArgs args = {.lanes = n->count, .vector = w->param[n->imm]};
    const KRef refs[3] = {n->a, n->b, n->c};
    for (uint32_t i = 0; i < 3 && refs[i]; i++)
        args.operand[i] = walk_expr(w, refs[i]);
    args.type = !is_split       ? arena_printf(w->arena, "%d", n->flags & 15)
                : n->lanes == 1 ? "rlx_f32"
                                : vector_type(w, DTYPE_f32, n->lanes);
    args.name = arena_printf(w->arena, "%d", n->flags >> 4);
    walk_line(w, "%s", expand_text(w->arena, is_bytes ? bytes_mac : text[n->kop], &args));
}

static void print_var(Walk *w, KRef r)
{
    const KInst *n = k_inst(w->k, r);
    const bool is_first = w->name[n->a] == NULL && find_variable(w, n->a) == r;
    const char *init = walk_expr(w, n->a);
    w->name[r] = names_take(&w->names, n->text);
    walk_line(w, "%s %s = %s;", value_type(w, n->dtype, n->lanes), w->name[r], init);
    if (is_first)
        w->name[n->a] = w->name[r];
}

static void print_inst(Walk *w, KRef r)
{
    const KInst *n = k_inst(w->k, r);
    switch (n->kind) {
    case KI_var:
        print_var(w, r);
        break;
    case KI_set:
        walk_line(w, "%s = %s;", w->name[n->a], walk_expr(w, n->b));
        break;
    case KI_array:
        print_array(w, r);
        break;
    case KI_store:
    case KI_astore:
        print_store(w, n);
        break;
    case KI_prefetch:
        print_prefetch(w, n);
        break;
    case KI_point:
        print_point(w, n);
        break;
    case KI_for:
        print_for(w, r);
        break;
    case KI_if:
        walk_if(w, r);
        open_block(w, names_mark(&w->names));
        break;
    case KI_else:
        close_block(w);
        walk_line(w, "} else {");
        open_block(w, names_mark(&w->names));
        break;
    case KI_end:
        close_block(w);
        walk_end(w, r);
        break;
    case KI_barrier:
        if (w->t->barrier && !w->is_single && (w->has_team || !w->t->team))
            walk_line(w, "%s", w->t->barrier);
        break;
    case KI_wait:
        print_wait(w);
        break;
    case KI_matrix:
        print_matrix(w, n);
        break;
    case KI_device:
        walk_line(w, "%s;", device_text(w, n));
        break;
    case KI_comment:
        print_comment(w, n->text);
        break;
    default:
        if (!walk_group_inst(w, r))
            print_value(w, r);
    }
}

// --- kernels -------------------------------------------------------------------------------------

static void print_head(Walk *w)
{
    const char *params = walk_params(w);
    if (!w->t->params_first)
        walk_custom_function(w);
    if (w->k->comment && *w->k->comment)
        print_comment(w, w->k->comment);
    print_notes(w, w->k->notes);
    if (w->t->params_first) {
        str_printf(w->out, "%s\n", params);
        walk_shared(w);
        walk_custom_function(w);
    }
    const char *cluster = w->k->cluster > 1 ? arena_printf(w->arena, "RLX_CLUSTER(%u) ", w->k->cluster) : "";
    const char *places = w->k->places != 0 ? arena_printf(w->arena, ", %u", w->k->places) : "";
    const ExpandArgs args = {.operand = {w->k->name, *params ? params : w->t->no_params, cluster, places},
                             .lanes = (int)w->grid.group};
    expand_template(w->out, w->k->group != 0 ? w->t->group->signature : w->t->signature, &args);
    str_add(w->out, "\n{\n");
}

void cfamily_print_kernel(const Target *t, const Kernel *k, Str *out)
{
    Arena *a = out->arena;
    Walk w = {.t = t, .k = k, .arena = a, .out = out, .grid = kernel_grid(k), .is_given = kernel_is_given(k)};
    w.names = (Names){.arena = a, .is_for_gpu = t->caps.is_gpu};
    w.has_team = t->team && kernel_is_shared(k);
    w.values = values_of(t, k, a);
    w.name = ARENA_ARRAY(a, const char *, k->insts.len);
    w.param = ARENA_ARRAY(a, const char *, (size_t)k->params.len + 1);
    w.base = ARENA_ARRAY(a, const char *, (size_t)k->params.len + 1);
    w.place = ARENA_ARRAY(a, const char *, (size_t)k->params.len + 1);
    w.slot = ARENA_ARRAY(a, const char *, k->insts.len);
    expand_template(out, t->begin, &(ExpandArgs){.operand = {k->name}});
    print_head(&w);
    w.indent = 1;
    walk_places(&w);
    if (!kernel_has_wait(k))
        print_wait(&w);
    if (!t->params_first)
        walk_shared(&w);
    const bool *used = values_used_params(k, w.values, a);
    for (uint32_t i = 0; i < k->params.len && !t->params_first; i++)
        if (!used[i])
            walk_line(&w, "(void)%s;", w.param[i]);
    w.is_single = t->thread_id && w.grid.n_loops == 0 && k->group == 0;
    if (w.is_single) {
        walk_line(&w, "if (%s == 0) {", t->thread_id);
        open_block(&w, names_mark(&w.names));
    }
    const Sequence order = sequence_of(k, w.values, a);
    for (uint32_t i = 0; i < order.len; i++)
        print_inst(&w, order.data[i]);
    if (w.is_single) {
        close_block(&w);
        walk_line(&w, "}");
    }
    expand_template(out, t->end, &(ExpandArgs){.operand = {k->name}});
}
