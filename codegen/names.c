// SPDX-License-Identifier: Apache-2.0
// Names in emitted text.
#include "codegen/names.h"
#include "ir/kernel.h"

#include <ctype.h>
#include <string.h>

enum { MAX_HINT = 32 };

// Words of any of the languages that look like a hint could. Blanks on both sides of each.
static const char reserved[] =
    " alignas alignof and and_eq asm atomic auto bitand bitor bool break buffer case catch centroid"
    " char class coherent compl concept const const_cast constant constexpr continue decltype default"
    " delete device discard do double dynamic_cast else enum explicit export extern false fixed flat"
    " float for fragment friend global goto half if image in inline inout input int invariant kernel"
    " layout long lowp main mediump metal mutable namespace new noexcept noperspective not not_eq"
    " nullptr operator or or_eq out output packed patch precise precision private protected public"
    " readonly register resource restrict return sample sampler shared short signed sizeof smooth"
    " static static_assert struct subroutine superp switch template texture this thread thread_local"
    " threadgroup throw true try typedef typeid typename typeof uint uniform union unsigned using"
    " vector varying vertex virtual void volatile wchar_t while writeonly xor xor_eq ";

static bool is_reserved(const char *name)
{
    KOp op;
    if (kop_parse(name, strlen(name), &op) || !strncmp(name, "rlx_", 4))
        return true;
    char padded[MAX_HINT + 16];
    snprintf(padded, sizeof padded, " %s ", name);
    if (strstr(reserved, padded))
        return true;
    // The temporaries.
    return name[0] == 't' && name[1] && strspn(name + 1, "0123456789") == strlen(name + 1);
}

static bool is_taken(const Names *n, const char *name)
{
    for (uint32_t i = n->in_scope.len; i-- > 0;)
        if (!strcmp(n->in_scope.data[i], name))
            return true;
    return false;
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

const char *names_take(Names *n, const char *hint)
{
    const char *base = clean(n->arena, hint ? hint : "v"), *name = base;
    if (is_reserved(name))
        name = base = arena_printf(n->arena, "%s_", base);
    if (is_taken(n, name)) {
        uint32_t i = 2;
        const char *joint = isdigit((unsigned char)base[strlen(base) - 1]) ? "_" : "";
        do
            name = arena_printf(n->arena, "%s%s%u", base, joint, i++);
        while (is_taken(n, name) || is_reserved(name));
    }
    vec_push(n->arena, &n->in_scope, name);
    return name;
}

const char *names_take_temp(Names *n)
{
    return arena_printf(n->arena, "t%u", ++n->n_temps);
}
