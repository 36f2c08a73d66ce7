// SPDX-License-Identifier: Apache-2.0
// The readable listing of a kernel, for --dump and for tests; kernel_parse.c reads it. Constants are shown
// where they are used, with their type where that is not the one to expect there: 1:i32. What has a value is
// counted from 1 on, in the order of the listing. A parameter whose name an earlier one has: NAME@POSITION.
#include "ir/kernel/kernel_fold.h"
#include "ir/kernel/kernel_words.h"
#include "base/quote.h"

#include <string.h>

const char *const kmatrix_words[KMATRIX_COUNT] = {"begin", "zero", "load", "mac", "store", "split", "end"};
const char *const kmatrix_roles[KMATRIX_COUNT] = {"ii", "", "ii", "", "Aii", "iif", ""};
const char *const kloop_words[KLOOP_WORDS] = {"", "parallel", "unroll", "roll", "group", "turns",
                                                "given"};
const char *const kcast_words[KCAST_WORDS] = {"cast", "bitcast", "roundcast"};
const char *const kzip_words[KZIP_WORDS] = {"low", "high", "even", "odd"};

typedef struct Listing {
    Str *out;
    const Kernel *k;
    const KInst *n;         // the instruction of the line
    const uint32_t *number; // by instruction
} Listing;

// --- operands ------------------------------------------------------------------------------------

uint32_t kernel_operand_count(const KInst *n)
{
    switch (n->kind) {
    case KI_op:
        return kop_info[n->kop].arity;
    case KI_matrix:
        return (uint32_t)strlen(kmatrix_roles[n->kop]);
    case KI_call:
    case KI_device:
        return (uint32_t)strlen(device_info[kdev_of(n)].operands);
    case KI_cast:
    case KI_hreduce:
        return 1;
    default:
        return (uint32_t)strlen(kkind_info[n->kind].operands);
    }
}

// The type that a role says; those of device.def are among them.
static int role_type(char role, int type)
{
    static const struct {
        char role;
        int type;
    } types[] = {{'i', KT_INDEX}, {'b', DTYPE_bool}, {'f', DTYPE_f32}, {'u', DTYPE_u64}, {'r', DTYPE_u32}};
    for (uint32_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].role == role)
            return types[i].type;
    return type;
}

int kernel_operand_type(const KInst *n, int type, uint32_t i)
{
    const char *roles = n->kind == KI_matrix                         ? kmatrix_roles[n->kop]
                        : n->kind == KI_call || n->kind == KI_device ? device_info[kdev_of(n)].operands
                                                                     : kkind_info[n->kind].operands;
    if (n->kind == KI_op && kop_info[n->kop].cls == KCLASS_SEL && i == 0)
        return DTYPE_bool;
    return i < strlen(roles) ? role_type(roles[i], type) : type;
}

// The type that is listed: that of comparisons is the type of what they compare.
static int listed_type(const Listing *l)
{
    const bool is_test = l->n->kind == KI_op && kop_info[l->n->kop].cls == KCLASS_CMP;
    return is_test ? k_inst(l->k, l->n->a)->dtype : l->n->dtype;
}

static void print_constant(const Listing *l, const KInst *c, int expected)
{
    if (kt_is_float(c->dtype)) {
        double v = 0;
        memcpy(&v, &c->imm, sizeof v);
        str_f64(l->out, v);
    } else {
        str_printf(l->out, "%lld", (long long)c->imm);
    }
    if (c->dtype != expected)
        str_printf(l->out, ":%s", kt_name(c->dtype));
}

static void print_ref(const Listing *l, KRef r, uint32_t i)
{
    const KInst *n = k_inst(l->k, r);
    if (n->kind == KI_const)
        print_constant(l, n, kernel_operand_type(l->n, listed_type(l), i));
    else
        str_printf(l->out, "%%%u", l->number[r]);
}

static void print_refs(const Listing *l)
{
    const KRef src[3] = {l->n->a, l->n->b, l->n->c};
    for (uint32_t i = 0; i < 3 && src[i]; i++) {
        str_char(l->out, ' ');
        print_ref(l, src[i], i);
    }
}

// --- letters of forms (kinds.def) ----------------------------------------------------------------

static void print_name(Str *out, const char *name)
{
    if (quote_is_plain(name))
        str_add(out, name);
    else
        quote_print(out, name);
}

static void print_param(const Listing *l)
{
    const KParam *params = l->k->params.data;
    const uint32_t at = (uint32_t)l->n->imm;
    bool is_known = false;
    for (uint32_t i = 0; i < at; i++)
        is_known = is_known || str_equal(params[i].name, params[at].name);
    print_name(l->out, params[at].name);
    if (is_known)
        str_printf(l->out, "@%u", at);
}

static void print_type(const Listing *l)
{
    str_add(l->out, kt_name(listed_type(l)));
    if (l->n->lanes > 1)
        str_printf(l->out, "x%d", l->n->lanes);
}

static void print_device(const Listing *l)
{
    const KDeviceInfo *f = &device_info[kdev_of(l->n)];
    str_add(l->out, f->name);
    if (f->constant != KDEV_NONE)
        str_printf(l->out, "<%lld>", (long long)kdev_constant(l->n));
    if (l->n->kind == KI_call)
        print_refs(l);
    for (uint32_t i = 0; l->n->kind == KI_device && k_device_operand(l->k, l->n, i) != 0; i++) {
        str_char(l->out, ' ');
        print_ref(l, k_device_operand(l->k, l->n, i), i);
    }
}

static void print_matrix(const Listing *l)
{
    const KInst *n = l->n;
    str_add(l->out, kmatrix_words[n->kop]);
    if (n->kop == KMATRIX_mac)
        str_printf(l->out, " %s", kt_name(n->dtype));
    if (kmatrix_has_register(n->kop))
        str_printf(l->out, " r%d", n->count);
    if (n->kop == KMATRIX_mac)
        str_printf(l->out, " r%d r%d", n->flags & 15, n->flags >> 4);
    if (kmatrix_has_param(n->kop)) {
        str_char(l->out, ' ');
        print_param(l);
    }
}

static void print_kop(const Listing *l)
{
    str_add(l->out, kop_info[l->n->kop].name);
}

static void print_a(const Listing *l)
{
    print_ref(l, l->n->a, 0);
}

static void print_b(const Listing *l)
{
    print_ref(l, l->n->b, 1);
}

static void print_imm(const Listing *l)
{
    str_printf(l->out, "%lld", (long long)l->n->imm);
}

static void print_count(const Listing *l)
{
    str_printf(l->out, "%d", l->n->count);
}

static void print_active(const Listing *l)
{
    if (l->n->count != l->n->lanes)
        str_printf(l->out, " count %d", l->n->count);
}

static void print_hint(const Listing *l)
{
    if (l->n->text == NULL)
        return;
    str_char(l->out, ' ');
    quote_print(l->out, l->n->text);
}

// In quotes where it would not read back as it is.
static void print_words(Str *out, const char *text)
{
    const size_t n = strlen(text);
    bool is_plain = n > 0 && text[0] != '"' && text[0] != ' ' && text[n - 1] != ' ';
    for (size_t i = 0; i < n; i++)
        is_plain = is_plain && (unsigned char)text[i] >= ' ' && text[i] != 0x7f;
    if (is_plain)
        str_add(out, text);
    else
        quote_print(out, text);
}

static void print_comment(const Listing *l)
{
    print_words(l->out, l->n->text);
}

static void print_part(const Listing *l)
{
    str_add(l->out, l->n->imm != 0 ? "parts" : "part");
}

static void print_cast(const Listing *l)
{
    str_add(l->out, kcast_words[l->n->imm]);
}

static void print_zip(const Listing *l)
{
    str_add(l->out, kzip_words[l->n->imm]);
}

static void print_flags(const Listing *l)
{
    const char *word = l->n->kind == KI_for     ? kloop_words[l->n->flags]
                       : l->n->flags == 0       ? ""
                       : l->n->kind == KI_array ? "shared"
                                                : "once";
    str_printf(l->out, "%s%s", *word != '\0' ? " " : "", word);
}

static void print_function(const Listing *l)
{
    print_name(l->out, l->k->custom->function);
}

static void print_form(const Listing *l)
{
    static void (*const letters[])(const Listing *) = {
        ['a'] = print_a,      ['b'] = print_b,      ['c'] = print_active, ['d'] = print_device,
        ['f'] = print_flags,  ['h'] = print_zip,   ['i'] = print_imm,    ['k'] = print_cast,
        ['m'] = print_matrix, ['n'] = print_count,  ['o'] = print_kop,    ['p'] = print_param,
        ['r'] = print_refs,   ['s'] = print_part,   ['t'] = print_type,   ['u'] = print_function,
        ['x'] = print_hint,   ['y'] = print_comment};
    for (const char *c = kkind_info[l->n->kind].form; *c != '\0'; c++)
        if (*c == '$')
            letters[(unsigned char)*++c](l);
        else
            str_char(l->out, *c);
}

// --- the listing ---------------------------------------------------------------------------------

static void print_custom(const KCustom *c, Str *out)
{
    str_add(out, "  text ");
    print_name(out, c->function);
    str_char(out, ' ');
    quote_print(out, c->text);
    for (uint32_t i = 0; i < c->args.len; i++) {
        str_add(out, "\n  arg ");
        print_name(out, c->args.data[i].name);
        str_printf(out, " %u%s", c->args.data[i].param, c->args.data[i].is_written ? " write" : "");
    }
    for (uint32_t i = 0; i < c->constants.len; i++) {
        const KCustomConstant *v = &c->constants.data[i];
        str_add(out, v->is_float ? "\n  number " : "\n  size ");
        print_name(out, v->name);
        str_char(out, ' ');
        if (v->is_float)
            str_f64(out, v->number);
        else
            str_printf(out, "%lld", (long long)v->size);
    }
    str_char(out, '\n');
}

static void print_param_line(const KParam *p, Str *out)
{
    str_add(out, "  param ");
    print_name(out, p->name);
    str_printf(out, ": %s%s%s%s%s", dtype_info[p->dtype].name, p->is_read ? " read" : "",
               p->is_written ? " write" : "", p->is_own ? " own" : "", p->is_moved ? " moved" : "");
    if (p->first != 0)
        str_printf(out, " first %lld", (long long)p->first);
    if (p->table != 0)
        str_printf(out, " table %u", p->table - 1);
    str_char(out, '\n');
}

static void print_head(const Kernel *k, Str *out)
{
    str_add(out, "kernel ");
    print_name(out, k->name);
    str_add(out, k->may_alias ? " may_alias\n" : "\n");
    if (k->comment && *k->comment) {
        str_add(out, "  # ");
        print_words(out, k->comment);
        str_char(out, '\n');
    }
    if (k->group != 0)
        str_printf(out, "  groups of %d threads\n", k->group);
    if (k->cluster != 0)
        str_printf(out, "  clusters of %d groups\n", k->cluster);
    if (k->resident != 0)
        str_printf(out, "  resident %d groups\n", k->resident);
    if (k->places != 0)
        str_printf(out, "  places for %d groups\n", k->places);
    if (k->shared_bytes != 0)
        str_printf(out, "  shared %u bytes\n", k->shared_bytes);
    for (uint32_t i = 0; i < k->params.len; i++)
        print_param_line(&k->params.data[i], out);
    if (k->custom != NULL)
        print_custom(k->custom, out);
}

void kernel_print(const Kernel *k, Str *out)
{
    int depth = 1;
    uint32_t *number = ARENA_ARRAY(out->arena, uint32_t, k->insts.len), count = 0;
    print_head(k, out);
    for (KRef r = 1; r < k->insts.len; r++) {
        const Listing l = {out, k, k_inst(k, r), number};
        if (kkind_info[l.n->kind].form[0] == '\0')
            continue;
        depth -= kkind_closes(l.n->kind);
        for (int i = 0; i < depth; i++)
            str_add(out, "  ");
        depth += kkind_opens(l.n->kind);
        if (kkind_has_number(l.n->kind)) {
            number[r] = ++count;
            str_printf(out, "%s%%%u = ", l.n->kind == KI_for ? "for " : "", count);
        }
        print_form(&l);
        str_char(out, '\n');
    }
}
