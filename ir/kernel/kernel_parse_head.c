// SPDX-License-Identifier: Apache-2.0
// What stands before the instructions in the listing of a kernel: its parameters, the shape of its groups,
// the text of a custom op.
#include "ir/kernel/kernel_parser.h"

enum {
    MAX_SHARED = 1 << 20,
    MIN_GROUP = 32,
    MAX_GROUP = 1024,
    MAX_CLUSTER = 16,
    MAX_PLACES = 32,
    MAX_RESIDENT = 4096
};

static bool parse_size(Parser *p, const char *what, int64_t least, int64_t most, int64_t *out)
{
    return kp_take_int(p, "a size", least, most, out) && lex_expect(&p->l, what);
}

static bool head_group(Parser *p)
{
    int64_t n = 0;
    if (!lex_expect(&p->l, "of") || !parse_size(p, "threads", MIN_GROUP, MAX_GROUP, &n))
        return false;
    p->k->group = (uint16_t)n;
    return n % MIN_GROUP == 0 || kp_fail_here(p, "a multiple of 32 threads");
}

static bool head_cluster(Parser *p)
{
    int64_t n = 0;
    if (!lex_expect(&p->l, "of") || !parse_size(p, "groups", 1, MAX_CLUSTER, &n))
        return false;
    p->k->cluster = (uint8_t)n;
    return true;
}

static bool head_resident(Parser *p)
{
    int64_t n = 0;
    if (!parse_size(p, "groups", 1, MAX_RESIDENT, &n))
        return false;
    p->k->resident = (uint16_t)n;
    return true;
}

static bool head_places(Parser *p)
{
    int64_t n = 0;
    if (!lex_expect(&p->l, "for") || !parse_size(p, "groups", 1, MAX_PLACES, &n))
        return false;
    p->k->places = (uint8_t)n;
    return true;
}

static bool head_shared(Parser *p)
{
    int64_t n = 0;
    if (!parse_size(p, "bytes", 1, MAX_SHARED, &n))
        return false;
    p->k->shared_bytes = (uint32_t)n;
    return true;
}

static bool head_param(Parser *p)
{
    KParam new = {0};
    int64_t table = -1;
    if (!kp_take_name(p, "a name", &new.name) || !lex_expect(&p->l, ":") || !lex_dtype(&p->l, &new.dtype))
        return false;
    new.is_read = kp_take_word(p, "read");
    new.is_written = kp_take_word(p, "write");
    new.is_own = kp_take_word(p, "own");
    new.is_moved = kp_take_word(p, "moved");
    if (kp_take_word(p, "first") && !kp_take_int(p, "an index", INT64_MIN, INT64_MAX, &new.first))
        return false;
    if (kp_take_word(p, "table") && !kp_take_int(p, "the position of a parameter", 0, UINT16_MAX, &table))
        return false;
    new.table = (uint32_t)(table + 1);
    vec_push(p->k->arena, &p->k->params, new);
    return true;
}

static bool head_text(Parser *p)
{
    KCustom *c = ARENA_NEW(p->k->arena, KCustom);
    p->k->custom = c;
    return kp_take_name(p, "a function", &c->function) && lex_string(&p->l, "its text", &c->text);
}

static bool head_arg(Parser *p)
{
    KCustomArg arg = {0};
    int64_t param = 0;
    if (p->k->custom == NULL || p->k->params.len == 0)
        return kp_fail_here(p, "parameters and a text before");
    if (!kp_take_name(p, "a name", &arg.name) ||
        !kp_take_int(p, "the position of a parameter", 0, p->k->params.len - 1, &param))
        return false;
    arg.param = (uint32_t)param;
    arg.is_written = kp_take_word(p, "write");
    vec_push(p->k->arena, &p->k->custom->args, arg);
    return true;
}

static bool head_constant(Parser *p, bool is_float)
{
    KCustomConstant v = {.is_float = is_float};
    if (p->k->custom == NULL)
        return kp_fail_here(p, "a text before");
    if (!kp_take_name(p, "a name", &v.name) ||
        !(is_float ? kp_take_float(p, &v.number) : kp_take_int(p, "a size", INT64_MIN, INT64_MAX, &v.size)))
        return false;
    vec_push(p->k->arena, &p->k->custom->constants, v);
    return true;
}

static bool head_number(Parser *p)
{
    return head_constant(p, true);
}

static bool head_size(Parser *p)
{
    return head_constant(p, false);
}

// Takes a line of the head. *found: it is one.
static bool parse_head_line(Parser *p, bool *found)
{
    static const struct {
        const char *word;
        bool (*parse)(Parser *);
    } lines[] = {{"groups", head_group},  {"clusters", head_cluster}, {"places", head_places},
                 {"shared", head_shared}, {"param", head_param},      {"text", head_text},
                 {"arg", head_arg},       {"number", head_number},    {"size", head_size},
                 {"resident", head_resident}};
    *found = false;
    for (uint32_t i = 0; i < sizeof lines / sizeof *lines && !*found; i++)
        if (kp_take_word(p, lines[i].word)) {
            *found = true;
            if (!lines[i].parse(p) || !kp_end_line(p))
                return false;
        }
    return true;
}

static bool check_tables(Parser *p)
{
    for (uint32_t i = 0; i < p->k->params.len; i++)
        if (p->k->params.data[i].table > p->k->params.len)
            return kp_fail_here(p, "a table that is a parameter");
    return true;
}

bool kp_parse_head(Parser *p)
{
    const char *name = NULL;
    if (!kp_next_line(p) || !kp_take_word(p, "kernel"))
        return kp_fail_here(p, "'kernel'");
    if (!kp_take_name(p, "the name of the kernel", &name))
        return false;
    p->k = kernel_new(p->l.arena, name);
    p->k->may_alias = kp_take_word(p, "may_alias");
    if (!kp_end_line(p))
        return false;
    bool more = kp_next_line(p), found = true;
    if (more && p->l.text[p->l.at] == '#') {
        p->k->comment = lex_take_comment(&p->l);
        if (p->k->comment == NULL)
            return kp_fail_here(p, "a comment without zeros");
        more = kp_next_line(p);
    }
    while (more && p->l.text[p->l.at] != '#') {
        if (!parse_head_line(p, &found))
            return false;
        if (!found)
            break;
        more = kp_next_line(p);
    }
    return check_tables(p);
}
