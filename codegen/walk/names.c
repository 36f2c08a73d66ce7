// SPDX-License-Identifier: Apache-2.0
// Names in emitted text.
#include "codegen/walk/names.h"
#include "ir/kernel/kernel.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HINT = 32 };

// Words that look like a hint could, of C and C++, and of languages of GPUs. Blanks on both sides of each.
static const char reserved[] =
    " alignas alignof and and_eq asm atomic auto bitand bitor bool break case catch char class compl"
    " concept const const_cast constexpr continue decltype default delete do double dynamic_cast else enum"
    " explicit export extern false float for friend global goto if inline int long main mutable namespace"
    " new noexcept not not_eq nullptr operator or or_eq private protected public register restrict return"
    " short signed sizeof static static_assert struct switch template this thread thread_local throw true"
    " try typedef typeid typename typeof uint union unsigned using vector virtual void volatile wchar_t"
    " while xor xor_eq ";
static const char reserved_on_gpus[] =
    " buffer centroid coherent constant device discard fixed flat fragment half image in inout input"
    " invariant kernel layout lowp mediump metal noperspective out output packed patch precise precision"
    " readonly resource sample sampler shared smooth subroutine superp texture threadgroup uniform varying"
    " vertex writeonly ";

static bool is_reserved(const Names *n, const char *name)
{
    KOp op;
    if (kop_parse(name, strlen(name), &op))
        return true;
    char padded[MAX_HINT + 16];
    rlx_assert(strlen(name) + 2 < sizeof padded);
    snprintf(padded, sizeof padded, " %s ", name);
    if (strstr(reserved, padded) || (n->is_for_gpu && strstr(reserved_on_gpus, padded)))
        return true;
    // The temporaries.
    return name[0] == 't' && name[1] && strspn(name + 1, "0123456789") == strlen(name + 1);
}

static bool is_taken(const Names *n, const char *name)
{
    uint64_t in_scope = 0;
    return map_get_str(&n->taken, name, &in_scope) && in_scope != 0;
}

// Letters, digits and single underscores of the hint.
static const char *clean(Arena *a, const char *hint)
{
    Str s = str_new(a);
    for (const char *p = hint; *p && s.len < MAX_HINT; p++) {
        const bool is_word = isalnum((unsigned char)*p) != 0;
        if (is_word && (s.len || !isdigit((unsigned char)*p)))
            str_char(&s, *p);
        else if (s.len && s.data[s.len - 1] != '_')
            str_char(&s, '_');
    }
    while (s.len && s.data[s.len - 1] == '_')
        s.data[--s.len] = 0;
    return s.len ? str_text(&s) : "v";
}

// The hint as a word that nothing else means. rlx_ and RLX_ are the runtime's.
static const char *base_of(Names *n, const char *hint)
{
    const char *base = clean(n->arena, hint ? hint : "v");
    if (!strncmp(base, "rlx_", 4) || !strncmp(base, "RLX_", 4))
        return arena_printf(n->arena, "v_%s", base);
    return is_reserved(n, base) ? arena_printf(n->arena, "%s_", base) : base;
}

// t2 would be a temporary, and a12 another name's a1.
static const char *joint_of(const char *base)
{
    return isdigit((unsigned char)base[strlen(base) - 1]) || !strcmp(base, "t") ? "_" : "";
}

// The base with the smallest number that is free. The numbers from 2 to before `next` are not, so that a base
// taken many times is not looked up that often each time.
static const char *numbered(Names *n, const char *base)
{
    uint64_t next = 2;
    map_get_str(&n->next, base, &next);
    const char *joint = joint_of(base), *name = NULL;
    do
        name = arena_printf(n->arena, "%s%s%llu", base, joint, (unsigned long long)next++);
    while (is_taken(n, name) || is_reserved(n, name));
    map_put_str(n->arena, &n->next, base, next);
    return name;
}

const char *names_take(Names *n, const char *hint)
{
    const char *base = base_of(n, hint), *name = is_taken(n, base) ? numbered(n, base) : base;
    map_put_str(n->arena, &n->taken, name, 1);
    vec_push(n->arena, &n->in_scope, name);
    return name;
}

static void lower_next(Names *n, const char *base, size_t len, uint64_t number)
{
    uint64_t next = 0;
    if (map_get(&n->next, base, len, &next) && number < next)
        map_put(n->arena, &n->next, base, len, number);
}

// The number is free again for every base that the name could be made of, whatever its hint was.
static void free_number(Names *n, const char *name)
{
    size_t len = strlen(name);
    while (len && isdigit((unsigned char)name[len - 1]))
        len--;
    const char *digits = name + len;
    if (len == 0 || *digits == 0 || *digits == '0' || strlen(digits) > 18)
        return;
    const uint64_t number = strtoull(digits, NULL, 10);
    if (number < 2)
        return;
    lower_next(n, name, len, number);
    if (name[len - 1] == '_')
        lower_next(n, name, len - 1, number);
}

void names_release(Names *n, uint32_t mark)
{
    rlx_assert(mark <= n->in_scope.len);
    for (uint32_t i = n->in_scope.len; i-- > mark;) {
        map_put_str(n->arena, &n->taken, n->in_scope.data[i], 0);
        free_number(n, n->in_scope.data[i]);
    }
    n->in_scope.len = mark;
}

const char *names_take_temp(Names *n)
{
    return arena_printf(n->arena, "t%u", ++n->n_temps);
}
