// SPDX-License-Identifier: Apache-2.0
// Reading the cases of test_ops. See ops_cases.h.
#include "ops_cases.h"

#include "../common/rotation.h"
#include "ir/text/text_element.h"
#include "random_blocks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double rng_next(Rng *r)
{
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(r->state >> 33) / 2147483648.0;
}

uint64_t hash_text(const char *s)
{
    uint64_t h = 1469598103934665603u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

static char *read_file(Arena *a, const char *path)
{
    FILE *f = fopen(path, "rb");
    Str s = str_new(a);
    char buf[4096];
    if (f == NULL) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    for (size_t n = fread(buf, 1, sizeof buf, f); n > 0; n = fread(buf, 1, sizeof buf, f))
        str_add_n(&s, buf, n);
    fclose(f);
    return arena_strdup(a, str_text(&s));
}

// Elements of the type that ends at `end`: "... f32[2, 3]".
static int64_t type_numel(const char *begin, const char *end)
{
    int64_t n = 1;
    const char *p = end;
    while (p > begin && *p != '[')
        p--;
    for (p++; p < end && *p != ']';) {
        char *next = NULL;
        n *= strtoll(p, &next, 10);
        p = next;
        while (*p == ',' || *p == ' ')
            p++;
    }
    return n;
}

static DType type_dtype(Arena *a, const char *begin, const char *end)
{
    const char *p = end;
    DType dtype = DTYPE_f32;
    while (p > begin && *p != ':')
        p--;
    while (*p == ':' || *p == ' ')
        p++;
    const bool is_known = dtype_parse(arena_strndup(a, p, strcspn(p, "[ ")), &dtype);
    rlx_assert(is_known);
    return dtype;
}

static uint64_t next_bits(void *ctx)
{
    return (uint64_t)(rng_next(ctx) * 2147483648.0) << 32;
}

// The format that a text names behind "random ", or NULL.
static const BlockFormat *named_format(Arena *a, const char *text)
{
    return block_format(a, arena_strndup(a, text, strcspn(text, "\n")));
}

// What stands behind "= random" of a constant.
typedef struct Random {
    const BlockFormat *format; // or NULL
    bool is_bits;
} Random;

static void fill_random(Tensor *t, const Random *what, Rng *r)
{
    const bool is_float = dtype_info[t->dtype].cls == DCLASS_FLOAT;
    const uint32_t most = t->dtype == DTYPE_u32 ? UINT32_MAX : UINT8_MAX;
    if (what->format != NULL)
        random_blocks(what->format, t->data, t->numel / what->format->bytes, next_bits, r);
    for (int64_t i = 0; i < t->numel && what->format == NULL; i++) {
        if (what->is_bits)
            tensor_set_i64(t, i, (int64_t)((next_bits(r) >> 32 ^ next_bits(r) >> 16) & most));
        else if (is_float)
            tensor_set_f64(t, i, (double)(float)(rng_next(r) * 2 - 1));
        else
            tensor_set_i64(t, i, (int64_t)(rng_next(r) * 10));
    }
}

// As digits of their bits: decimals would take longer to print and to read than most cases take to compile.
static void add_random(Arena *a, DType dtype, int64_t numel, const Random *what, Rng *r, Str *out)
{
    Tensor t = tensor_new(a, dtype, 1, &numel);
    fill_random(&t, what, r);
    str_add(out, "= hex\"");
    element_print_hex(&t, out);
    str_add(out, "\"");
}

// Replaces every " = random" by values, " = random q4_0" by blocks, " = random bits" by any bits of u8 or
// u32.
const char *ops_text(Arena *a, const OpsCase *c)
{
    const char *text = c->source;
    Str s = str_new(a);
    Rng r = {hash_text(text)};
    for (const char *mark = strstr(text, "= random"); mark != NULL; mark = strstr(text, "= random")) {
        const Random what = {mark[8] == ' ' ? named_format(a, mark + 9) : NULL,
                             strncmp(mark + 8, " bits\n", 6) == 0};
        str_add_n(&s, text, (size_t)(mark - text));
        add_random(a, type_dtype(a, text, mark), type_numel(text, mark), &what, &r, &s);
        text = mark + strlen("= random") +
               (what.is_bits          ? strlen(" bits")
                : what.format != NULL ? 1 + strlen(what.format->name)
                                      : 0);
    }
    str_add(&s, text);
    return arena_strdup(a, str_text(&s));
}

static bool is_wanted(const char *name, const char *filter)
{
    return filter == NULL ||
           (filter[0] == '=' ? strcmp(name, filter + 1) == 0 : strstr(name, filter) != NULL);
}

void ops_read_cases(Arena *a, const char *path, const char *filter, OpsCases *out)
{
    const char *at = read_file(a, path);
    const char *begin = strncmp(at, "graph ", 6) == 0 ? at : strstr(at, "\ngraph ");
    while (begin != NULL) {
        begin += *begin == '\n';
        const char *end = strstr(begin, "\ngraph "), *name = strchr(begin, '"') + 1;
        OpsCase c = {.name = arena_strndup(a, name, (size_t)(strchr(name, '"') - name))};
        c.source = end ? arena_strndup(a, begin, (size_t)(end - begin)) : begin;
        if (is_wanted(c.name, filter))
            vec_push(a, out, c);
        begin = end;
    }
}

static bool takes_all(void)
{
    return getenv("TEST_ALL") != NULL || getenv("TEST_OPS") != NULL || getenv("TEST_CONFIG") != NULL;
}

bool ops_is_sampled(uint32_t i, uint32_t every, uint32_t shift)
{
    return every <= 1 || takes_all() || (i + test_rotation() + shift) % every == 0;
}

void ops_say_sample(uint32_t every)
{
    if (every > 1 && !takes_all())
        printf("# one of %u cases; TEST_ROTATE=%u takes the same again, TEST_ALL=1 takes all\n", every,
               test_rotation());
}

static double random_float(Rng *r, bool is_special)
{
    static const double special[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, -0.0, 0.0};
    const double pick = rng_next(r), v = rng_next(r) * 4 - 2;
    return is_special && pick < 0.25 ? special[(int)(pick * 20)] : v;
}

Tensor ops_random_tensor(Arena *a, const Graph *g, NodeId id, uint64_t seed)
{
    const Node *n = graph_node(g, id);
    const char *name = node_name(g, id);
    Tensor t = tensor_new(a, (DType)n->dtype, n->shape->rank, n->shape->dim);
    Rng r = {seed ^ hash_text(name)};
    const DTypeClass cls = dtype_info[n->dtype].cls;
    const BlockFormat *format = block_format(a, name); // an input of that name holds blocks
    const bool is_bits = strcmp(name, "bits") == 0;    // and one of that any bits
    if (format)
        random_blocks(format, t.data, t.numel / format->bytes, next_bits, &r);
    for (int64_t i = 0; i < t.numel && !format; i++) {
        if (cls == DCLASS_FLOAT)
            tensor_set_f64(&t, i, random_float(&r, strstr(name, "special") != NULL));
        else if (cls == DCLASS_BOOL)
            tensor_set_i64(&t, i, rng_next(&r) < 0.6);
        else if (is_bits)
            tensor_set_i64(&t, i, (int64_t)(rng_next(&r) * 4294967296.0));
        else
            tensor_set_i64(&t, i,
                           (int64_t)(rng_next(&r) * (cls == DCLASS_UINT ? 10 : 19)) -
                               (cls == DCLASS_UINT ? 0 : 9));
    }
    return t;
}

bool ops_has_stages(const Plan *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->kernels.len; i++)
        n += p->kernels.data[i].stages.len + p->kernels.data[i].is_joined;
    return n > 0;
}

double ops_unit_accuracy(const OpsCase *c)
{
    if (strstr(c->name, "eighths on units") != NULL || strstr(c->name, "rounded on units") != NULL)
        return 1e-3;
    if (strstr(c->name, "by one digit") != NULL || strstr(c->name, "by two digits") != NULL)
        return strstr(c->name, "one") != NULL ? 1e-2 : 1e-4;
    const bool has_digits = strstr(c->name, "digits") != NULL || strstr(c->name, "streamed") != NULL ||
                            strstr(c->name, "on units") != NULL;
    return has_digits ? 1e-5 : 0;
}

double ops_unit_tolerance(const OpsCase *c)
{
    const double accuracy = ops_unit_accuracy(c);
    return accuracy > 1e-5 && strstr(c->name, "eighths") == NULL ? 3 * accuracy : 1e-5;
}
