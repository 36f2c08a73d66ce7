// SPDX-License-Identifier: Apache-2.0
// The readable listing of a kernel, for --dump and for tests. Constants are shown where they are used.
#include "ir/device.h"
#include "ir/kernel_fold.h"

#include <string.h>

static void print_type(Str *out, const Kernel *k, const KInst *n)
{
    (void)k;
    str_add(out, kt_name(n->dtype));
    if (n->lanes > 1)
        str_printf(out, "x%d", n->lanes);
}

static void print_ref(Str *out, const Kernel *k, KRef r)
{
    const KInst *n = k_inst(k, r);
    if (n->kind != KI_const) {
        str_printf(out, "%%%u", r);
    } else if (kt_is_float(n->dtype)) {
        double v = 0;
        memcpy(&v, &n->imm, sizeof v);
        str_f64(out, v);
    } else {
        str_printf(out, "%lld", (long long)n->imm);
    }
}

static void print_refs(Str *out, const Kernel *k, const KInst *n)
{
    const KRef src[3] = {n->a, n->b, n->c};
    for (uint32_t i = 0; i < 3 && src[i]; i++) {
        str_char(out, ' ');
        print_ref(out, k, src[i]);
    }
}

static void print_device(Str *out, const Kernel *k, const KInst *n)
{
    str_printf(out, "%s", device_info[kdev_of(n)].name);
    if (device_info[kdev_of(n)].constant != KDEV_NONE)
        str_printf(out, "<%lld>", (long long)kdev_constant(n));
    if (n->kind == KI_call)
        print_refs(out, k, n);
    for (uint32_t i = 0; n->kind == KI_device && k_device_operand(k, n, i) != 0; i++) {
        str_char(out, ' ');
        print_ref(out, k, k_device_operand(k, n, i));
    }
}

static void print_matrix(Str *out, const Kernel *k, const KInst *n)
{
    static const char *const word[KMATRIX_COUNT] = {"begin", "zero", "load", "mac", "store", "split", "end"};
    str_add(out, word[n->kop]);
    if (n->kop != KMATRIX_begin && n->kop != KMATRIX_end && n->kop != KMATRIX_split)
        str_printf(out, " r%d", n->count);
    if (n->kop == KMATRIX_mac)
        str_printf(out, " r%d r%d", n->flags & 15, n->flags >> 4);
    if (n->kop == KMATRIX_load || n->kop == KMATRIX_split)
        str_printf(out, " %s", k->params.data[n->imm].name);
}

// --- letters of forms (kinds.def) ----------------------------------------------------------------

static void print_kop(Str *out, const Kernel *k, const KInst *n)
{
    (void)k;
    str_add(out, kop_info[n->kop].name);
}

static void print_param(Str *out, const Kernel *k, const KInst *n)
{
    str_add(out, k->params.data[n->imm].name);
}

static void print_a(Str *out, const Kernel *k, const KInst *n)
{
    print_ref(out, k, n->a);
}

static void print_b(Str *out, const Kernel *k, const KInst *n)
{
    print_ref(out, k, n->b);
}

static void print_imm(Str *out, const Kernel *k, const KInst *n)
{
    (void)k;
    str_printf(out, "%lld", (long long)n->imm);
}

static void print_count(Str *out, const Kernel *k, const KInst *n)
{
    (void)k;
    str_printf(out, "%d", n->count);
}

static void print_active(Str *out, const Kernel *k, const KInst *n)
{
    (void)k;
    if (n->count != n->lanes)
        str_printf(out, " count %d", n->count);
}

static void print_hint(Str *out, const Kernel *k, const KInst *n)
{
    (void)k;
    if (n->text != NULL)
        str_printf(out, " \"%s\"", n->text);
}

static void print_comment(Str *out, const Kernel *k, const KInst *n)
{
    (void)k;
    str_add(out, n->text);
}

static void print_plural(Str *out, const Kernel *k, const KInst *n)
{
    (void)k;
    str_add(out, n->imm != 0 ? "s" : "");
}

static void print_cast_rule(Str *out, const Kernel *k, const KInst *n)
{
    static const char *const word[] = {"", "bit", "round"}; // KCast
    (void)k;
    str_add(out, word[n->imm]);
}

static void print_half(Str *out, const Kernel *k, const KInst *n)
{
    (void)k;
    str_add(out, n->imm != 0 ? "high" : "low");
}

static void print_scope(Str *out, const Kernel *k, const KInst *n)
{
    (void)k;
    str_add(out, n->flags == KARRAY_SHARED ? " shared" : "");
}

static void print_loop(Str *out, const Kernel *k, const KInst *n)
{
    static const char *const word[] = {"", " parallel", " unroll", " roll", " group"};
    (void)k;
    str_add(out, word[n->flags]);
}

static void print_function(Str *out, const Kernel *k, const KInst *n)
{
    (void)n;
    str_add(out, k->custom->function);
}

static void print_form(Str *out, const Kernel *k, const KInst *n)
{
    static void (*const letters[])(Str *, const Kernel *, const KInst *) = {
        ['a'] = print_a,         ['b'] = print_b,      ['c'] = print_active, ['d'] = print_device,
        ['f'] = print_loop,      ['g'] = print_scope,  ['h'] = print_half,   ['i'] = print_imm,
        ['k'] = print_cast_rule, ['m'] = print_matrix, ['n'] = print_count,  ['o'] = print_kop,
        ['p'] = print_param,     ['r'] = print_refs,   ['s'] = print_plural, ['t'] = print_type,
        ['u'] = print_function,  ['x'] = print_hint,   ['y'] = print_comment};
    for (const char *c = kkind_info[n->kind].form; *c != '\0'; c++)
        if (*c == '$')
            letters[(unsigned char)*++c](out, k, n);
        else
            str_char(out, *c);
}

// --- the listing ---------------------------------------------------------------------------------

static void print_head(const Kernel *k, Str *out)
{
    str_printf(out, "kernel %s%s\n", k->name, k->may_alias ? " may_alias" : "");
    if (k->comment && *k->comment)
        str_printf(out, "  # %s\n", k->comment);
    if (k->group != 0)
        str_printf(out, "  groups of %d threads\n", k->group);
    for (uint32_t i = 0; i < k->params.len; i++) {
        const KParam *p = &k->params.data[i];
        str_printf(out, "  param %s: %s%s%s\n", p->name, dtype_info[p->dtype].name, p->is_read ? " read" : "",
                   p->is_written ? " write" : "");
    }
}

void kernel_print(const Kernel *k, Str *out)
{
    int depth = 1;
    print_head(k, out);
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        const KKindInfo *kind = &kkind_info[n->kind];
        if (kind->form[0] == '\0')
            continue;
        depth -= kkind_closes(n->kind);
        for (int i = 0; i < depth; i++)
            str_add(out, "  ");
        depth += kkind_opens(n->kind);
        if (kind->cls != KIND_STATEMENT && kind->cls != KIND_NOTHING)
            str_printf(out, "%s%%%u = ", n->kind == KI_for ? "for " : "", r);
        print_form(out, k, n);
        str_char(out, '\n');
    }
}
