// SPDX-License-Identifier: Apache-2.0
// See object.h. All numbers are little-endian. A file has the headers, the bytes at a multiple of 64, and the
// tables of symbols and names behind them.
#include "codegen/host/object.h"
#include <string.h>

typedef struct Writer {
    const ObjectFormat *format;
    const char *symbol; // with the format's prefix
    uint64_t n;         // of the block
    Str before, behind;
} Writer;

struct ObjectFormat {
    const char *name;
    void (*write)(Writer *w);
    uint32_t machine, flags;
    const char *prefix;
    bool is_here;
};

static void put(Str *s, uint64_t v, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        str_char(s, i < sizeof v ? (char)(unsigned char)(v >> (8 * i)) : '\0');
}

static void put_name(Str *s, const char *name, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        str_char(s, i < strlen(name) ? name[i] : '\0');
}

static void fill(Str *s, size_t to)
{
    while (s->len < to)
        str_char(s, '\0');
}

enum { ALIGN = 64 };

static uint64_t aligned(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

// --- ELF -----------------------------------------------------------------------------------------

// Numbers of a section header after its name.
typedef struct ElfSection {
    uint32_t name, type;
    uint64_t flags, offset, size;
    uint32_t link, info;
    uint64_t align, entry;
} ElfSection;

enum {
    SHT_PROGBITS = 1,
    SHT_SYMTAB = 2,
    SHT_STRTAB = 3,
    SHF_ALLOC = 2,
    SHF_X86_64_LARGE = 0x10000000,
    EM_X86_64 = 62,
    SYMBOL_BITS = 0x11, // global, object
    HIDDEN = 2
};

static void put_section(Str *s, const ElfSection *t, uint32_t word)
{
    put(s, t->name, 4);
    put(s, t->type, 4);
    put(s, t->flags, word);
    put(s, 0, word); // address
    put(s, t->offset, word);
    put(s, t->size, word);
    put(s, t->link, 4);
    put(s, t->info, 4);
    put(s, t->align, word);
    put(s, t->entry, word);
}

static void put_elf_symbol(Writer *w, uint32_t name, uint32_t word)
{
    Str *s = &w->behind;
    put(s, name, 4);
    if (word == 8)
        put(s, SYMBOL_BITS | HIDDEN << 8 | 1 << 16, 4);
    put(s, 0, word);
    put(s, w->n, word);
    if (word == 4)
        put(s, SYMBOL_BITS | HIDDEN << 8 | 1 << 16, 4);
}

static void put_elf_header(Writer *w, uint32_t word, uint64_t sections)
{
    Str *s = &w->before;
    rlx_assert(s->len == 0 && (word == 4 || word == 8));
    put(s, 0x464c457f, 4);
    put(s, 1u << 16 | 1u << 8 | word / 4, 4); // class, little-endian, version
    put(s, 0, 8);
    put(s, 1 | w->format->machine << 16, 4); // relocatable
    put(s, 1, 4);
    put(s, 0, word);
    put(s, 0, word);
    put(s, sections, word);
    put(s, w->format->flags, 4);
    put(s, word == 8 ? 64 : 52, 2);
    put(s, 0, 4); // no program headers
    put(s, word == 8 ? 64 : 40, 2);
    put(s, 5, 2); // sections
    put(s, 3, 2); // the one with names
    fill(s, ALIGN);
}

// Sections: none, the block, symbols, names, and the note that the stack need not be executable.
static void write_elf(Writer *w, uint32_t word)
{
    const bool is_large = w->format->machine == EM_X86_64 && w->n > HOST_NEAR_MAX_BYTES;
    const uint64_t begin = aligned(ALIGN + w->n, 8), symbol = word == 8 ? 24 : 16;
    Str names = str_new(w->behind.arena), *s = &w->behind;
    static const char *const sections[] = {".rodata", ".symtab", ".strtab", ".note.GNU-stack"};
    uint32_t at[4], own = 1;
    put(&names, 0, 1);
    put_name(&names, w->symbol, (uint32_t)strlen(w->symbol) + 1);
    for (uint32_t i = 0; i < 4; i++) {
        const char *name = i == 0 && is_large ? ".lrodata" : sections[i];
        at[i] = (uint32_t)names.len;
        put_name(&names, name, (uint32_t)strlen(name) + 1);
    }
    fill(s, (size_t)(begin - ALIGN - w->n));
    fill(s, s->len + (size_t)symbol); // symbol 0
    put_elf_symbol(w, own, word);
    const uint64_t text = begin + 2 * symbol, end = aligned(text + names.len, 8);
    str_add_n(s, names.data, names.len);
    fill(s, (size_t)(end - ALIGN - w->n));
    const uint64_t flags = is_large ? SHF_ALLOC | SHF_X86_64_LARGE : SHF_ALLOC;
    const ElfSection list[] = {
        {0},
        {at[0], SHT_PROGBITS, flags, ALIGN, w->n, 0, 0, ALIGN, 0},
        {at[1], SHT_SYMTAB, 0, begin, 2 * symbol, 3, 1, 8, symbol},
        {at[2], SHT_STRTAB, 0, text, names.len, 0, 0, 1, 0},
        {at[3], SHT_PROGBITS, 0, end, 0, 0, 0, 1, 0}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        put_section(s, &list[i], word);
    put_elf_header(w, word, end);
}

static void write_elf64(Writer *w)
{
    write_elf(w, 8);
}

static void write_elf32(Writer *w)
{
    write_elf(w, 4);
}

// --- Mach-O --------------------------------------------------------------------------------------

enum { MACHO_SEGMENT = 72 + 80, MACHO_BUILD = 24, MACHO_SYMTAB = 24, MACHO_BEGIN = 256 };

static void put_macho_segment(Writer *w)
{
    Str *s = &w->before;
    put(s, 0x19, 4);
    put(s, MACHO_SEGMENT, 4);
    put_name(s, "", 16);
    put(s, 0, 8);
    put(s, w->n, 8);
    put(s, MACHO_BEGIN, 8);
    put(s, w->n, 8);
    put(s, 7, 4); // protection
    put(s, 7, 4);
    put(s, 1, 4); // sections
    put(s, 0, 4);
    put_name(s, "__const", 16);
    put_name(s, "__TEXT", 16);
    put(s, 0, 8);
    put(s, w->n, 8);
    put(s, MACHO_BEGIN, 4);
    put(s, 6, 4); // 1 << 6: alignment
    put(s, 0, 8); // relocations
    put(s, 0, 16);
}

static void write_macho(Writer *w)
{
    const uint64_t begin = aligned(MACHO_BEGIN + w->n, 8);
    const uint32_t names = (uint32_t)aligned(strlen(w->symbol) + 2, 8);
    Str *s = &w->before, *t = &w->behind;
    put(s, 0xfeedfacf, 4);
    put(s, w->format->machine, 4);
    put(s, w->format->flags & 0xffff, 4);
    put(s, 1, 4); // object
    put(s, 3, 4); // commands
    put(s, MACHO_SEGMENT + MACHO_BUILD + MACHO_SYMTAB, 4);
    put(s, 0x2000, 8); // sections may be divided at symbols
    put_macho_segment(w);
    put(s, 0x32, 4);
    put(s, MACHO_BUILD, 4);
    put(s, w->format->flags >> 16, 4); // platform
    put(s, 11 << 16, 4);               // from version 11.0 on
    put(s, 0, 8);
    put(s, 2, 4);
    put(s, MACHO_SYMTAB, 4);
    put(s, begin, 4);
    put(s, 1, 4);
    put(s, begin + 16, 4);
    put(s, names, 4);
    fill(s, MACHO_BEGIN);
    fill(t, (size_t)(begin - MACHO_BEGIN - w->n));
    put(t, 1, 4);      // name
    put(t, 0x011f, 4); // in section 1, external and private
    put(t, 0, 8);
    const size_t end = t->len + names;
    put(t, 0, 1);
    str_add(t, w->symbol);
    fill(t, end);
}

// --- COFF ----------------------------------------------------------------------------------------

enum { COFF_SECTION = 0x40000040 | 7 << 20 }; // read-only data, aligned to 64 bytes

static void write_coff(Writer *w)
{
    const uint64_t begin = aligned(ALIGN + w->n, 4);
    const uint32_t n = (uint32_t)strlen(w->symbol) + 1;
    Str *s = &w->before, *t = &w->behind;
    put(s, w->format->machine | 1u << 16, 4); // one section
    put(s, 0, 4);
    put(s, begin, 4);
    put(s, 1, 8); // symbols
    put_name(s, ".rdata", 8);
    put(s, 0, 8);
    put(s, w->n, 4);
    put(s, ALIGN, 4);
    put(s, 0, 12);
    put(s, COFF_SECTION, 4);
    fill(s, ALIGN);
    fill(t, (size_t)(begin - ALIGN - w->n));
    put(t, 0, 4); // the name is in the table behind
    put(t, 4, 4);
    put(t, 0, 4);
    put(t, 1, 4); // section 1
    put(t, 2, 2); // external
    put(t, 4 + n, 4);
    put_name(t, w->symbol, n);
}

// --- the table -----------------------------------------------------------------------------------

#if defined(__APPLE__)
#define IS_MACHO 1
#define IS_ELF 0
#else
#define IS_MACHO 0
#define IS_ELF 1
#endif
#if defined(__x86_64__)
#define IS_X86_64 1
#else
#define IS_X86_64 0
#endif
#if defined(__aarch64__)
#define IS_AARCH64 1
#else
#define IS_AARCH64 0
#endif
#if defined(__riscv) && __riscv_xlen == 64
#define IS_RISCV64 1
#else
#define IS_RISCV64 0
#endif

static const ObjectFormat formats[] = {
#define OBJECT(name, write, machine, flags, prefix, when) {name, write, machine, flags, prefix, when},
#include "codegen/host/objects.def"
#undef OBJECT
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

const ObjectFormat *object_find(const char *name)
{
    for (size_t i = 0; i < N_FORMATS; i++)
        if (name == NULL ? formats[i].is_here : strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

const char *object_names(Arena *a)
{
    Str s = str_new(a);
    for (size_t i = 0; i < N_FORMATS; i++)
        str_printf(&s, "%s%s", i == 0 ? "" : ", ", formats[i].name);
    return str_text(&s);
}

uint64_t object_most_bytes(const ObjectFormat *f)
{
    return f->write == write_elf64 ? INT64_MAX / 2 : INT32_MAX - (1 << 16);
}

ObjectText object_text(Arena *a, const ObjectFormat *f, const char *symbol, uint64_t n)
{
    Writer w = {.format = f,
                .symbol = arena_printf(a, "%s%s", f->prefix, symbol),
                .n = n,
                .before = str_new(a),
                .behind = str_new(a)};
    rlx_assert(n <= object_most_bytes(f));
    f->write(&w);
    return (ObjectText){{w.before.data, w.before.len}, {w.behind.data, w.behind.len}};
}
