// SPDX-License-Identifier: Apache-2.0
// See device.h. A wgmma has one operand for each register that it changes, up to 128 of them, so that its
// functions are made from their shapes.
#include "codegen/target/device.h"

#include <string.h>

static const char product_prefix[] = "rlx_wgmma_n";

// Types of operands as PTX calls them.
typedef struct ProductType {
    DType type;
    const char *name;
} ProductType;
static const ProductType product_types[] = {
    {DTYPE_bf16, "bf16"}, {DTYPE_f16, "f16"},       {DTYPE_i8, "s8"},
    {DTYPE_u8, "u8"},     {DTYPE_f8e4m3fn, "e4m3"}, {DTYPE_f8e5m2, "e5m2"},
};
enum { N_PRODUCT_TYPES = sizeof product_types / sizeof *product_types };

static const ProductType *product_type(DType type)
{
    const ProductType *found = product_types;
    while (found < product_types + N_PRODUCT_TYPES && found->type != type)
        found++;
    rlx_assert(found < product_types + N_PRODUCT_TYPES);
    return found;
}

// rlx_wgmma_n256_bf16_bf16_sk_k: columns, types of a and b, where a is (s: shared memory, r: registers) and
// what is next to each other in a and b (k, or m: rows or columns).
static const char *product_name(Arena *a, const KInst *n)
{
    const KWgmma w = kwgmma_of(kdev_constant(n));
    const char *place = kdev_of(n) == KDEV_wgmma_r ? "r" : "s";
    return arena_printf(a, "%s%d_%s_%s_%s%c_%c", product_prefix, (int)w.n, product_type(w.type)->name,
                        product_type(kwgmma_b_type(w))->name, place, w.a_is_mn ? 'm' : 'k',
                        w.b_is_mn ? 'm' : 'k');
}

const char *device_call_text(Arena *a, const KInst *n, const char *const *operand, uint32_t n_operands)
{
    rlx_assert(n->kind == KI_call || n->kind == KI_device);
    rlx_assert(n_operands <= KDEV_MAX_OPERANDS);
    const KDeviceInfo *info = &device_info[kdev_of(n)];
    Str s = str_new(a);
    if (info->constant == KDEV_PRODUCT)
        str_add(&s, product_name(a, n));
    else
        str_printf(&s, "rlx_%s", info->name);
    if (info->constant == KDEV_TEMPLATE)
        str_printf(&s, "<%lld>", (long long)kdev_constant(n));
    if (info->constant == KDEV_NUMBER)
        str_printf(&s, "_%lld", (long long)kdev_constant(n));
    str_char(&s, '(');
    for (uint32_t i = 0; i < n_operands; i++)
        str_printf(&s, "%s%s", i > 0 ? ", " : "", operand[i]);
    str_char(&s, ')');
    return str_text(&s);
}

// --- products ------------------------------------------------------------------------------------

typedef struct Product {
    int n;
    const ProductType *a, *b;
    bool a_is_register, a_is_mn, b_is_mn;
} Product;

// "%3,%4,%5"
static void add_operands(Str *out, int from, int count)
{
    for (int i = 0; i < count; i++)
        str_printf(out, "%s%%%d", i > 0 ? "," : "", from + i);
}

static void print_product(const Product *p, const char *name, size_t len, Str *out)
{
    const int sums = p->n / 2, next = sums + (p->a_is_register ? 4 : 1);
    const bool has_words = kwgmma_has_words(p->a->type), is_short = dtype_info[p->a->type].bytes == 1;
    str_printf(out, "RLX_FN void %.*s(%s (&d)[%d], ", (int)len, name, has_words ? "rlx_u32" : "float", sums);
    str_add(out, p->a_is_register ? "const rlx_u32 *a, rlx_idx at" : "rlx_u64 a");
    str_add(out, ", rlx_u64 b, bool add)\n{\n#if RLX_SM_90A\n");
    str_printf(out, "    asm volatile(\"{.reg .pred p; setp.ne.b32 p,%%%d,0;\\n\"\n", next + 1);
    str_add(out, "                 \"wgmma.mma_async.sync.aligned.");
    str_printf(out, "m64n%dk%d.%s.%s.%s \"\n        \"{", p->n, is_short ? 32 : 16, has_words ? "s32" : "f32",
               p->a->name, p->b->name);
    add_operands(out, 0, sums);
    str_add(out, p->a_is_register ? "},{" : "},");
    add_operands(out, sums, next - sums);
    str_printf(out, "%s,%%%d,p%s", p->a_is_register ? "}" : "", next, has_words ? "" : ",1,1");
    if (!is_short && !p->a_is_register)
        str_printf(out, ",%d", p->a_is_mn);
    if (!is_short)
        str_printf(out, ",%d", p->b_is_mn);
    str_add(out, ";}\"\n                 :");
    for (int i = 0; i < sums; i++)
        str_printf(out, "%s\"+%c\"(d[%d])", i == 0 ? " " : i % 8 == 0 ? ",\n                   " : ", ",
                   has_words ? 'r' : 'f', i);
    str_add(out, "\n                 : ");
    if (p->a_is_register)
        str_add(out, "\"r\"(a[at]), \"r\"(a[at + 1]), \"r\"(a[at + 2]), \"r\"(a[at + 3])");
    else
        str_add(out, "\"l\"(a)");
    str_add(out, ", \"l\"(b), \"r\"((int)add));\n#endif\n}\n");
}

// "_TYPE"; *at goes behind it.
static const ProductType *read_type(const char **at)
{
    const size_t len = strcspn(*at + 1, "_");
    const ProductType *found = product_types;
    while (found < product_types + N_PRODUCT_TYPES &&
           (strlen(found->name) != len || strncmp(*at + 1, found->name, len) != 0))
        found++;
    rlx_assert(found < product_types + N_PRODUCT_TYPES);
    *at += 1 + len;
    return found;
}

// The product of a name that product_name made; len: of its text.
static Product read_product(const char *name, size_t *len)
{
    Product p = {0};
    const char *at = name + sizeof product_prefix - 1;
    for (; *at >= '0' && *at <= '9'; at++)
        p.n = p.n * 10 + (*at - '0');
    p.a = read_type(&at);
    p.b = read_type(&at);
    at++;
    p.a_is_register = at[0] == 'r';
    p.a_is_mn = at[1] == 'm';
    p.b_is_mn = at[3] == 'm';
    *len = (size_t)(at + 4 - name);
    return p;
}

void device_print_products(const char *text, Str *out)
{
    enum { MAX_PRODUCTS = 64 };
    const char *seen[MAX_PRODUCTS];
    uint32_t n_seen = 0;
    for (const char *at = strstr(text, product_prefix); at != NULL; at = strstr(at + 1, product_prefix)) {
        size_t len = 0;
        const Product p = read_product(at, &len);
        bool is_new = true;
        for (uint32_t i = 0; i < n_seen && is_new; i++)
            is_new = strncmp(seen[i], at, len) != 0;
        if (!is_new)
            continue;
        rlx_assert(n_seen < MAX_PRODUCTS);
        seen[n_seen++] = at;
        print_product(&p, at, len, out);
    }
}
