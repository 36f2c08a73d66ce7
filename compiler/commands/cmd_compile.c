// SPDX-License-Identifier: Apache-2.0
// rlxc compile, check, convert: a model in, files out.
#include "compiler/cache/cache.h"
#include "compiler/import/import.h"
#include "compiler/load/load.h"
#include "compiler/job/depfile.h"
#include "compiler/report/validation.h"
#include "compiler/session/session.h"
#include "compiler/system/json_text.h"

// Up to the files in the folder, and what is printed about them. False: reported, or --stop-after ended it.
static bool compile(Job *j, const char *dir, CompileReport *out)
{
    Cache cache;
    Session session;
    Load load;
    if (!depfile_check(j, dir) || !cache_open(j, &cache))
        return false;
    const CacheResult found = cache_fetch(&cache, dir, out);
    if (found == CACHE_FAILED)
        return false;
    if (found == CACHE_HIT)
        return depfile_write(j, dir);
    if (!job_plan(j) || j->cli->options.stop_after != NULL || !load_find(j, &load) || !job_emit(j) ||
        !validation_run(j) || !session_find(j, &session))
        return false;
    session_add(j, &session);
    load_add(j, &load);
    if (!job_write(j, dir))
        return false;
    *out = compile_report_make(j);
    cache_store(&cache, dir, out);
    return depfile_write(j, dir);
}

ExitCode cmd_compile(Cli *c)
{
    Job j;
    CompileReport report;
    const char *dir = c->options.output != NULL ? c->options.output : ".";
    if (!job_begin(&j, c, "generic", false))
        return cli_fail(c);
    const bool is_done = compile(&j, dir, &report);
    if (c->diag->n_errors != 0)
        return cli_fail(c);
    if (!is_done)
        return job_end_early(&j);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    compile_report_print(c, &report, dir, j.host.cc_flags);
    return EXIT_OK;
}

ExitCode cmd_check(Cli *c)
{
    if (c->options.args.len == 0) {
        diag_error(c->diag, (Span){0}, E0003, "expected at least one model file");
        return cli_fail(c);
    }
    bool ok = true;
    Str json = str_new(c->arena);
    for (uint32_t i = 0; i < c->options.args.len; i++) {
        Graph *g = NULL;
        const bool is_right = import_model(c->arena, c->diag, c->options.args.data[i], &g);
        str_printf(&json, "%s\n    {\"file\": \"%s\", \"ok\": %s}", i == 0 ? "" : ",",
                   json_text(c->arena, c->options.args.data[i]), is_right ? "true" : "false");
        ok = is_right && ok;
    }
    if (c->options.json != NULL)
        printf("{\n  \"ok\": %s,\n  \"models\": [%s\n  ]\n}\n", ok ? "true" : "false", str_text(&json));
    if (!ok)
        return cli_fail(c);
    diag_print(c->diag, stderr, c->style);
    return EXIT_OK;
}

ExitCode cmd_convert(Cli *c)
{
    const Strings *args = &c->options.args;
    if (args->len < 1 || args->len > 2) {
        diag_error(c->diag, (Span){0}, E0003, "expected a model file and, perhaps, the file to write");
        return cli_fail(c);
    }
    const char *to = c->options.output_file != NULL ? c->options.output_file
                     : args->len == 2               ? args->data[1]
                                                    : NULL;
    Job j;
    if (!job_read(&j, c, args->data[0]))
        return cli_fail(c);
    Graph *g = j.graph;
    if (to == NULL) {
        Str text = str_new(c->arena);
        import_print_json(g, &text);
        diag_print(c->diag, stderr, c->style);
        fputs(str_text(&text), stdout);
        return EXIT_OK;
    }
    if (!import_export(g, to, c->diag))
        return cli_fail(c);
    diag_print(c->diag, stderr, c->style);
    if (c->options.json != NULL)
        printf("{\"file\": \"%s\"}\n", json_text(c->arena, to));
    else
        printf("wrote %s\n", to);
    return EXIT_OK;
}
