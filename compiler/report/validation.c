// SPDX-License-Identifier: Apache-2.0
// See validation.h.
#include "compiler/report/validation.h"
#include "compiler/report/certificate.h"
#include "compiler/system/json_text.h"
#include <string.h>

typedef enum Mode { MODE_OFF, MODE_QUICK, MODE_WHOLE } Mode;

static bool read_mode(const Job *j, Mode *out)
{
    const Options *o = &j->cli->options;
    const bool is_wanted = o->validate != NULL || o->certify != NULL;
    *out = o->no_validate != NULL ? MODE_OFF : is_wanted ? MODE_WHOLE : MODE_QUICK;
    return o->no_validate == NULL || !is_wanted ||
           diag_error(j->cli->diag, (Span){0}, E0003, "--no-validate cannot be combined with %s",
                      o->certify != NULL ? "--certify" : "--validate");
}

bool validation_missing(Diag *d, const char *option)
{
    diag_error(d, (Span){0}, E0005, "%s: no libclang is installed here", option);
    diag_note(d, (Span){0},
              "it is in the package libclang1-14 of Debian 12 ($RLXC_LIBCLANG can name another)");
    return false;
}

ValidateInput validation_input(const Target *target, const char *cpu, const char *cc_flags)
{
    static const struct {
        const char *prefix, *triple;
    } machines[] = {{"armv8", "aarch64-linux-gnu"},
                    {"rv64", "riscv64-linux-gnu"},
                    {"wasm", "wasm32"},
                    {"cortex", "arm-none-eabi"},
                    {"rv32", "riscv32-unknown-elf"},
                    {"esp32-s3", "riscv32-unknown-elf"}}; // clang has no Xtensa: another of 32 bits
    ValidateInput in = {.cc_flags = cc_flags, .triple = "x86_64-linux-gnu"};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (strncmp(cpu, machines[i].prefix, strlen(machines[i].prefix)) == 0)
            in.triple = machines[i].triple;
    in.uses = target->caps.is_gpu ? USE_DRIVER : USE_ALWAYS;
    return in;
}

// The C file first, then its header; with --link-runtime the runtime's too.
static ValidateInput input_of(const Job *j)
{
    Arena *a = j->cli->arena;
    ValidateInput in = validation_input(j->target, j->cpu.name, j->cpu.cc_flags);
    VEC(ValidateFile) files = {0};
    static const char *const suffixes[] = {".c", ".h"};
    for (size_t s = 0; s < 2; s++)
        for (uint32_t i = 0; i < j->emitted.files.len; i++) {
            const EmittedFile *f = &j->emitted.files.data[i];
            if (f->data != NULL && str_ends_with(f->name, suffixes[s]) && f->part == 0)
                vec_push(a, &files, ((ValidateFile){f->name, f->data, f->len}));
        }
    HostText part;
    for (uint32_t i = 0; j->host.runtime == RUNTIME_LINKED && host_runtime_part(a, i, &part); i++)
        vec_push(a, &files, ((ValidateFile){part.name, part.text, strlen(part.text)}));
    rlx_assert(files.len != 0 && str_ends_with(files.data[0].name, ".c"));
    in.files = files.data;
    in.n = files.len;
    if (j->caps.threads > 1 && j->host.pool == POOL_POSIX)
        in.uses |= USE_THREADS;
    if (j->host.parts > 1)
        in.define = arena_printf(a, "-D%s", host_whole_define(a, j->host.name));
    in.has_static_arena = j->host.arena == ARENA_STATIC;
    return in;
}

void validation_report(Diag *d, const ValidateReport *r, DiagLevel level)
{
    for (uint32_t i = 0; i < r->findings.len; i++) {
        const ValidateFinding *f = &r->findings.data[i];
        Str text = str_new(d->arena);
        if (f->line != 0)
            str_printf(&text, "%s:%u: ", f->file, f->line);
        if (f->function[0] != '\0')
            str_printf(&text, "in %s: ", f->function);
        str_printf(&text, "%s", f->text);
        if (level == DIAG_ERROR)
            diag_error(d, (Span){0}, E0501, "%s", str_text(&text));
        else
            diag_warning(d, (Span){0}, E0501, "%s", str_text(&text));
        diag_note(d, (Span){0}, "the rule: %s", validate_rule_text(f->rule));
    }
}

static const ValidateEntry *largest(const ValidateReport *r)
{
    const ValidateEntry *most = NULL;
    for (uint32_t i = 0; i < r->entries.len; i++)
        if (most == NULL || r->entries.data[i].stack > most->stack)
            most = &r->entries.data[i];
    return most;
}

const char *validation_text(Arena *a, const ValidateReport *r)
{
    Str out = str_new(a);
    const ValidateEntry *most = largest(r);
    str_printf(&out, "validated as C99 and C++ by %s: %u functions, no recursion, calls at most %u deep\n",
               r->validator, r->n_functions, r->max_depth);
    str_printf(&out, "  loops: %u with constant bounds, %u with bounds that stay, %u that wait for others\n",
               r->n_loops[LOOP_CONSTANT], r->n_loops[LOOP_VALUE], r->n_loops[LOOP_WAIT]);
    str_add(&out, "  no variables, no allocation, no input or output; functions of others:");
    for (uint32_t i = 0; i < r->externals.len; i++)
        str_printf(&out, " %s", r->externals.data[i]);
    if (most != NULL)
        str_printf(&out, "\n  stack at most %llu bytes without optimisation (%s)\n",
                   (unsigned long long)most->stack, most->name);
    return str_text(&out);
}

static void add_notes(Arena *a, const char *key, const ValidateNote *note, uint32_t n, Str *out)
{
    str_printf(out, "\"%s\": [", key);
    for (uint32_t i = 0; i < n; i++)
        str_printf(out, "%s{\"name\": \"%s\", \"what\": \"%s\"}", i == 0 ? "" : ", ",
                   json_text(a, note[i].name), json_text(a, note[i].text));
    str_add(out, "],\n");
}

static void add_rules(const ValidateReport *r, Str *out)
{
    bool is_broken[RULE_COUNT] = {false};
    for (uint32_t i = 0; i < r->findings.len; i++)
        is_broken[r->findings.data[i].rule] = true;
    str_add(out, "    \"rules\": [");
    for (int i = 0, n = 0; i < RULE_COUNT; i++)
        if (i != RULE_CXX || r->has_cxx)
            str_printf(out, "%s\n      {\"rule\": \"%s\", \"text\": \"%s\", \"holds\": %s}",
                       n++ == 0 ? "" : ",", validate_rule_name((ValidateRule)i),
                       validate_rule_text((ValidateRule)i), is_broken[i] ? "false" : "true");
    str_add(out, "],\n");
}

static void add_findings(Arena *a, const ValidateReport *r, Str *out)
{
    str_add(out, "    \"findings\": [");
    for (uint32_t i = 0; i < r->findings.len; i++) {
        const ValidateFinding *f = &r->findings.data[i];
        str_printf(out, "%s{\"rule\": \"%s\", \"file\": \"%s\", \"line\": %u, ", i == 0 ? "" : ", ",
                   validate_rule_name(f->rule), json_text(a, f->file), f->line);
        str_printf(out, "\"function\": \"%s\", \"text\": \"%s\"}", json_text(a, f->function),
                   json_text(a, f->text));
    }
    str_add(out, "],\n");
}

static void add_stack(const ValidateReport *r, Str *out)
{
    str_add(out, "    \"stack\": [");
    for (uint32_t i = 0; i < r->entries.len; i++)
        str_printf(out, "%s\n      {\"entry\": \"%s\", \"bytes\": %llu, \"path\": \"%s\"}", i == 0 ? "" : ",",
                   r->entries.data[i].name, (unsigned long long)r->entries.data[i].stack,
                   r->entries.data[i].path);
    str_printf(out, "],\n    \"stack_of_others\": %llu\n  }", (unsigned long long)r->helper_stack);
}

const char *validation_json(Arena *a, const ValidateReport *r)
{
    Str out = str_new(a);
    str_printf(&out, "{\n    \"validator\": \"%s\",\n", json_text(a, r->validator));
    add_rules(r, &out);
    add_findings(a, r, &out);
    str_printf(&out, "    \"functions\": %u,\n    \"call_depth\": %u,\n", r->n_functions, r->max_depth);
    str_printf(&out, "    \"loops\": {\"constant\": %u, \"value\": %u, \"wait\": %u},\n",
               r->n_loops[LOOP_CONSTANT], r->n_loops[LOOP_VALUE], r->n_loops[LOOP_WAIT]);
    str_printf(&out, "    \"asm_statements\": %u,\n    \"symbols\": [", r->n_asm);
    for (uint32_t i = 0; i < r->externals.len; i++)
        str_printf(&out, "%s\"%s\"", i == 0 ? "" : ", ", r->externals.data[i]);
    str_add(&out, "],\n    ");
    add_notes(a, "pointers", r->pointers.data, r->pointers.len, &out);
    str_add(&out, "    ");
    add_notes(a, "exceptions", r->waits.data, r->waits.len, &out);
    add_stack(r, &out);
    return str_text(&out);
}

bool validation_run(Job *j)
{
    Arena *a = j->cli->arena;
    Diag *d = j->cli->diag;
    Mode mode = MODE_OFF;
    ValidateReport report;
    if (!read_mode(j, &mode) || mode == MODE_OFF)
        return d->n_errors == 0;
    cli_progress("validating");
    ValidateInput in = input_of(j);
    in.is_quick = mode == MODE_QUICK;
    if (!validate_run(a, &in, &report)) {
        const char *option = j->cli->options.certify != NULL ? "--certify" : "--validate";
        return mode == MODE_QUICK || validation_missing(d, option);
    }
    if (report.findings.len != 0) {
        validation_report(d, &report, mode == MODE_QUICK ? DIAG_WARNING : DIAG_ERROR);
        diag_note(d, (Span){0}, "%sthis is a fault of rlxc: please report it with the model and the options",
                  j->has_custom ? "in a function named ..._text it is the model's text of a custom op; else "
                                : "");
        return mode == MODE_QUICK;
    }
    if (mode == MODE_WHOLE) {
        const bool is_json = j->cli->options.json != NULL;
        j->validated = is_json ? validation_json(a, &report) : validation_text(a, &report);
    }
    return j->cli->options.certify == NULL || certificate_add(j, &report);
}
