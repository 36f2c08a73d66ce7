// SPDX-License-Identifier: Apache-2.0
// See emulate.h.
#include "compiler/board/emulate.h"
#include "compiler/board/board_text.h"
#include "compiler/native/machine_code.h"
#include "compiler/native/native.h"
#include "compiler/system/content_hash.h"
#include "compiler/system/libraries.h"
#include "compiler/system/output.h"
#include "compiler/system/rawfile.h"
#include "compiler/system/tool.h"
#include <stdlib.h>
#include <string.h>

typedef struct Emulated {
    const char *cpu, *emulator, *machine;
    uint64_t flash_at, flash_bytes, ram_at, ram_bytes;
    const char *cc_more;
} Emulated;

static const Emulated emulated[] = {
#define EMULATED(...) {__VA_ARGS__},
#include "compiler/board/emulators.def"
#undef EMULATED
};

static const struct {
    const char *name;
    const char *const *lines;
} texts[] = {{"count.c", board_count_c},
             {"main.c", board_run_c},
             {"start.c", board_start_c},
             {"start.h", board_start_h},
             {"board.ld", board_linker}};
enum { N_TEXTS = sizeof texts / sizeof *texts };

static const Emulated *find_row(const char *cpu)
{
    for (uint32_t i = 0; i < sizeof emulated / sizeof *emulated; i++)
        if (strcmp(emulated[i].cpu, cpu) == 0)
            return &emulated[i];
    return NULL;
}

const char *board_cc_options(const char *cpu)
{
    const Emulated *row = find_row(cpu);
    return row != NULL ? row->cc_more : "";
}

const BoardFunction *board_function(const BoardCounts *c, const char *function)
{
    for (uint32_t i = 0; i < c->functions.len; i++)
        if (strcmp(c->functions.data[i].name, function) == 0)
            return &c->functions.data[i];
    return NULL;
}

// --- the program ---------------------------------------------------------------------------------

typedef struct Emulation {
    Job *job; // a copy, with options and messages of its own
    const Emulated *row;
    const char *compiler; // command with its options
} Emulation;

static const char *text_of(Arena *a, const char *const *lines)
{
    Str s = str_new(a);
    for (; *lines != NULL; lines++)
        str_add(&s, *lines);
    return str_text(&s);
}

static const char *key_of(const Emulation *e)
{
    Arena *a = e->job->cli->arena;
    ContentHash *h = content_hash_new(a);
    const char *const commands[] = {e->compiler, native_compiler(), e->row->emulator};
    for (uint32_t i = 0; i < sizeof commands / sizeof *commands; i++)
        content_hash_add_text(h, tool_identity(a, commands[i]));
    for (uint32_t i = 0; i < N_TEXTS; i++)
        content_hash_add_text(h, text_of(a, texts[i].lines));
    rlx_assert(e->job->emitted.files.len != 0 && e->job->host.weights == WEIGHTS_RODATA); // all of it is text
    for (uint32_t i = 0; i < e->job->emitted.files.len; i++)
        content_hash_add(h, e->job->emitted.files.data[i].data, e->job->emitted.files.data[i].len);
    return arena_printf(a, "counts-%s", content_hash_text(a, h));
}

static bool write_texts(const Emulation *e, const char *dir)
{
    bool ok = job_write(e->job, dir);
    for (uint32_t i = 0; i < N_TEXTS && ok; i++) {
        const char *text = text_of(e->job->cli->arena, texts[i].lines);
        ok = rawfile_write_text(e->job->cli->diag, output_path(e->job->cli->arena, dir, texts[i].name), text);
    }
    return ok;
}

static bool start(const Emulation *e, const char *dir, const char *command, const char *words)
{
    Strings argv = {0};
    tool_add_command(e->job->cli->arena, command, &argv);
    native_add_words(e->job->cli->arena, words, &argv);
    return native_start(e->job, dir, &argv, NULL);
}

// What run.c needs to know of an input that comes row by row.
static const char *rows_words(const Emulation *e)
{
    const Plan *p = e->job->plan;
    if (p->rows.input == 0)
        return "";
    rlx_assert(p->rows.input <= p->inputs.len && p->rows.n_rows > 0);
    rlx_assert(p->inputs.data[p->rows.input - 1].bytes % (uint64_t)p->rows.n_rows == 0);
    return arena_printf(e->job->cli->arena, "-DROWS=%lld -DROW_BYTES=%llu", (long long)p->rows.n_rows,
                        (unsigned long long)p->inputs.data[p->rows.input - 1].bytes /
                            (unsigned long long)p->rows.n_rows);
}

static bool link_program(const Emulation *e, const char *dir)
{
    const bool is_arm = strncmp(e->row->cpu, "cortex", 6) == 0; // whose compilers bring newlib
    const bool is_clang = strncmp(e->compiler, "clang", 5) == 0;
    const char *words = arena_printf(
        e->job->cli->arena,
        "-std=gnu99 -w %s -I. -ffunction-sections -fdata-sections main.c start.c net.c -nostartfiles %s "
        "-Wl,--gc-sections -T board.ld -Wl,--defsym=flash_at=%llu,--defsym=flash_bytes=%llu,"
        "--defsym=ram_at=%llu,--defsym=ram_bytes=%llu %s -o net.elf",
        rows_words(e),
        is_arm     ? "--specs=nano.specs"
        : is_clang ? "-nostdlib -fuse-ld=lld"
                   : "-nostdlib",
        (unsigned long long)e->row->flash_at, (unsigned long long)e->row->flash_bytes,
        (unsigned long long)e->row->ram_at, (unsigned long long)e->row->ram_bytes,
        is_arm     ? "-lm"
        : is_clang ? ""
                   : "-lgcc");
    return start(e, dir, e->compiler, words);
}

static bool emulate(const Emulation *e, const char *dir)
{
    const char *words = arena_printf(
        e->job->cli->arena,
        "-M %s %s -display none -monitor none -serial none -chardev file,id=said,path=said "
        "-semihosting-config enable=on,target=native,chardev=said -plugin ./count.so,out=counts,model=%s "
        "-chardev file,id=version,path=version -mon chardev=version,mode=control -kernel net.elf",
        e->row->machine, strncmp(e->row->cpu, "rv32", 4) == 0 ? "-bios none" : "", e->row->cpu);
    cli_progress("counting instructions");
    return start(e, dir, e->row->emulator, words);
}

// What QEMU greets its monitor with, what the program said and what was counted, as one file.
static bool join(const Emulation *e, const char *dir, const char *made)
{
    static const char *const names[] = {"version", "said", "counts"};
    Arena *a = e->job->cli->arena;
    FilePart parts[3];
    for (uint32_t i = 0; i < 3; i++) {
        RawFile f;
        if (!rawfile_peek(a, output_path(a, dir, names[i]), &f))
            return false;
        parts[i] = (FilePart){f.data, f.len};
    }
    return rawfile_write(e->job->cli->diag, made, parts, 3);
}

// The file with the counts. NULL: it could not be made.
static const char *make_counts(const Emulation *e)
{
    CacheFolder f;
    WorkFolder work;
    if (!libraries_open(e->job->cli, &f))
        return NULL;
    const char *key = key_of(e), *found = libraries_find(&f, key);
    if (found != NULL || !work_folder_make(e->job->cli->diag, f.path, &work))
        return found;
    const char *made = output_path(e->job->cli->arena, work.path, "joined");
    cli_progress("compiling for an emulated board");
    if (write_texts(e, work.path) && link_program(e, work.path) &&
        start(e, work.path, native_compiler(), "-O2 -w -shared -fPIC count.c -o count.so") &&
        emulate(e, work.path) && join(e, work.path, made))
        found = libraries_keep(e->job->cli->diag, &f, key, made);
    work_folder_remove(&work);
    return found;
}

// --- what was counted ----------------------------------------------------------------------------

// "k3_conv.isra.0" is k3_conv, of which several parts may have been made.
static BoardFunction *function_of(Arena *a, BoardCounts *out, const char *name, size_t len)
{
    const char *dot = memchr(name, '.', len);
    const char *plain = arena_strndup(a, name, dot != NULL && dot != name ? (size_t)(dot - name) : len);
    for (uint32_t i = 0; i < out->functions.len; i++)
        if (strcmp(out->functions.data[i].name, plain) == 0)
            return &out->functions.data[i];
    vec_push(a, &out->functions, ((BoardFunction){.name = plain}));
    return &out->functions.data[out->functions.len - 1];
}

static uint64_t number_behind(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    return at != NULL ? strtoull(at + strlen(word), NULL, 10) : 0;
}

// {"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7} ..., then "stack 192" and "cc 12.2.1
// 20221205" on lines of their own. The rest is what count.c wrote.
static const char *read_said(Arena *a, const char *text, const Emulation *e, BoardCounts *out)
{
    const char *stack = strstr(text, "stack "), *cc = stack != NULL ? strstr(stack, "\ncc ") : NULL;
    if (cc == NULL)
        return "";
    cc += strlen("\ncc ");
    const size_t len = strcspn(cc, "\n");
    out->stack_bytes = number_behind(stack, "stack ");
    out->how = arena_printf(a, "%s, %s", e->row->emulator, e->compiler);
    out->versions = arena_printf(a, "QEMU %llu.%llu.%llu, compiler %.*s",
                                 (unsigned long long)number_behind(text, "\"major\": "),
                                 (unsigned long long)number_behind(text, "\"minor\": "),
                                 (unsigned long long)number_behind(text, "\"micro\": "), (int)len, cc);
    return cc + len;
}

// Lines of count.c, of the phase between the two marks.
static void read_counts(Arena *a, const char *text, BoardCounts *out)
{
    enum { PHASE, INSNS, CYCLES, CALLS, N_NUMBERS };
    char *at = (char *)(uintptr_t)text;
    while (*at != '\0') {
        uint64_t number[N_NUMBERS];
        at += strspn(at, "\n");
        for (uint32_t i = 0; i < N_NUMBERS; i++)
            number[i] = strtoull(at, &at, 10);
        at += strspn(at, " ");
        const size_t len = strcspn(at, "\n");
        if (number[PHASE] == 1 && len != 0) {
            BoardFunction *f = function_of(a, out, at, len);
            f->insns += number[INSNS];
            f->cycles += number[CYCLES];
            f->calls = number[CALLS] > f->calls ? number[CALLS] : f->calls;
            out->insns += number[INSNS];
            out->cycles += number[CYCLES];
        }
        at += len;
    }
}

static void count_operations(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)p;
    *(uint64_t *)ctx += k->flops * times;
}

static const char *why_not(const Job *j, const Emulated *row, const char *compiler)
{
    enum { LONGEST = 1 << 30, MORE_RAM = 8 << 10 }; // operations; stack, and what start.c has
    Arena *a = j->cli->arena;
    const uint64_t ram = j->emitted.arena_bytes + j->emitted.state_bytes;
    if (row == NULL)
        return arena_printf(a, "there is no emulated board for %s", j->cpu.name);
    if (compiler == NULL)
        return arena_printf(a, "no C compiler for %s here", j->cpu.name);
    if (tool_find(a, row->emulator) == NULL)
        return arena_printf(a, "there is no %s here", row->emulator);
    if (ram + MORE_RAM > row->ram_bytes || j->emitted.weight_bytes > row->flash_bytes / 8 * 7)
        return arena_printf(a, "it does not fit into the memory of %s", row->machine);
    uint64_t operations = 0;
    plan_walk(j->plan, count_operations, &operations);
    return operations > LONGEST ? "a run has too many operations to emulate it" : NULL;
}

BoardCounts board_count(const Job *given)
{
    rlx_assert(given->plan != NULL);
    Arena *a = given->cli->arena;
    RawFile file;
    Diag quiet = diag_new(a);
    Cli cli = *given->cli;
    Job j = *given;
    const char *compiler = machine_code_compiler(given);
    const Emulated *row = find_row(j.cpu.name);
    BoardCounts out = {.unknown = why_not(given, row, compiler)};
    if (out.unknown != NULL)
        return out;
    cli.diag = &quiet;
    j.cli = &cli;
    j.host.name = "net";
    j.host.weights = WEIGHTS_RODATA;
    j.host.is_one_file = true;
    j.host.runtime = RUNTIME_PASTED;
    j.host.parts = 1;
    j.host.arena = ARENA_STATIC;
    j.emitted = (Emitted){0};
    const char *space = *row->cc_more != '\0' ? " " : "";
    const Emulation e = {&j, row,
                         arena_printf(a, "%s -O3 %s%s%s", compiler, j.host.cc_flags, space, row->cc_more)};
    const char *counts = job_emit(&j) ? make_counts(&e) : NULL;
    if (counts == NULL || !rawfile_peek(a, counts, &file))
        return (BoardCounts){.unknown = arena_printf(a, "`%s` or %s failed", e.compiler, row->emulator)};
    read_counts(a, read_said(a, arena_strndup(a, file.data, file.len), &e, &out), &out);
    if (out.insns == 0)
        out.unknown = "the run counted nothing";
    return out;
}
