// SPDX-License-Identifier: Apache-2.0
// Banks of memory (--bank) in generated code: a block for each, in a section of its own, calls that take one
// block for each, and the lines of a linker script that put the sections where they belong.
#include "codegen/host/host_parts.h"
#include <string.h>

#define SECTION(bank) ((bank)->is_weights ? ".rodata.rlx." : ".bss.rlx.")

bool host_has_banks(const HostEmit *e)
{
    return plan_count_banks(e->plan, false) > 1;
}

// A bank that code reaches by a pointer of its own: all but the first of RAM, and arrays of constants where
// there are several.
static bool is_apart(const Plan *p, const PlanBank *b)
{
    return b != NULL && plan_count_banks(p, b->is_weights) > 1 && (b->is_weights || b->base != 0);
}

const PlanBank *host_bank_apart(const Plan *p, const PlanBuffer *b)
{
    const PlanBank *bank =
        b->region == REGION_ARENA || b->region == REGION_WEIGHTS ? plan_bank_of(p, b) : NULL;
    return bank != NULL && b->bytes != 0 && is_apart(p, bank) ? bank : NULL;
}

uint64_t host_place(const Plan *p, const PlanBuffer *b)
{
    const PlanBank *bank = host_bank_apart(p, b);
    return host_region_base(p, b->region) + b->offset - (bank != NULL ? bank->base : 0);
}

const char *host_bank_pointer(Arena *a, const PlanBank *b)
{
    return arena_printf(a, "%c_%s", b->is_weights ? 'w' : 'a', b->name);
}

// The bank that has what is at the begin of a region: inputs and outputs, or the first constants.
static const PlanBank *first_bank(const Plan *p, bool is_weights)
{
    const PlanBank *first = NULL;
    for (uint32_t i = p->banks.len; i-- > 0;) {
        const PlanBank *b = &p->banks.data[i];
        if (b->is_weights == is_weights && b->base == 0 && (first == NULL || b->bytes != 0))
            first = b;
    }
    return first;
}

uint64_t host_first_bytes(const Plan *p)
{
    const PlanBank *first = first_bank(p, false);
    return first != NULL ? first->bytes : p->region_bytes[REGION_ARENA];
}

// The number of a bank among those of RAM.
static uint32_t slot_of(const Plan *p, const PlanBank *b)
{
    uint32_t n = 0;
    for (const PlanBank *other = p->banks.data; other != b; other++)
        n += !other->is_weights;
    return n;
}

void host_emit_bank_pointer(const HostEmit *e, const PlanBank *b, Str *out)
{
    const char *name = host_bank_pointer(e->arena, b);
    if (b->is_weights && e->weights == WEIGHTS_FILE) { // one block, where machine code is counted
        str_printf(out, "    const unsigned char *const %s = ctx->weights + %llu;\n", name,
                   (unsigned long long)b->base);
        return;
    }
    if (b->is_weights) {
        str_printf(out, "    const unsigned char *const %s = (const unsigned char *)weights_%s;\n", name,
                   b->name);
        return;
    }
    const uint32_t slot = slot_of(e->plan, b);
    str_printf(out,
               "    unsigned char *const %s = ctx->bank[%u] != NULL ? ctx->bank[%u] : ctx->arena + %llu;\n",
               name, slot, slot, (unsigned long long)b->base);
}

// --- blocks --------------------------------------------------------------------------------------

void host_emit_section(const HostEmit *e, const PlanBank *b, Str *out)
{
    if (!*e->has_section)
        str_add(out, "#ifndef RLX_SECTION\n#if defined(__GNUC__) && defined(__ELF__)\n"
                     "#define RLX_SECTION(name) __attribute__((section(name)))\n#else\n"
                     "#define RLX_SECTION(name)\n#endif\n#endif\n\n");
    *e->has_section = true;
    str_printf(out, "RLX_SECTION(\"%s%s\")\n", SECTION(b), b->name);
}

const PlanBank *host_state_bank(const Plan *p)
{
    for (uint32_t i = 0; i < p->banks.len; i++)
        if (p->banks.data[i].state != 0)
            return &p->banks.data[i];
    return first_bank(p, false);
}

// The blocks of --arena static, and the list of them.
void host_emit_bank_blocks(const HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    Str list = str_new(e->arena);
    for (uint32_t i = 0; i < p->banks.len; i++) {
        const PlanBank *b = &p->banks.data[i];
        if (b->is_weights)
            continue;
        if (b->bytes != 0) {
            host_emit_section(e, b, out);
            str_printf(out, "static RLX_ALIGNED unsigned char arena_block_%s[%llu];\n", b->name,
                       (unsigned long long)b->bytes);
            str_printf(&list, "%s{arena_block_%s, sizeof arena_block_%s}", list.len != 0 ? ", " : "", b->name,
                       b->name);
        } else {
            str_printf(&list, "%s{NULL, 0}", list.len != 0 ? ", " : "");
        }
    }
    str_printf(out, "static const rlx_bank arena_blocks[%s_BANKS] = {%s};\n", e->upper, str_text(&list));
}

// NAME_init_banks, and what it has to know.
void host_emit_init_banks(const HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    const char *name = e->options->name;
    uint32_t n = 0;
    if (!host_has_banks(e))
        return;
    str_printf(out, "static const size_t bank_bytes[%s_BANKS] = {", e->upper);
    for (uint32_t i = 0; i < p->banks.len; i++)
        if (!p->banks.data[i].is_weights)
            str_printf(out, "%s%llu", n++ == 0 ? "" : ", ", (unsigned long long)p->banks.data[i].bytes);
    str_printf(out, "};\nstatic const rlx_bank_table bank_table = {%uu, %uu, bank_bytes};\n\n", n,
               slot_of(p, first_bank(p, false)));
    str_printf(out,
               "rlx_status %s_init_banks(rlx_ctx *ctx, const rlx_bank *banks, void *state, size_t "
               "state_bytes)\n{\n    return rlx_init_banks(ctx, &%s_model, &bank_table, banks, state, "
               "state_bytes);\n}\n\n",
               name, name);
}

void host_emit_bank_header(const HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    if (!host_has_banks(e))
        return;
    str_printf(out,
               "\n// Banks of RAM: numbers of their blocks, and bytes of these (0: none is needed).\n"
               "#define %s_BANKS %uu\n",
               e->upper, plan_count_banks(p, false));
    for (uint32_t i = 0; i < p->banks.len; i++) {
        const PlanBank *b = &p->banks.data[i];
        if (b->is_weights)
            continue;
        str_printf(out, "#define %s_BANK_%s %uu%s\n", e->upper, b->name, slot_of(p, b),
                   b->state != 0 ? " // planned with the state block, which has to lie here too" : "");
        str_printf(out, "#define %s_BANK_%s_BYTES %lluu\n", e->upper, b->name, (unsigned long long)b->bytes);
    }
}

void host_emit_bank_prototype(const HostEmit *e, Str *out)
{
    if (host_has_banks(e))
        str_printf(out,
                   "// The same with a block for each bank: banks[%s_BANK_...]. (%s_init takes one block for "
                   "all.)\nrlx_status %s_init_banks(rlx_ctx *ctx, const rlx_bank *banks, void *state, size_t "
                   "state_bytes);\n\n",
                   e->upper, e->options->name, e->options->name);
}

// --- constants -----------------------------------------------------------------------------------

typedef struct Bytes {
    unsigned char *data;
    size_t n;
} Bytes;

static bool keep_bytes(void *ctx, const void *bytes, size_t n)
{
    Bytes *all = ctx;
    memcpy(all->data + all->n, bytes, n);
    all->n += n;
    return true;
}

const char *host_emit_bank_weights(HostEmit *e, const EmittedFile *weights, Str *out)
{
    const Plan *p = e->plan;
    Bytes all = {ARENA_ARRAY(e->arena, unsigned char, weights->len + 1), 0};
    const bool is_one = plan_count_banks(p, true) == 1;
    host_stream(weights, keep_bytes, &all);
    for (uint32_t i = 0; i < p->banks.len; i++) {
        const PlanBank *b = &p->banks.data[i];
        const EmittedFile part = {.data = all.data + b->base, .len = (size_t)b->bytes};
        if (!b->is_weights || b->bytes == 0)
            continue;
        rlx_assert(b->base + b->bytes <= all.n);
        host_emit_section(e, b, out);
        host_emit_words(is_one ? "weights" : arena_printf(e->arena, "weights_%s", b->name), &part, out);
    }
    return is_one ? "weights" : arena_printf(e->arena, "weights_%s", first_bank(p, true)->name);
}

// --- the linker ----------------------------------------------------------------------------------

// Models of a program may have the same bank: the first section of that name has what all of them put into
// it, and ADDR and SIZEOF mean that one.
static void put_copied(const char *bank, const char *section, Str *out)
{
    str_printf(out,
               "/* Start-up code copies rlx_%s_begin .. rlx_%s_end from rlx_%s_load; rlx_load is the region\n"
               "   of flash that has it until then. */\n",
               bank, bank, bank);
    str_printf(out, ".rlx.%s : ALIGN(64) { *(%s%s); . = ALIGN(8); } > %s AT > rlx_load\n", bank, section,
               bank, bank);
    str_printf(out, "rlx_%s_begin = ADDR(.rlx.%s);\nrlx_%s_end = ADDR(.rlx.%s) + SIZEOF(.rlx.%s);\n", bank,
               bank, bank, bank, bank);
    str_printf(out, "rlx_%s_load = LOADADDR(.rlx.%s);\n", bank, bank);
}

const char *host_linker_lines(const HostEmit *e)
{
    const Plan *p = e->plan;
    Str out = str_new(e->arena);
    str_printf(
        &out,
        "/* %s.ld, generated by %s. Where the banks of %s.c lie: write INCLUDE %s.ld into\n"
        "   SECTIONS of the program's linker script, before .bss and .rodata. Its MEMORY has regions of "
        "these\n   names, or other names for its own: REGION_ALIAS(\"%s\", DTCM) */\n",
        e->options->name, e->options->compiler, e->options->name, e->options->name, p->banks.data[0].name);
    for (uint32_t i = 0; i < p->banks.len; i++) {
        const PlanBank *b = &p->banks.data[i];
        if (b->is_copied)
            put_copied(b->name, SECTION(b), &out);
        else
            str_printf(&out, ".rlx.%s%s : ALIGN(64) { *(%s%s) } > %s\n", b->name,
                       b->is_weights ? "" : " (NOLOAD)", SECTION(b), b->name, b->name);
    }
    return str_text(&out);
}
