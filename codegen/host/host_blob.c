// SPDX-License-Identifier: Apache-2.0
// Files that a program has in it without being text of C: large constants, taken in by the assembler or, as
// object code, by the linker. Each has its seal behind it, so that one of another compile is noticed.
#include "base/map.h"
#include "codegen/host/host_parts.h"
#include "codegen/host/object.h"
#include <string.h>

WeightsMode host_auto_weights(uint64_t bytes)
{
    return bytes <= HOST_TEXT_MAX_BYTES     ? WEIGHTS_RODATA
           : bytes <= HOST_PROGRAM_MAX_BYTES ? WEIGHTS_INCBIN
                                             : WEIGHTS_FILE;
}

void host_add_file(HostEmit *e, EmittedFile f, EmittedSum *sum)
{
    rlx_assert(f.name != NULL && sum != NULL && sum->file == NULL);
    EmittedFile *own = ARENA_NEW(e->arena, EmittedFile);
    *own = f;
    sum->file = own;
    vec_push(e->arena, &e->out->files, f);
}

// Bytes that are known, with their seal.
static EmittedSum *seal(Arena *a, EmittedFile *f)
{
    const size_t n = (size_t)host_padded_bytes(f->len), all = (size_t)host_sealed_bytes(f->len);
    rlx_assert(f->len != 0 && all == n + 8);
    unsigned char *bytes = ARENA_ARRAY(a, unsigned char, all);
    memcpy(bytes, f->data, f->len);
    const uint64_t hash = hash_bytes64(bytes, n, 0);
    for (uint32_t i = 0; i < 8; i++)
        bytes[n + i] = (unsigned char)(hash >> (8 * i));
    f->data = bytes;
    f->len = all;
    return host_sum_known(a, hash);
}

// The file as object code that defines the symbol.
static EmittedFile as_object(HostEmit *e, EmittedFile f, const char *symbol)
{
    rlx_assert(e->options->object != NULL);
    const ObjectText text = object_text(e->arena, e->options->object, symbol, f.len);
    f.name = arena_printf(e->arena, "%s.o", f.name);
    if (f.data == NULL) {
        f.before = text.before;
        f.behind = text.behind;
    } else {
        char *all = ARENA_ARRAY(e->arena, char, text.before.len + f.len + text.behind.len);
        memcpy(all, text.before.data, text.before.len);
        memcpy(all + text.before.len, f.data, f.len);
        memcpy(all + text.before.len + f.len, text.behind.data, text.behind.len);
        f.data = all;
    }
    f.len += text.before.len + text.behind.len;
    return f;
}

// How assemblers spell it. Large constants lie where no code has to reach them by 32 bits.
static void print_spelling(bool is_large, Str *out)
{
    str_add(out, "#ifndef RLX_SYM\n"
                 "#if defined(__TINYC__) || !(defined(__GNUC__) || defined(__clang__))\n"
                 "#error \"this compiler cannot take files in (.incbin): use rlxc compile --weights object, "
                 "rodata or file\"\n"
                 "#elif defined(__APPLE__)\n#define RLX_SYM \"_\"\n#define RLX_RODATA \".const_data\"\n"
                 "#define RLX_HIDDEN \".private_extern \"\n#define RLX_TEXT \".text\"\n"
                 "#elif defined(_WIN32)\n#if defined(__i386__)\n#define RLX_SYM \"_\"\n#else\n"
                 "#define RLX_SYM \"\"\n#endif\n"
                 "#define RLX_RODATA \".section .rdata,\\\"dr\\\"\"\n#define RLX_HIDDEN \".globl \"\n"
                 "#define RLX_TEXT \".text\"\n"
                 "#else\n#define RLX_SYM \"\"\n#define RLX_RODATA \".section .rodata\"\n"
                 "#define RLX_HIDDEN \".hidden \"\n#define RLX_TEXT \".text\"\n#endif\n#endif\n");
    if (is_large)
        str_add(out, "#undef RLX_LARGE\n#if defined(__x86_64__) && defined(__ELF__)\n"
                     "#define RLX_LARGE \".section .lrodata,\\\"a\\\"\"\n#else\n"
                     "#define RLX_LARGE RLX_RODATA\n#endif\n");
}

static void print_incbin(const char *upper_path, const char *file, const char *symbol, bool is_large,
                         Str *out)
{
    str_printf(out,
               "// %s is taken in by the assembler: compile with -I and its folder, or say where it is with\n"
               "// -D%s='\"/path/%s\"'.\n#ifndef %s\n#define %s \"%s\"\n#endif\n",
               file, upper_path, file, upper_path, upper_path, file);
    print_spelling(is_large, out);
    str_printf(out,
               "__asm__(%s \"\\n.balign 64\\n.globl \" RLX_SYM \"%s\\n\" RLX_HIDDEN RLX_SYM \"%s\\n\"\n"
               "        RLX_SYM \"%s:\\n.incbin \\\"\" %s \"\\\"\\n\" RLX_TEXT \"\\n\");\n",
               is_large ? "RLX_LARGE" : "RLX_RODATA", symbol, symbol, symbol, upper_path);
}

const char *host_emit_blob(HostEmit *e, const char *kind, EmittedFile content)
{
    Str *out = e->blobs;
    const char *name = e->options->name;
    const char *path = arena_printf(e->arena, "%s_%s_PATH", e->upper, host_upper(e->arena, kind));
    const char *symbol = arena_printf(e->arena, "%s_%s_blob", name, kind);
    EmittedSum *sum = content.data != NULL ? seal(e->arena, &content) : content.sum;
    if (content.data == NULL)
        content.len = (size_t)host_sealed_bytes(content.len);
    rlx_assert(content.len > 8 && sum != NULL);
    const TakenFile taken = {symbol, content.len - 8, sum};
    content.name = arena_printf(e->arena, "%s.%s", name, kind);
    vec_push(e->arena, e->taken, taken);
    if (e->options->weights == WEIGHTS_OBJECT) {
        content = as_object(e, content, symbol);
        str_printf(out, "// %s is linked with the program.\n", content.name);
    } else {
        print_incbin(path, content.name, symbol, taken.bytes > HOST_NEAR_MAX_BYTES, out);
    }
    str_printf(out,
               "#ifdef __cplusplus\nextern \"C\" {\n#endif\n"
               "#if defined(__GNUC__) && !defined(_WIN32)\n"
               "extern const unsigned char %s[] __attribute__((visibility(\"hidden\")));\n"
               "#else\nextern const unsigned char %s[];\n#endif\n"
               "#ifdef __cplusplus\n}\n#endif\n\n",
               symbol, symbol);
    host_add_file(e, content, sum);
    return symbol;
}

const char *host_emit_taken(const HostEmit *e, Str *out)
{
    if (e->taken->len == 0)
        return "NULL";
    str_printf(out, "static const rlx_taken taken%s[] = {\n", e->side);
    for (uint32_t i = 0; i < e->taken->len; i++) {
        const TakenFile *t = &e->taken->data[i];
        str_printf(out, "    {%s, %lluu, ", t->symbol, (unsigned long long)t->bytes);
        host_print_sum(e, t->sum, out);
        str_add(out, "},\n");
    }
    str_add(out, "};\n\n");
    return arena_printf(e->arena, "taken%s", e->side);
}

void host_emit_init(const HostEmit *e, Str *out)
{
    const char *name = e->options->name;
    bool is_far = false;
    for (uint32_t i = 0; i < e->taken->len; i++)
        is_far = is_far || e->taken->data[i].bytes > HOST_NEAR_MAX_BYTES;
    str_printf(out,
               "rlx_status %s_init(rlx_ctx *ctx, void *arena, size_t arena_bytes, void *state, size_t "
               "state_bytes)\n{\n",
               name);
    if (is_far)
        str_printf(out,
                   "    const rlx_model *model = &%s_model;\n#ifdef __GNUC__\n"
                   "    __asm__(\"\" : \"+r\"(model));\n#endif\n",
                   name);
    str_printf(out,
               "    return rlx_init(ctx, %s, arena, arena_bytes, state, state_bytes, NULL, 0);\n}\n\n",
               is_far ? "model" : arena_printf(e->arena, "&%s_model", name));
}
