// SPDX-License-Identifier: Apache-2.0
// See interface.h.
#include "compiler/job/interface.h"
#include "compiler/system/json_text.h"

#include <string.h>

const GraphIo *interface_text(const Job *j, const char *tensor, bool is_output)
{
    for (uint32_t i = 0; i < j->graph->io.len; i++) {
        const GraphIo *io = &j->graph->io.data[i];
        for (uint32_t k = 0; io->is_text && io->is_output == is_output && k < io->n_parts; k++)
            if (strcmp(io->parts[k], tensor) == 0)
                return io;
    }
    return NULL;
}

// --- JSON ---

static const PlanIo *find_tensor(const Job *j, const char *name, bool is_output)
{
    const PlanIo *list = is_output ? j->plan->outputs.data : j->plan->inputs.data;
    const uint32_t n = is_output ? j->plan->outputs.len : j->plan->inputs.len;
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

static void print_keys(Arena *a, const GraphIo *io, Str *out)
{
    str_add(out, ", \"keys\": [");
    for (uint32_t i = 0; i < io->n_keys; i++) {
        str_add(out, i ? ", " : "");
        if (io->text_keys)
            str_printf(out, "\"%s\"", json_text(a, io->text_keys[i]));
        else
            str_printf(out, "%lld", (long long)io->keys[i]);
    }
    str_add(out, "]");
}

static void print_io(const Job *j, const GraphIo *io, Str *out)
{
    static const char *const kinds[] = {[IO_TENSOR] = "tensor",
                                        [IO_STRING] = "string",
                                        [IO_SEQUENCE] = "sequence",
                                        [IO_OPTIONAL] = "optional"};
    rlx_assert((size_t)io->kind < sizeof kinds / sizeof *kinds);
    Arena *a = j->cli->arena;
    str_printf(out, "{\"name\": \"%s\", \"kind\": \"%s\"", json_text(a, io->name), kinds[io->kind]);
    if (io->kind == IO_OPTIONAL)
        str_printf(out, ", \"of\": \"%s\", \"has_value\": %s", kinds[io->of],
                   io->has_value ? "true" : "false");
    str_printf(out, ", \"element\": \"%s\", \"tensors\": [",
               io->is_text ? "string" : dtype_info[io->dtype].name);
    int64_t capacity = 0;
    for (uint32_t i = 0; i < io->n_parts; i++) {
        const PlanIo *t = find_tensor(j, io->parts[i], io->is_output);
        const int64_t room = t != NULL && t->rank > 0 ? t->dim[t->rank - 1] : 0;
        capacity = room > capacity ? room : capacity;
        str_printf(out, "%s\"%s\"", i == 0 ? "" : ", ", json_text(a, io->parts[i]));
    }
    str_printf(out, "]");
    if (io->is_text)
        str_printf(out, ", \"capacity\": %lld", (long long)capacity);
    if (io->n_keys)
        print_keys(a, io, out);
    str_printf(out, "}");
}

// A model that is no ONNX file has tensors only.
static void print_tensors(const Job *j, const PlanIo *list, uint32_t n, bool is_output, Str *out)
{
    for (uint32_t i = 0; i < n; i++) {
        const GraphIo io = {.name = list[i].name,
                            .is_output = is_output,
                            .dtype = list[i].dtype,
                            .parts = &list[i].name,
                            .n_parts = 1};
        str_printf(out, "%s", i == 0 ? "" : ", ");
        print_io(j, &io, out);
    }
}

static void print_list(const Job *j, bool is_output, Str *out)
{
    const char *comma = "";
    str_printf(out, "\"%s\": [", is_output ? "outputs" : "inputs");
    if (j->graph->io.len == 0 && is_output)
        print_tensors(j, j->plan->outputs.data, j->plan->outputs.len, true, out);
    else if (j->graph->io.len == 0)
        print_tensors(j, j->plan->inputs.data, j->plan->inputs.len, false, out);
    for (uint32_t i = 0; i < j->graph->io.len; i++) {
        if (j->graph->io.data[i].is_output != is_output)
            continue;
        str_printf(out, "%s", comma);
        print_io(j, &j->graph->io.data[i], out);
        comma = ", ";
    }
    str_printf(out, "]");
}

const char *interface_json(const Job *j)
{
    rlx_assert(j->plan != NULL);
    Str out = str_new(j->cli->arena);
    str_add(&out, "\"interface\": {");
    print_list(j, false, &out);
    str_add(&out, ", ");
    print_list(j, true, &out);
    str_add(&out, "}");
    return str_text(&out);
}

// --- text ---

void interface_print_text(const Tensor *t)
{
    rlx_assert(t->dtype == DTYPE_u8);
    enum { SHOWN = 6 };
    const int64_t capacity = t->rank ? t->dim[t->rank - 1] : 0;
    const char *p = t->data;
    for (int64_t i = 0; capacity && i < t->numel / capacity && i < SHOWN; i++)
        printf("%s\"%.*s\"", i == 0 ? " " : ", ", (int)strnlen(p + i * capacity, (size_t)capacity),
               p + i * capacity);
}
