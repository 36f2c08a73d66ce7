// SPDX-License-Identifier: Apache-2.0
// See machine_code.h. The C is emitted once more, for weights that the program maps: how they are packed does
// not change, and neither text nor object has them.
#include "compiler/native/machine_code.h"
#include "compiler/native/native.h"
#include "compiler/system/content_hash.h"
#include "compiler/system/json_text.h"
#include "compiler/system/libraries.h"
#include "compiler/system/output.h"
#include "compiler/system/rawfile.h"
#include "compiler/system/tool.h"
#include <string.h>

// Of gcc from version 10 on.
#define GRAPH_OPTION "-fcallgraph-info=su"

// --- which compiler ------------------------------------------------------------------------------

// The compiler for CPUs whose names begin like this, where this machine is of another kind.
static const struct {
    const char *cpu, *machine, *compiler;
} cross[] = {{"x86", "x86_64", "x86_64-linux-gnu-gcc"},
             {"zen", "x86_64", "x86_64-linux-gnu-gcc"},
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

typedef struct Section {
    uint64_t name, type, flags, at, bytes;
} Section;

static Section section_at(const RawFile *f, uint64_t i)
{
    enum { CLASS_64 = 2 };
    const bool is_64 = f->data[4] == CLASS_64;
    const size_t word = is_64 ? 8 : 4;
    const uint64_t table = number_at(f, is_64 ? 0x28 : 0x20, word),
                   row = number_at(f, is_64 ? 0x3a : 0x2e, 2), at = table + i * row;
    return (Section){.name = number_at(f, at, 4),
                     .type = number_at(f, at + 4, 4),
                     .flags = number_at(f, at + 8, word),
                     .at = number_at(f, at + (is_64 ? 0x18 : 0x10), word),
                     .bytes = number_at(f, at + (is_64 ? 0x20 : 0x14), word)};
}

// "GCC: (15:12.2.rel1-1) 12.2.1 20221205".
static const char *version_of(Arena *a, const RawFile *f, const Section *s)
{
    const bool is_inside = s->at <= f->len && s->bytes <= f->len - s->at;
    const char *text = is_inside ? arena_strndup(a, f->data + s->at, s->bytes) : "";
    return s->bytes > 0 && is_inside && text[0] == '\0' ? arena_strndup(a, f->data + s->at + 1, s->bytes - 1)
                                                        : text;
}

static bool is_named(const RawFile *f, const Section *names, const Section *s, const char *name)
{
    const uint64_t at = names->at + s->name, n = strlen(name) + 1;
    return at < f->len && n <= f->len - at && memcmp(f->data + at, name, n) == 0;
}

// Sections that are loaded, by what they are. False: not an object file of ELF.
static bool add_sections(Arena *a, const RawFile *f, MachineCode *out)
{
    enum { NO_BITS = 8, WRITTEN = 1, ALLOCATED = 2, EXECUTED = 4, CLASS_64 = 2, LITTLE = 1 };
    if (f->len < 64 || memcmp(f->data, "\177ELF", 4) != 0 || f->data[5] != LITTLE)
        return false;
    const bool is_64 = f->data[4] == CLASS_64;
    const uint64_t n = number_at(f, is_64 ? 0x3c : 0x30, 2);
    const Section names = section_at(f, number_at(f, is_64 ? 0x3e : 0x32, 2));
    out->version = "";
    for (uint64_t i = 0; i < n; i++) {
        const Section s = section_at(f, i);
        const bool is_bss = s.type == NO_BITS, is_code = (s.flags & EXECUTED) != 0;
        const uint64_t bytes = (s.flags & ALLOCATED) != 0 ? s.bytes : 0;
        *(is_bss ? &out->bss_bytes : is_code ? &out->code_bytes : &out->const_bytes) += bytes;
        out->data_bytes += !is_bss && !is_code && (s.flags & WRITTEN) != 0 ? bytes : 0;
        if (is_named(f, &names, &s, ".comment"))
            out->version = version_of(a, f, &s);
    }
    return out->code_bytes != 0;
}

// --- compiling -----------------------------------------------------------------------------------

// Objects are entries of the cache of libraries, and are never loaded; so are their graphs of calls.
static const char *hash_of(const Job *j, const char *command)
{
    ContentHash *h = content_hash_new(j->cli->arena);
    content_hash_add_text(h, tool_identity(j->cli->arena, command));
    for (uint32_t i = 0; i < j->emitted.files.len; i++)
        if (j->emitted.files.data[i].data != NULL)
            content_hash_add(h, j->emitted.files.data[i].data, j->emitted.files.data[i].len);
    return content_hash_text(j->cli->arena, h);
}

static bool write_text(Job *j, const char *dir, const char *name, const char *text)
{
    return rawfile_write_text(j->cli->diag, output_path(j->cli->arena, dir, name), text);
}

// run.c is what a program does that runs the model.
static bool write_sources(Job *j, const char *dir)
{
    rlx_assert(j->host.parts == 1);
    Arena *a = j->cli->arena;
    bool ok = true;
    for (uint32_t i = 0; i < j->emitted.files.len && ok; i++) { // but the weights
        const EmittedFile *f = &j->emitted.files.data[i];
        const FilePart part = {f->data, f->len};
        ok = f->data == NULL || rawfile_write(j->cli->diag, output_path(a, dir, f->name), &part, 1);
    }
    return ok && write_text(j, dir, "run.c",
                            arena_printf(a,
                                         "#include \"%s.h\"\n"
                                         "rlx_status run(rlx_ctx *ctx)\n{\n    return rlx_run(ctx);\n}\n",
                                         j->host.name));
}

// To NAME.o in the folder; more: options.
static bool compile(Job *j, const char *dir, const char *command, const char *source, const char *more)
{
    Arena *a = j->cli->arena;
    Strings argv = {0};
    tool_add_command(a, command, &argv);
    native_add_words(a, "-std=gnu99 -w -fno-asynchronous-unwind-tables -c", &argv);
    native_add_words(a, more, &argv);
    vec_push(a, &argv, arena_printf(a, "%s.c", source));
    vec_push(a, &argv, "-o");
    vec_push(a, &argv, arena_printf(a, "%s.o", source));
    return native_start(j, dir, &argv, NULL);
}

// A cache of compilers (ccache) keeps no graphs: it does not know what is compiled with a name of this
// folder.
static bool compile_graph(Job *j, const WorkFolder *work, const char *command, const char *source, Str *graph)
{
    Arena *a = j->cli->arena;
    const char *path = output_path(a, work->path, arena_printf(a, "%s.ci", source));
    const char *name = strrchr(work->path, '/');
    RawFile file;
    bool ok = compile(j, work->path, command, source, GRAPH_OPTION);
    if (ok && !rawfile_peek(a, path, &file)) {
        const char *more = arena_printf(a, "%s -Drlx_in_%s", GRAPH_OPTION, name != NULL ? name + 1 : "it");
        ok = compile(j, work->path, command, source, more) && rawfile_peek(a, path, &file);
    }
    if (ok)
        str_printf(graph, "%.*s\n", (int)file.len, file.data);
    return ok;
}

typedef struct Made {
    const char *object, *graph; // files
} Made;

static void make(Job *j, const WorkFolder *work, const char *command, Made *made)
{
    Arena *a = j->cli->arena;
    Str graph = str_new(a);
    cli_progress("compiling to count machine code");
    if (!write_sources(j, work->path))
        return;
    if (!compile_graph(j, work, command, j->host.name, &graph) ||
        !compile_graph(j, work, command, "run", &graph)) {
        graph = str_new(a); // this compiler makes none
        if (!compile(j, work->path, command, j->host.name, ""))
            return;
    }
    made->object = output_path(a, work->path, arena_printf(a, "%s.o", j->host.name));
    made->graph = output_path(a, work->path, "graph");
    if (!write_text(j, work->path, "graph", arena_printf(a, "calls\n%s", str_text(&graph))))
        *made = (Made){0};
}

// Nothing: it could not be made.
static Made make_object(Job *j, const char *command)
{
    CacheFolder f;
    WorkFolder work;
    Arena *a = j->cli->arena;
    if (!libraries_open(j->cli, &f))
        return (Made){0};
    const char *hash = hash_of(j, command), *object = arena_printf(a, "object-%s", hash),
               *graph = arena_printf(a, "calls-%s", hash);
    Made made = {libraries_find(&f, object), libraries_find(&f, graph)};
    if (made.object != NULL && made.graph != NULL)
        return made;
    made = (Made){0};
    if (!work_folder_make(j->cli->diag, f.path, &work))
        return made;
    make(j, &work, command, &made);
    if (made.object != NULL) {
        made.object = libraries_keep(j->cli->diag, &f, object, made.object);
        made.graph = libraries_keep(j->cli->diag, &f, graph, made.graph);
    }
    work_folder_remove(&work);
    return made;
}

static const char *why_not(const Diag *quiet, const char *command)
{
    const DiagItem *first = quiet->items.len != 0 ? &quiet->items.data[0] : NULL;
    if (first == NULL || first->code == E0005) // which says where: that is gone
        return arena_printf(quiet->arena, "`%s` failed", command);
    return first->message;
}

static const char *text_of(const Job *j, const char *name)
{
    for (uint32_t i = 0; i < j->emitted.files.len; i++) {
        const EmittedFile *f = &j->emitted.files.data[i];
        if (f->data != NULL && strcmp(f->name, name) == 0)
            return arena_strndup(j->cli->arena, f->data, f->len);
    }
    return "";
}

MachineCode machine_code_count(const Job *given, const char *more)
{
    rlx_assert(given->plan != NULL);
    Arena *a = given->cli->arena;
    MachineCode out = {0};
    RawFile file, graph;
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
    out.compiler = arena_printf(a, "%s -O3%s%s%s%s", compiler, *j.host.cc_flags != '\0' ? " " : "",
                                j.host.cc_flags, *more != '\0' ? " " : "", more);
    const Made made = job_emit(&j) ? make_object(&j, out.compiler) : (Made){0};
    if (made.object == NULL || made.graph == NULL)
        return (MachineCode){.unknown = why_not(&quiet, out.compiler)};
    if (!rawfile_peek(a, made.object, &file) || !add_sections(a, &file, &out))
        return (MachineCode){.unknown = arena_printf(a, "%s writes no ELF", compiler)};
    if (!rawfile_peek(a, made.graph, &graph))
        return (MachineCode){.unknown = why_not(&quiet, out.compiler)};
    const char *source = arena_printf(a, "%s.c", j.host.name);
    out.stack = call_graph_read(a, arena_strndup(a, graph.data, graph.len), source, text_of(&j, source));
    return out;
}

// --- JSON ----------------------------------------------------------------------------------------

void machine_code_sections_json(const MachineCode *c, uint64_t weight_bytes, Str *out)
{
    str_printf(out,
               "\"sections\": {\"text\": %llu, \"rodata_weights\": %llu, \"rodata_constants\": %llu, "
               "\"data\": %llu, \"bss\": %llu}",
               (unsigned long long)c->code_bytes, (unsigned long long)weight_bytes,
               (unsigned long long)(c->const_bytes - c->data_bytes), (unsigned long long)c->data_bytes,
               (unsigned long long)c->bss_bytes);
}

void machine_code_stack_json(const MachineCode *c, Str *out)
{
    const CallGraph *g = &c->stack;
    if (g->unknown != NULL) {
        str_printf(out, "\"call_graph\": null, \"call_graph_unknown\": \"%s\"",
                   json_text(out->arena, g->unknown));
        return;
    }
    str_add(out, "\"call_graph\": [");
    for (uint32_t i = 0; i < g->entries.len; i++) {
        const StackEntry *e = &g->entries.data[i];
        str_printf(out, "%s\n    {\"entry\": \"%s\", \"bytes\": %llu, \"path\": \"%s\", \"not_counted\": [",
                   i == 0 ? "" : ",", json_text(out->arena, e->function), (unsigned long long)e->bytes,
                   json_text(out->arena, e->path));
        for (uint32_t k = 0; k < e->libraries.len; k++)
            str_printf(out, "%s\"%s\"", k == 0 ? "" : ", ", json_text(out->arena, e->libraries.data[k]));
        str_add(out, "]}");
    }
    str_add(out, "]");
}
