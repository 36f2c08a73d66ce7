// SPDX-License-Identifier: Apache-2.0
// The readable listing of a kernel, for --dump and for tests. Constants are shown where they are used.
#include "ir/device.h"
#include "ir/kernel_fold.h"

#include <string.h>

static void print_type(Str *out, const KInst *n)
{
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

// param[index]
static void print_place(Str *out, const Kernel *k, const KInst *n, KRef index)
{
    str_printf(out, "%s[", k->params.data[n->imm].name);
    print_ref(out, k, index);
    str_char(out, ']');
    if (n->count != n->lanes)
        str_printf(out, " count %d", n->count);
}

static void print_refs(Str *out, const Kernel *k, const KInst *n)
{
    const KRef src[3] = {n->a, n->b, n->c};
    for (uint32_t i = 0; i < 3 && src[i]; i++) {
        str_char(out, ' ');
        print_ref(out, k, src[i]);
    }
}

static void print_for(Str *out, const Kernel *k, const KInst *n)
{
    static const char *const how[] = {"", " parallel", " unroll", " roll", " group"};
    print_ref(out, k, n->a);
    str_add(out, " .. ");
    print_ref(out, k, n->b);
    str_printf(out, " step %lld%s", (long long)n->imm, how[n->flags]);
    if (n->text)
        str_printf(out, " \"%s\"", n->text);
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

// What follows "%5 = ".
static void print_value(Str *out, const Kernel *k, const KInst *n)
{
    static const char *const word[] = {
        [KI_cast] = "cast", [KI_splat] = "splat", [KI_get] = "get",     [KI_aload] = "aload",
        [KI_load] = "load", [KI_var] = "var",     [KI_array] = "array", [KI_zip] = "zip"};
    if (n->kind == KI_part || n->kind == KI_thread) {
        str_add(out, n->kind == KI_thread ? "thread" : n->imm ? "parts" : "part");
        return;
    }
    if (n->kind == KI_call) {
        str_add(out, "call ");
        print_device(out, k, n);
        return;
    }
    if (n->kind == KI_address) {
        str_printf(out, "address %s[", k->params.data[n->imm].name);
        print_ref(out, k, n->a);
        str_char(out, ']');
        return;
    }
    if (n->kind == KI_op || n->kind == KI_hreduce || n->kind == KI_team)
        str_printf(out, "%s%s ",
                   n->kind == KI_hreduce ? "hreduce "
                   : n->kind == KI_team  ? "team "
                                         : "",
                   kop_info[n->kop].name);
    else
        str_printf(out, "%s%s ",
                   n->kind == KI_zip                             ? n->imm ? "high " : "low "
                   : n->kind != KI_cast || n->imm == KCAST_VALUE ? ""
                   : n->imm == KCAST_BITS                        ? "bit"
                                                                 : "round",
                   word[n->kind]);
    print_type(out, n);
    if (n->kind == KI_array)
        str_printf(out, "[%lld]%s", (long long)n->imm, n->flags == KARRAY_SHARED ? " shared" : "");
    if (n->kind == KI_team)
        str_printf(out, " width %lld", (long long)n->imm);
    if (n->kind == KI_load) {
        str_char(out, ' ');
        print_place(out, k, n, n->a);
    } else {
        print_refs(out, k, n);
    }
    if (n->kind == KI_var && n->text)
        str_printf(out, " \"%s\"", n->text);
}

static void print_matrix(Str *out, const Kernel *k, const KInst *n)
{
    static const char *const word[KMATRIX_COUNT] = {"begin", "zero", "load", "mac", "store", "split", "end"};
    str_printf(out, "matrix %s", word[n->kop]);
    if (n->kop != KMATRIX_begin && n->kop != KMATRIX_end && n->kop != KMATRIX_split)
        str_printf(out, " r%d", n->count);
    if (n->kop == KMATRIX_mac)
        str_printf(out, " r%d r%d", n->flags & 15, n->flags >> 4);
    if (n->kop == KMATRIX_load || n->kop == KMATRIX_split)
        str_printf(out, " %s", k->params.data[n->imm].name);
    print_refs(out, k, n);
}

static void print_statement(Str *out, const Kernel *k, const KInst *n)
{
    static const char *const words[] = {
        [KI_else] = "else", [KI_end] = "end", [KI_barrier] = "barrier", [KI_wait] = "wait"};
    switch (n->kind) {
    case KI_set:
        str_add(out, "set");
        print_refs(out, k, n);
        break;
    case KI_astore:
        str_add(out, "astore");
        print_refs(out, k, n);
        break;
    case KI_store:
        str_add(out, "store ");
        print_place(out, k, n, n->b);
        str_add(out, " = ");
        print_ref(out, k, n->a);
        break;
    case KI_prefetch:
        str_add(out, "prefetch ");
        print_place(out, k, n, n->a);
        break;
    case KI_fetch:
    case KI_put:
        str_printf(out, "%s %d ", n->kind == KI_put ? "put" : "fetch", n->count);
        str_printf(out, "%s", k->params.data[n->imm].name);
        print_refs(out, k, n);
        break;
    case KI_point:
        str_printf(out, "point %s", k->params.data[n->imm].name);
        print_refs(out, k, n);
        break;
    case KI_if:
        str_add(out, "if");
        print_refs(out, k, n);
        break;
    case KI_else:
    case KI_end:
    case KI_barrier:
    case KI_wait:
        str_add(out, words[n->kind]);
        break;
    case KI_custom:
        str_printf(out, "custom %s", k->custom->function);
        print_refs(out, k, n);
        break;
    case KI_matrix:
        print_matrix(out, k, n);
        break;
    case KI_device:
        str_add(out, "device ");
        print_device(out, k, n);
        break;
    default:
        str_printf(out, "# %s", n->text);
        break;
    }
}

static bool has_value(uint8_t kind)
{
    return (kind >= KI_part && kind <= KI_var) || kind == KI_array || kind == KI_team;
}

void kernel_print(const Kernel *k, Str *out)
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
    int depth = 1;
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        if (n->kind == KI_const || n->kind == KI_list)
            continue;
        depth -= n->kind == KI_end || n->kind == KI_else;
        for (int i = 0; i < depth; i++)
            str_add(out, "  ");
        depth += n->kind == KI_for || n->kind == KI_if || n->kind == KI_else;
        if (n->kind == KI_for) {
            str_printf(out, "for %%%u = ", r);
            print_for(out, k, n);
        } else if (has_value(n->kind)) {
            str_printf(out, "%%%u = ", r);
            print_value(out, k, n);
        } else {
            print_statement(out, k, n);
        }
        str_char(out, '\n');
    }
}
