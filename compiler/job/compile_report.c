// SPDX-License-Identifier: Apache-2.0
// See compile_report.h.
#include "compiler/job/compile_report.h"
#include "compiler/job/inplace.h"
#include "compiler/job/interface.h"
#include "compiler/system/json_text.h"
#include "compiler/system/output.h"
#include <string.h>

// The sizes that are set between runs, as a member of the object; nothing where there are none.
static void print_symbols(const Job *j, Str *out)
{
    const GraphSymbols *s = j->plan->graph->symbols;
    for (uint32_t i = 0; s != NULL && i < s->n; i++)
        str_printf(out,
                   "%s{\"name\": \"%s\", \"min\": %lld, \"max\": %lld, \"multiple\": %lld, "
                   "\"first\": %lld}%s",
                   i == 0 ? "\"symbols\": [" : ", ", json_text(j->cli->arena, s->symbol[i].name),
                   (long long)s->symbol[i].min, (long long)s->symbol[i].max, (long long)s->symbol[i].multiple,
                   (long long)s->symbol[i].dflt, i + 1 == s->n ? "],\n  " : "");
}

static void make_json(const Job *j, Str *head, Str *tail)
{
    Arena *a = j->cli->arena;
    uint64_t macs = 0;
    for (uint32_t i = 0; i < j->plan->kernels.len; i++)
        macs += j->plan->kernels.data[i].macs;
    str_printf(head,
               "{\n  \"name\": \"%s\",\n  \"cpu\": \"%s\",\n  \"cc_flags\": \"%s\",\n  \"macs\": %llu,\n",
               json_text(a, j->host.name), j->cpu.name, json_text(a, j->host.cc_flags),
               (unsigned long long)macs);
    str_add(head, "  \"files\": [");
    str_add(tail, "],\n  ");
    print_symbols(j, tail);
    streaming_print_json(&j->stream, j->plan, tail);
    str_add(tail, interface_json(j));
    str_printf(tail, ",\n  \"arena_bytes\": %zu,\n  \"state_bytes\": %zu,\n  \"weight_bytes\": %zu",
               j->emitted.arena_bytes, j->emitted.state_bytes, j->emitted.weight_bytes);
    if (j->emitted.device_bytes != 0)
        str_printf(tail, ",\n  \"device_bytes\": %zu", j->emitted.device_bytes);
    if (j->session != NULL)
        str_printf(tail, ",\n  \"session_bytes\": %zu", j->session_bytes);
    if (j->validated != NULL)
        str_printf(tail, ",\n  \"validation\": %s", j->validated);
    inplace_report_json(j, tail);
    str_add(tail, "\n}\n");
}

static void make_text(const Job *j, Str *tail)
{
    const PlanBuckets *b = j->plan->buckets;
    str_printf(tail, "arena %llu bytes (lower bound %llu), state %zu, weights %zu, %u kernels\n",
               (unsigned long long)j->plan->region_bytes[REGION_ARENA],
               (unsigned long long)j->plan->arena_lower_bound, j->emitted.state_bytes,
               j->emitted.weight_bytes, plan_count_kernels(j->plan));
    if (j->session != NULL)
        str_add(tail, j->session);
    streaming_print(&j->stream, j->plan, tail);
    if (j->emitted.device_bytes != 0)
        str_printf(tail, "on the device %zu bytes; the program's arena block %zu\n", j->emitted.device_bytes,
                   j->emitted.arena_bytes);
    if (j->emitted.weights == WEIGHTS_FILE && j->host.weights == WEIGHTS_AUTO)
        str_printf(tail,
                   "%zu bytes of weights are more than programs hold: yours maps %s.weights and gives it to "
                   "rlx_init (--weights file)\n",
                   j->emitted.weight_bytes, j->host.name);
    if (b != NULL) // how much of the weights all sizes have in common: packings may differ
        str_printf(tail, "%u buckets: %llu bytes of weights serve several, %llu only one\n", b->n,
                   (unsigned long long)b->shared_bytes, (unsigned long long)b->single_bytes);
    if (j->validated != NULL)
        str_add(tail, j->validated);
    inplace_report(j, tail);
}

CompileReport compile_report_make(const Job *j)
{
    rlx_assert(j->plan != NULL && j->emitted.files.len != 0);
    Arena *a = j->cli->arena;
    Str head = str_new(a), tail = str_new(a);
    CompileReport r = {0};
    if (j->cli->options.json != NULL)
        make_json(j, &head, &tail);
    else
        make_text(j, &tail);
    r.head = str_text(&head);
    r.tail = str_text(&tail);
    for (uint32_t i = 0; i < j->emitted.files.len; i++)
        vec_push(a, &r.files, ((ReportFile){j->emitted.files.data[i].name, j->emitted.files.data[i].len}));
    return r;
}

// A file's name as a word of a shell's command, which is no option.
static const char *quoted(Arena *a, const char *name)
{
    return output_shell_word(a, name[0] == '-' ? arena_printf(a, "./%s", name) : name);
}

// The command that compiles what was written; -I: files that the assembler takes in are looked for there.
static void print_next(const Cli *c, const CompileReport *r, const char *dir, const char *cc_flags)
{
    Str sources = str_new(c->arena), objects = str_new(c->arena);
    const char *only = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->files.len; i++) {
        const char *path = output_path(c->arena, dir, r->files.data[i].name);
        if (str_ends_with(path, ".o"))
            str_printf(&objects, " %s", quoted(c->arena, path));
        if (!str_ends_with(path, ".c"))
            continue;
        str_printf(&sources, " %s", quoted(c->arena, path));
        only = path;
        n++;
    }
    printf("next: cc -O3%s%s -I%s -c%s", *cc_flags ? " " : "", cc_flags, quoted(c->arena, dir),
           str_text(&sources));
    if (n == 1) // several have the names of theirs, in the current folder
        printf(" -o %s", quoted(c->arena, arena_printf(c->arena, "%.*s.o", (int)strlen(only) - 2, only)));
    if (objects.len != 0)
        printf("; the program is linked with%s too", str_text(&objects));
    printf("\n");
}

void compile_report_print(const Cli *c, const CompileReport *r, const char *dir, const char *cc_flags)
{
    rlx_assert(r->head != NULL && r->tail != NULL);
    fputs(r->head, stdout);
    for (uint32_t i = 0; i < r->files.len; i++) {
        const char *path = output_path(c->arena, dir, r->files.data[i].name);
        if (c->options.json != NULL)
            printf("%s\"%s\"", i == 0 ? "" : ", ", json_text(c->arena, path));
        else
            printf("wrote %s (%zu bytes)\n", path, r->files.data[i].len);
    }
    fputs(r->tail, stdout);
    if (c->options.json == NULL)
        print_next(c, r, dir, cc_flags);
}
