// SPDX-License-Identifier: Apache-2.0
// The grid of GPU kernels, and what kernels of thread groups have beside that: shared arrays, wide accesses,
// and values that several threads compute together.
#include "codegen/walk/expand.h"
#include "codegen/walk/walk.h"
#include "ir/kernel/device.h"

#include <string.h>

// --- the grid ------------------------------------------------------------------------------------

// Index in the grid, or -1 for a plain loop.
int walk_grid_place(const Walk *w, KRef r)
{
    for (uint32_t i = 0; w->t->thread_id && i < w->grid.n_loops; i++)
        if (w->grid.loop[i] == r)
            return (int)i;
    return -1;
}

// Only the outermost loop, which varies slowest, can be beyond its end: there are more threads than needed.
void walk_grid_loop(Walk *w, KRef r, uint32_t place)
{
    const KInst *n = k_inst(w->k, r);
    rlx_assert(n->kind == KI_for && place < w->grid.n_loops);
    const bool is_outermost = place + 1 == w->grid.n_loops;
    const char *type = walk_type(w, KT_INDEX)->value, *hi = walk_expr(w, n->b);
    Str id = str_new(w->arena);
    const uint64_t inner = grid_stride(w->k, &w->grid, place);
    if (is_outermost)
        walk_line(w, "const %s %s = %s;", type,
                  w->thread = names_take(&w->names, w->k->group != 0 ? "group" : "id"),
                  w->k->group != 0 ? w->t->group->id : w->t->thread_id);
    rlx_assert(w->thread != NULL); // loops are opened from the outermost in
    str_add(&id, w->thread);
    if (inner > 1)
        str_printf(&id, " / %llu", (unsigned long long)inner);
    if (!is_outermost)
        str_printf(&id, " %% %llu", (unsigned long long)grid_trip_count(w->k, r));
    if (n->imm != 1)
        str_printf(&id, " * %lld", (long long)n->imm);
    int64_t lo = 0;
    if (k_is_const(w->k, n->a, &lo) && lo != 0)
        str_printf(&id, " %c %lld", lo < 0 ? '-' : '+', (long long)(lo < 0 ? -lo : lo));
    walk_line(w, "const %s %s = %s;", type, w->name[r], str_text(&id));
    walk_line(w, "%s{", is_outermost ? arena_printf(w->arena, "if (%s < %s) ", w->name[r], hi) : "");
}

// --- ways of which the text has one --------------------------------------------------------------

static bool asks_for_coop(const Kernel *k, KRef condition)
{
    const KInst *n = k_inst(k, condition);
    return n->kind == KI_call && kdev_of(n) == KDEV_has_coop;
}

static bool is_question(const Kernel *k, KRef r)
{
    const KInst *n = k_inst(k, r), *condition = n->kind == KI_if ? k_inst(k, n->a) : NULL;
    if (condition == NULL)
        return false;
    return asks_for_coop(k, n->a) ||
           (condition->kind == KI_op && condition->kop == KOP_not && asks_for_coop(k, condition->a));
}

void walk_if(Walk *w, KRef r)
{
    const KInst *n = k_inst(w->k, r);
    if (!is_question(w->k, r)) {
        walk_line(w, "if (%s) {", walk_expr(w, n->a));
        return;
    }
    walk_line(w, "#if %sRLX_HAS_COOP", k_inst(w->k, n->a)->kind == KI_call ? "" : "!");
    walk_line(w, "{");
    w->question_end = k_block_end(w->k, r);
}

void walk_end(Walk *w, KRef r)
{
    walk_line(w, "}");
    if (r == w->question_end)
        walk_line(w, "#endif");
}

// --- shared arrays -------------------------------------------------------------------------------

// Types that threads of a subgroup can hand to each other; of others all goes through shared memory.
static bool is_shuffled(int type)
{
    return type == DTYPE_f32 || k_is_half(type) || type == DTYPE_i32 || type == DTYPE_u32;
}

// Are there subgroups that are too small for the team?
static bool needs_slot(const Walk *w, const KInst *n)
{
    rlx_assert(n->imm > 0 && (n->imm & (n->imm - 1)) == 0); // halves of it exchange values
    const uint32_t least = w->t->group->subgroup_size;
    return !is_shuffled(n->dtype) || least == 0 || n->imm > (int64_t)least;
}

static const char *declare(Walk *w, const char *type, const char *hint, int64_t n)
{
    rlx_assert(w->t->group != NULL && n > 0);
    const char *name = names_take(&w->names, hint);
    const ExpandArgs args = {.operand = {type, name, arena_printf(w->arena, "%lld", (long long)n)}};
    walk_line(w, "%s", expand_text(w->arena, w->t->group->shared, &args));
    return name;
}

// Each team has a place of its own, so that two in a row need no barrier between them.
void walk_shared(Walk *w)
{
    const uint32_t subgroup = w->k->group != 0 ? w->t->group->subgroup_size : 0;
    for (KRef r = 1; w->k->group != 0 && r < w->k->insts.len; r++) {
        const KInst *n = k_inst(w->k, r);
        if (n->kind == KI_array && n->flags == KARRAY_SHARED && k_is_coop_memory(w->k, r))
            w->name[r] = "rlx_coop_memory";
        else if (n->kind == KI_array && n->flags == KARRAY_SHARED)
            w->name[r] = declare(w, walk_array_type(w, n->dtype), n->text ? n->text : "tile", n->imm);
        if (n->kind == KI_team && needs_slot(w, n))
            w->slot[r] =
                declare(w, walk_array_type(w, n->dtype), "slot",
                        is_shuffled(n->dtype) && subgroup != 0 ? w->k->group / subgroup : w->k->group);
    }
}

// --- wide accesses -------------------------------------------------------------------------------

enum { WORD_BYTES = 4 };

static const char *wide_text(Walk *w, const KInst *n, uint32_t words)
{
    rlx_assert((words == 1 || words == 2 || words == 4) && (uint64_t)n->imm < w->k->params.len);
    const char *index = walk_expr(w, n->a);
    uint32_t shift = 0;
    while (1u << shift < n->count)
        shift++;
    rlx_assert(1u << shift == n->count);
    const ExpandArgs args = {.operand = {arena_printf(w->arena, "%s[%s]", w->param[n->imm], index), index,
                                         arena_printf(w->arena, "%lld", (long long)n->imm),
                                         arena_printf(w->arena, "%u", shift)},
                             .type = w->t->group->words[words / 2],
                             .lanes = (int)words};
    const GroupSpell *g = w->t->group;
    const bool is_once = n->kind == KI_fetch && n->flags == KWIDE_ONCE && words == 4 && g->fetch_once;
    return expand_text(w->arena, n->kind == KI_put ? g->put : is_once ? g->fetch_once : g->fetch, &args);
}

static const char *word_text(Walk *w, const char *name, uint32_t words, uint32_t i)
{
    return words == 1 ? name : arena_printf(w->arena, "%s.%c", name, "xyzw"[i]);
}

// Element i of what the words hold, as its type is in memory.
static const char *unpacked_text(Walk *w, int type, const char *words, uint32_t n_words, uint32_t i)
{
    const TypeSpell *ts = walk_type(w, type);
    const uint32_t bytes = dtype_info[type].bytes, at = i * bytes;
    const char *word = word_text(w, words, n_words, at / WORD_BYTES);
    if (bytes == 8) {
        const char *both = arena_printf(w->arena, "(rlx_u64(%s) << 32) | rlx_u64(%s)",
                                        word_text(w, words, n_words, at / WORD_BYTES + 1), word);
        return type == DTYPE_f64   ? arena_printf(w->arena, "rlx_of_bits64(%s)", both)
               : type == DTYPE_i64 ? arena_printf(w->arena, "rlx_i64(%s)", both)
                                   : both;
    }
    if (bytes == WORD_BYTES)
        return type == DTYPE_f32   ? arena_printf(w->arena, "rlx_of_bits(%s)", word)
               : type == DTYPE_i32 ? arena_printf(w->arena, "rlx_i32(%s)", word)
                                   : word;
    const uint32_t shift = at % WORD_BYTES * 8;
    if (shift != 0)
        word = arena_printf(w->arena, "%s >> %u", word, shift);
    if (shift + bytes * 8 < 32)
        word = arena_printf(w->arena, shift != 0 ? "(%s) & %uu" : "%s & %uu", word, (1u << bytes * 8) - 1);
    const DTypeClass cls = dtype_info[type].cls;
    const bool is_int = cls == DCLASS_INT || cls == DCLASS_UINT;
    // Storage of other types need not have arithmetic: their bits stay in 32-bit numbers.
    return walk_expand(w, ts->load, type, type,
                       is_int ? arena_printf(w->arena, "%s(%s)", ts->storage, word) : word);
}

static void print_fetch(Walk *w, const KInst *n)
{
    const uint32_t words = n->count * dtype_info[n->dtype].bytes / WORD_BYTES;
    const char *array = w->name[n->b], *at = walk_expr(w, n->c), *from = NULL;
    rlx_assert(array != NULL);
    if (words != 0) {
        from = names_take(&w->names, "words");
        walk_line(w, "const %s %s = %s;", w->t->group->words[words / 2], from, wide_text(w, n, words));
    }
    for (uint32_t i = 0; i < n->count; i++) {
        const char *element = words != 0 ? unpacked_text(w, n->dtype, from, words, i)
                                         : walk_expand(w, walk_type(w, n->dtype)->load, n->dtype, n->dtype,
                                                       arena_printf(w->arena, "%s[%s + %u]", w->param[n->imm],
                                                                    walk_expr(w, n->a), i));
        int64_t place = 0;
        if (k_is_const(w->k, n->c, &place))
            walk_line(w, "%s[%lld] = %s;", array, (long long)place + i, element);
        else
            walk_line(w, "%s[%s + %u] = %s;", array, at, i, element);
    }
}

// The bits of an element in the lowest ones of a word.
static const char *packed_text(Walk *w, int type, const char *value)
{
    const DTypeInfo *info = &dtype_info[type];
    if (type == DTYPE_f32)
        return arena_printf(w->arena, "rlx_bits_of(%s)", value);
    if (type == DTYPE_bool)
        return arena_printf(w->arena, "(%s ? 1u : 0u)", value);
    if (info->cls == DCLASS_FLOAT)
        return arena_printf(w->arena, "rlx_%s_from_f32(%s)", info->name, value);
    return info->bytes == WORD_BYTES
               ? arena_printf(w->arena, "rlx_u32(%s)", value)
               : arena_printf(w->arena, "(rlx_u32(%s) & %uu)", value, (1u << info->bytes * 8) - 1);
}

static const char *put_value(Walk *w, const KInst *n, uint32_t i)
{
    int64_t place = 0;
    if (k_is_const(w->k, n->c, &place))
        return arena_printf(w->arena, "%s[%lld]", w->name[n->b], (long long)place + i);
    return arena_printf(w->arena, "%s[%s + %u]", w->name[n->b], walk_expr(w, n->c), i);
}

// One word of what is stored.
static const char *packed_word(Walk *w, const KInst *n, uint32_t word)
{
    const uint32_t bytes = dtype_info[n->dtype].bytes;
    if (bytes == 8) {
        const char *value = put_value(w, n, word / 2);
        const char *bits = arena_printf(
            w->arena, n->dtype == DTYPE_f64 ? "rlx_bits64_of(%s)" : "rlx_u64(%s)", value);
        return arena_printf(w->arena, word % 2 != 0 ? "rlx_u32(%s >> 32)" : "rlx_u32(%s)", bits);
    }
    if (k_is_half(n->dtype))
        return arena_printf(w->arena, "rlx_%s_pair(%s, %s)", dtype_info[n->dtype].name,
                            put_value(w, n, 2 * word), put_value(w, n, 2 * word + 1));
    Str s = str_new(w->arena);
    const uint32_t each = WORD_BYTES / bytes;
    for (uint32_t i = 0; i < each; i++) {
        const char *text = packed_text(w, n->dtype, put_value(w, n, word * each + i));
        str_printf(&s, i == 0 ? "%s" : " | (%s << %u)", text, 8 * i * bytes);
    }
    return str_text(&s);
}

static void print_put(Walk *w, const KInst *n)
{
    const uint32_t words = n->count * dtype_info[n->dtype].bytes / WORD_BYTES;
    const TypeSpell *ts = walk_type(w, n->dtype);
    for (uint32_t i = 0; words == 0 && i < n->count; i++)
        walk_line(w, "%s[%s + %u] = %s;", w->param[n->imm], walk_expr(w, n->a), i,
                  walk_expand(w, ts->store, n->dtype, n->dtype, put_value(w, n, i)));
    if (words == 0)
        return;
    Str s = str_new(w->arena);
    for (uint32_t i = 0; i < words; i++)
        str_printf(&s, "%s%s", i == 0 ? "" : ", ", packed_word(w, n, i));
    const char *value = arena_printf(w->arena, "%s(%s)", w->t->group->make[words / 2], str_text(&s));
    if (n->flags == KWIDE_ONCE && words == 4 && w->t->group->put_once != NULL)
        walk_line(w, "%s(&%s[%s], %s);", w->t->group->put_once, w->param[n->imm], walk_expr(w, n->a), value);
    else
        walk_line(w, "%s = %s;", wide_text(w, n, words), value);
}

// --- teams ---------------------------------------------------------------------------------------

// mine = mine op other
static void print_join(Walk *w, const KInst *n, const char *mine, const char *other)
{
    const TypeSpell *ts = walk_type(w, n->dtype);
    const ExpandArgs args = {
        .operand = {mine, other}, .type = ts->value, .name = ts->name, .wide = ts->wide, .lanes = 1};
    walk_line(w, "%s = %s;", mine,
              expand_text(w->arena, target_spell(w->t, (KOp)n->kop, n->dtype, 1), &args));
}

static void open_loop(Walk *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void open_loop(Walk *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *head = arena_vprintf(w->arena, fmt, args);
    va_end(args);
    if (w->t->group->subgroup_size != 0 && w->t->unroll)
        walk_line(w, "%s", w->t->unroll);
    walk_line(w, "%s", head);
    w->indent++;
}

static void close_block(Walk *w)
{
    w->indent--;
    walk_line(w, "}");
}

static void print_other(Walk *w, const KInst *n, const char *mine, const char *other, const char *text)
{
    walk_line(w, "const %s %s = %s;", walk_type(w, n->dtype)->value, other, text);
    print_join(w, n, mine, other);
}

// Halves of the team hand each other what they have, through shared memory.
static void print_exchange(Walk *w, const KInst *n, const char *mine, const char *slot)
{
    const GroupSpell *g = w->t->group;
    const char *index = walk_type(w, KT_INDEX)->value, *other = names_take(&w->names, "other");
    open_loop(w, "for (%s m = %lld; m > 0; m /= 2) {", index, (long long)n->imm / 2);
    walk_line(w, "%s", w->t->barrier);
    walk_line(w, "%s[%s] = %s;", slot, g->thread, mine);
    walk_line(w, "%s", w->t->barrier);
    print_other(w, n, mine, other, arena_printf(w->arena, "%s[%s ^ m]", slot, g->thread));
    close_block(w);
}

static void print_shuffles(Walk *w, const KInst *n, const char *mine)
{
    const GroupSpell *g = w->t->group;
    const char *index = walk_type(w, KT_INDEX)->value, *other = names_take(&w->names, "other");
    const int64_t width = n->imm;
    const ExpandArgs args = {.operand = {mine, "m"}};
    if (g->subgroup_size != 0)
        open_loop(w, "for (%s m = %lld; m > 0; m /= 2) {", index,
                  (long long)(width < g->subgroup_size ? width : g->subgroup_size) / 2);
    else
        open_loop(w, "for (%s m = (%s < %lld ? %s : %lld) / 2; m > 0; m /= 2) {", index, g->subgroup,
                  (long long)width, g->subgroup, (long long)width);
    print_other(w, n, mine, other, expand_text(w->arena, g->shuffle, &args));
    close_block(w);
}

// The team's subgroups have one value each: all threads read all of them. In a loop, the threads may still be
// reading what the last turn left there.
static void print_subgroups(Walk *w, KRef r, const char *mine, const char *slot)
{
    const KInst *n = k_inst(w->k, r);
    const GroupSpell *g = w->t->group;
    const char *index = walk_type(w, KT_INDEX)->value, *first = names_take(&w->names, "first");
    const char *other = names_take(&w->names, "other");
    const char *team = n->imm == w->k->group
                           ? "0"
                           : arena_printf(w->arena, "%s / %lld * (%lld / %s)", g->thread, (long long)n->imm,
                                          (long long)n->imm, g->subgroup);
    if (w->marks.len > w->grid.n_loops)
        walk_line(w, "%s", w->t->barrier);
    walk_line(w, "if (%s %% %s == 0) {", g->thread, g->subgroup);
    w->indent++;
    walk_line(w, "%s[%s / %s] = %s;", slot, g->thread, g->subgroup, mine);
    close_block(w);
    walk_line(w, "%s", w->t->barrier);
    walk_line(w, "const %s %s = %s;", index, first, team);
    walk_line(w, "%s = %s[%s];", mine, slot, first);
    open_loop(w, "for (%s i = 1; i < %lld / %s; i++) {", index, (long long)n->imm, g->subgroup);
    print_other(w, n, mine, other, arena_printf(w->arena, "%s[%s + i]", slot, first));
    close_block(w);
}

static void print_team(Walk *w, KRef r)
{
    const KInst *n = k_inst(w->k, r);
    const uint32_t fixed = w->t->group->subgroup_size;
    const char *value = walk_expr(w, n->a), *mine = names_take(&w->names, "team"), *slot = w->slot[r];
    w->name[r] = mine;
    walk_line(w, "%s %s = %s;", walk_type(w, n->dtype)->value, mine, value);
    if (!is_shuffled(n->dtype)) {
        print_exchange(w, n, mine, slot);
        return;
    }
    print_shuffles(w, n, mine);
    if (slot == NULL)
        return;
    if (fixed == 0) {
        walk_line(w, "if (%s < %lld) {", w->t->group->subgroup, (long long)n->imm);
        w->indent++;
    }
    print_subgroups(w, r, mine, slot);
    if (fixed == 0)
        close_block(w);
}

bool walk_group_inst(Walk *w, KRef r)
{
    const KInst *n = k_inst(w->k, r);
    switch (n->kind) {
    case KI_fetch:
        print_fetch(w, n);
        return true;
    case KI_put:
        print_put(w, n);
        return true;
    case KI_team:
        print_team(w, r);
        return true;
    case KI_custom:
        walk_custom_call(w, n);
        return true;
    default:
        return false;
    }
}
