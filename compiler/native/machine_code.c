// SPDX-License-Identifier: Apache-2.0
// See machine_code.h. The C is emitted once more, for weights that the program maps: how they are packed does
// not change, and neither text nor object has them.
#include "compiler/native/machine_code.h"
#include "compiler/native/native.h"
#include "compiler/system/content_hash.h"
#include "compiler/system/libraries.h"
#include "compiler/system/output.h"
#include "compiler/system/rawfile.h"
#include "compiler/system/tool.h"
#include <string.h>

// --- which compiler ------------------------------------------------------------------------------

// The compiler for CPUs whose names begin like this, where this machine is of another kind.
static const struct {
    const char *cpu, *machine, *compiler;
} cross[] = {{"x86", "x86_64", "x86_64-linux-gnu-gcc"},
             {"armv8", "aarch64", "aarch64-linux-gnu-gcc"},
             {"rv64", "riscv64", "riscv64-linux-gnu-gcc"},
             {"cortex", "arm", "arm-none-eabi-gcc"},
             {"rv32", "riscv32", "riscv64-unknown-elf-gcc"},
             {"esp32-s3", "xtensa", "xtensa-esp32s3-elf-gcc"},
             // Debian's gcc for it has no C library: its headers, which are newlib's, serve any machine.
             {"rv32", "riscv32", "clang --target=riscv32-unknown-elf -isystem /usr/include/newlib"}};

#if defined(__x86_64__)
static const char here[] = "x86_64";
#elif defined(__aarch64__)
static const char here[] = "aarch64";
#elif defined(__riscv) && __riscv_xlen == 64
static const char here[] = "riscv64";
#else
static const char here[] = "";
#endif

static bool is_here(Arena *a, const char *command)
{
    return tool_find(a, tool_of_command(a, command)) != NULL;
}

// The first one of those for the CPU.
const char *machine_code_compiler(const Job *j)
{
    Arena *a = j->cli->arena;
    const char *own = native_compiler();
    if (strcmp(j->cpu.name, "generic") == 0)
        return is_here(a, own) ? own : NULL;
    for (uint32_t i = 0; i < sizeof cross / sizeof *cross; i++) {
        const char *name = strcmp(cross[i].machine, here) == 0 ? own : cross[i].compiler;
        if (strncmp(j->cpu.name, cross[i].cpu, strlen(cross[i].cpu)) == 0 && is_here(a, name))
            return name;
    }
    return NULL;
}

// --- ELF -----------------------------------------------------------------------------------------

static uint64_t number_at(const RawFile *f, uint64_t at, size_t n)
{
    uint64_t value = 0;
    if (n > f->len || at > f->len - n)
        return 0;
    memcpy(&value, f->data + at, n); // of little-endian files, here
    return value;
}

// Sections that are loaded: machine code, and what else has bytes. False: not an object file of ELF.
static bool add_sections(const RawFile *f, MachineCode *out)
{
    enum { NO_BITS = 8, ALLOCATED = 2, EXECUTED = 4, CLASS_64 = 2, LITTLE = 1 };
    if (f->len < 64 || memcmp(f->data, "\177ELF", 4) != 0 || f->data[5] != LITTLE)
        return false;
    const bool is_64 = f->data[4] == CLASS_64;
    const size_t word = is_64 ? 8 : 4;
    const uint64_t table = number_at(f, is_64 ? 0x28 : 0x20, word), n = number_at(f, is_64 ? 0x3c : 0x30, 2);
    const uint64_t row = number_at(f, is_64 ? 0x3a : 0x2e, 2);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = table + i * row, flags = number_at(f, at + 8, word);
        if (number_at(f, at + 4, 4) == NO_BITS || (flags & ALLOCATED) == 0)
            continue;
        *((flags & EXECUTED) != 0 ? &out->code_bytes : &out->const_bytes) +=
            number_at(f, at + (is_64 ? 0x20 : 0x14), word);
    }
    return out->code_bytes != 0;
}

// --- compiling -----------------------------------------------------------------------------------

// Objects are entries of the cache of libraries, and are never loaded.
static const char *object_key(const Job *j, const char *command)
{
    ContentHash *h = content_hash_new(j->cli->arena);
    content_hash_add_text(h, tool_identity(j->cli->arena, command));
    for (uint32_t i = 0; i < j->emitted.files.len; i++)
        if (j->emitted.files.data[i].data != NULL)
            content_hash_add(h, j->emitted.files.data[i].data, j->emitted.files.data[i].len);
    return arena_printf(j->cli->arena, "object-%s", content_hash_text(j->cli->arena, h));
}

static bool compile(Job *j, const char *dir, const char *command, const char *made)
{
    rlx_assert(j->host.parts == 1);
    Arena *a = j->cli->arena;
    Strings argv = {0};
    const char *source = arena_printf(a, "%s.c", j->host.name);
    bool ok = true;
    for (uint32_t i = 0; i < j->emitted.files.len && ok; i++) { // but the weights
        const EmittedFile *f = &j->emitted.files.data[i];
        const FilePart part = {f->data, f->len};
        ok = f->data == NULL || rawfile_write(j->cli->diag, output_path(a, dir, f->name), &part, 1);
    }
    tool_add_command(a, command, &argv);
    native_add_words(a, "-std=gnu99 -w -fno-asynchronous-unwind-tables -c -o", &argv);
    vec_push(a, &argv, made);
    vec_push(a, &argv, source);
    cli_progress("compiling to count machine code");
    return ok && native_start(j, dir, &argv, NULL);
}

// NULL: it could not be made.
static const char *make_object(Job *j, const char *command)
{
    CacheFolder f;
    WorkFolder work;
    if (!libraries_open(j->cli, &f))
        return NULL;
    const char *key = object_key(j, command), *object = libraries_find(&f, key);
    if (object != NULL || !work_folder_make(j->cli->diag, f.path, &work))
        return object;
    const char *made = output_path(j->cli->arena, work.path, "model.o");
    if (compile(j, work.path, command, made))
        object = libraries_keep(j->cli->diag, &f, key, made);
    work_folder_remove(&work);
    return object;
}

static const char *why_not(const Diag *quiet, const char *command)
{
    const DiagItem *first = quiet->items.len != 0 ? &quiet->items.data[0] : NULL;
    if (first == NULL || first->code == E0005) // which says where: that is gone
        return arena_printf(quiet->arena, "`%s` failed", command);
    return first->message;
}

MachineCode machine_code_count(const Job *given)
{
    rlx_assert(given->plan != NULL);
    Arena *a = given->cli->arena;
    MachineCode out = {0};
    RawFile file;
    Diag quiet = diag_new(a);
    Cli cli = *given->cli;
    Job j = *given;
    const char *compiler = machine_code_compiler(given);
    if (given->target->device != DEVICE_HOST)
        return (MachineCode){.unknown = "the kernels are those of a GPU"};
    if (compiler == NULL)
        return (MachineCode){.unknown = arena_printf(a, "no C compiler for %s here", j.cpu.name)};
    cli.diag = &quiet;
    j.cli = &cli;
    j.host.weights = WEIGHTS_FILE;
    j.host.runtime = RUNTIME_PASTED;
    j.host.parts = 1;
    j.host.arena = ARENA_CALLER;
    j.emitted = (Emitted){0};
    const char *space = *j.host.cc_flags != '\0' ? " " : "";
    out.compiler = arena_printf(a, "%s -O3%s%s", compiler, space, j.host.cc_flags);
    const char *object = job_emit(&j) ? make_object(&j, out.compiler) : NULL;
    if (object == NULL)
        return (MachineCode){.unknown = why_not(&quiet, out.compiler)};
    if (!rawfile_peek(a, object, &file) || !add_sections(&file, &out))
        return (MachineCode){.unknown = arena_printf(a, "%s writes no ELF", compiler)};
    return out;
}
