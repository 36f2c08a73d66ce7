// SPDX-License-Identifier: Apache-2.0
// rlxc dev-validate: the rules of emitted C on any C file, for tests of the rules and for those who change
// what is emitted.
#include "compiler/system/rawfile.h"
#include "compiler/report/validation.h"
#include <string.h>

static bool read_files(Cli *c, ValidateInput *in)
{
    ValidateFile *files = ARENA_ARRAY(c->arena, ValidateFile, c->options.args.len);
    for (uint32_t i = 0; i < c->options.args.len; i++) {
        RawFile raw;
        const char *path = c->options.args.data[i], *slash = strrchr(path, '/');
        if (!rawfile_open(c->arena, c->diag, (Span){0}, path, &raw))
            return false;
        files[i] = (ValidateFile){slash != NULL ? slash + 1 : path, raw.data, raw.len};
    }
    in->files = files;
    in->n = c->options.args.len;
    return in->n != 0 || diag_error(c->diag, (Span){0}, E0003, "expected a C file, then what it includes");
}

ExitCode cmd_dev_validate(Cli *c)
{
    CpuInfo cpu;
    ValidateReport report;
    const Options *o = &c->options;
    const Target *target = target_find(o->target != NULL ? o->target : "c");
    if (target == NULL || !cpu_find(o->cpu != NULL ? o->cpu : "generic", &cpu)) {
        diag_error(c->diag, (Span){0}, E0301, "--target or --cpu: not known (`rlxc targets` lists them)");
        return cli_fail(c);
    }
    ValidateInput in = validation_input(target, cpu.name, cpu.cc_flags);
    if (!read_files(c, &in))
        return cli_fail(c);
    in.uses |= o->threads != NULL ? USE_THREADS : USE_ALWAYS;
    in.has_static_arena = o->arena != NULL && strcmp(o->arena, "static") == 0;
    if (!validate_run(c->arena, &in, &report)) {
        validation_missing(c->diag, "dev-validate");
        return cli_fail(c);
    }
    validation_report(c->diag, &report, DIAG_ERROR);
    if (o->json != NULL)
        printf("%s\n", validation_json(c->arena, &report));
    if (report.findings.len != 0)
        return cli_fail(c);
    if (o->json == NULL)
        fputs(validation_text(c->arena, &report), stdout);
    return EXIT_OK;
}
