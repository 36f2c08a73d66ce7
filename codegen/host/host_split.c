// SPDX-License-Identifier: Apache-2.0
// See host_split.h.
#include "codegen/host/host_split.h"
#include "codegen/host/host_parts.h"
#include <stdlib.h>
#include <string.h>

static int longest_first(const void *a, const void *b)
{
    const HostFunction *x = *(const HostFunction *const *)a, *y = *(const HostFunction *const *)b;
    if (x->len != y->len)
        return x->len > y->len ? -1 : 1;
    return x < y ? -1 : x > y;
}

// The longest first, each to the part that is shortest so far.
void host_split_share(Arena *a, HostFunctions *f, uint32_t parts)
{
    const uint32_t n = f->list.len;
    HostFunction **order = ARENA_ARRAY(a, HostFunction *, n + 1);
    uint64_t *length = ARENA_ARRAY(a, uint64_t, parts + 2);
    for (uint32_t i = 0; i < n; i++)
        order[i] = &f->list.data[i];
    if (n != 0)
        qsort(order, n, sizeof *order, longest_first);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t least = 1;
        for (uint32_t part = 2; part <= parts; part++)
            if (length[part] < length[least])
                least = part;
        order[i]->part = least;
        length[least] += order[i]->len;
    }
}

void host_split_open(const char *upper, uint32_t parts, uint32_t part, Str *out)
{
    if (parts > 1)
        str_printf(out, "#if defined(%s_WHOLE) || %s_PART == %u\n", upper, upper, part);
}

void host_split_close(uint32_t parts, Str *out)
{
    if (parts > 1)
        str_add(out, "#endif\n");
}

void host_split_print(const HostFunctions *f, const char *upper, uint32_t parts, Str *out)
{
    uint32_t open = 0; // the part that is open
    for (uint32_t i = 0; i < f->list.len; i++) {
        const HostFunction *fn = &f->list.data[i];
        rlx_assert(fn->part >= 1 && fn->part <= (parts > 1 ? parts : 1));
        if (parts > 1 && fn->part != open) {
            if (open != 0)
                host_split_close(parts, out);
            host_split_open(upper, parts, fn->part, out);
            open = fn->part;
        }
        str_add_n(out, fn->text, fn->len);
        str_char(out, '\n');
    }
    if (open != 0)
        host_split_close(parts, out);
}

void host_split_begin(const char *name, const char *upper, uint32_t parts, Str *out)
{
    if (parts <= 1)
        return;
    str_printf(out,
               "// The kernels are in %u parts: compiled as it is, this file has part 1 and all that is no "
               "kernel;\n// %s_2.c ... have the others. -D%s_WHOLE: all of it in one.\n",
               parts, name, upper);
    str_printf(out, "#ifndef %s_PART\n#define %s_PART 1\n#endif\n", upper, upper);
}

void host_split_prototypes(const HostFunctions *f, const char *upper, uint32_t parts, Str *out)
{
    if (parts <= 1)
        return;
    str_printf(out, "#ifndef %s_WHOLE\n#undef RLX_KERNEL\n", upper);
    str_add(out, "#if defined(__GNUC__) && !defined(__clang__)\n"
                 "#define RLX_NO_COMMONING __attribute__((optimize(\"no-predictive-commoning\")))\n"
                 "#else\n#define RLX_NO_COMMONING\n#endif\n"
                 "#if defined(__GNUC__) && !defined(_WIN32)\n"
                 "#define RLX_KERNEL RLX_NO_COMMONING __attribute__((noinline, visibility(\"hidden\")))\n"
                 "#elif defined(__GNUC__)\n#define RLX_KERNEL RLX_NO_COMMONING __attribute__((noinline))\n"
                 "#else\n#define RLX_KERNEL\n#endif\n");
    for (uint32_t i = 0; i < f->list.len; i++)
        str_printf(out, "%s;\n", f->list.data[i].signature);
    str_add(out, "#endif\n\n");
}

const char *host_split_names(Arena *a, const char *name, uint32_t parts)
{
    Str out = str_new(a);
    for (uint32_t part = 2; part <= parts; part++)
        str_printf(&out, " %s_%u.c", name, part);
    return str_text(&out);
}

void host_split_files(Arena *a, const char *name, const char *upper, uint32_t parts, Emitted *out)
{
    for (uint32_t part = 2; part <= parts; part++) {
        const char *text = arena_printf(
            a, "// Part %u of %s.c. Do not edit.\n#define %s_PART %u\n#include \"%s.c\"\n", part, name, upper,
            part, name);
        vec_push(a, &out->files,
                 ((EmittedFile){.name = arena_printf(a, "%s_%u.c", name, part),
                                .data = text,
                                .len = strlen(text),
                                .part = part}));
    }
}

const char *host_whole_define(Arena *a, const char *name)
{
    return arena_printf(a, "%s_WHOLE", host_upper(a, name));
}
