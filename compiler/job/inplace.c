// SPDX-License-Identifier: Apache-2.0
// See inplace.h.
#include "compiler/job/inplace.h"
#include "compiler/system/rawfile.h"
#include "compiler/system/json_text.h"
#include "compiler/rlxb/rlxb.h"
#include <string.h>

enum { MAX_LISTED = 8 };

static bool refuse(Job *j, const char *why)
{
    return diag_error(j->cli->diag, (Span){0}, E0003, "--weights inplace: %s", why);
}

// Bytes at the begin that say what is in the file; 0: it has no such bytes.
static uint64_t header_bytes(const RawPlace *f)
{
    uint64_t n = 0;
    if (rlxb_is(f->data, f->len))
        return rlxb_header_bytes(f->data);
    if (!str_ends_with(f->path, ".safetensors"))
        return 0;
    rlx_assert(f->len >= 8);
    for (uint32_t i = 0; i < 8; i++) // it was read, so it has them
        n |= (uint64_t)(unsigned char)f->data[i] << 8 * i;
    return n + 8;
}

typedef struct Candidate {
    RawPlace file;
    uint64_t bytes; // of weights
} Candidate;
typedef VEC(Candidate) Candidates;

static void count(Arena *a, Candidates *list, const AttrVal *v)
{
    RawPlace f;
    if (v->len < PLAN_FILE_LEAST || !rawfile_find(v->u.blob, (size_t)v->len, &f) || header_bytes(&f) == 0)
        return;
    for (uint32_t i = 0; i < list->len; i++) {
        if (list->data[i].file.data == f.data) {
            list->data[i].bytes += v->len;
            return;
        }
    }
    vec_push(a, list, ((Candidate){f, v->len}));
}

bool inplace_choose(Job *j)
{
    rlx_assert(j->graph != NULL);
    Candidates list = {0};
    const Candidate *best = NULL;
    if (j->target->caps.is_gpu || j->buckets.n != 0)
        return refuse(j, "not with GPU targets and not with --bucket");
    for (NodeId id = 1; id < j->graph->nodes.len; id++)
        if (node_is_const(j->graph, id))
            count(j->cli->arena, &list, node_attr(graph_node(j->graph, id), A_const_data));
    for (uint32_t i = 0; i < list.len; i++)
        if (best == NULL || list.data[i].bytes > best->bytes)
            best = &list.data[i];
    if (best == NULL)
        return refuse(j, "expected weights of 4096 bytes or more in a .safetensors or .rlxb file");
    PlanFile *f = ARENA_NEW(j->cli->arena, PlanFile);
    *f = (PlanFile){.path = best->file.path,
                    .data = (const unsigned char *)best->file.data,
                    .len = best->file.len,
                    .header = header_bytes(&best->file)};
    j->pipeline.file = f;
    j->n_imported = j->graph->nodes.len;
    return true;
}

bool inplace_check(Job *j)
{
    if (j->pipeline.file != NULL && j->plan != NULL && j->plan->experts.layers.len != 0)
        return refuse(j, "not with experts, whose weights have a place of their own (rlx_set_moe_source)");
    return true;
}

typedef VEC(NodeId) Nodes;

// --- what is where --------------------------------------------------

static bool is_in_place(const Job *j, const void *bytes)
{
    for (BufId b = 1; b < j->plan->buffers.len; b++)
        if (j->plan->buffers.data[b].region == REGION_FILE && j->plan->buffers.data[b].data == bytes)
            return true;
    return false;
}

static void count_in_place(const Job *j, uint32_t *n, uint64_t *bytes)
{
    rlx_assert(j->plan != NULL);
    for (BufId b = 1; b < j->plan->buffers.len; b++) {
        if (j->plan->buffers.data[b].region == REGION_FILE) {
            ++*n;
            *bytes += j->plan->buffers.data[b].bytes;
        }
    }
}

// Constants of the model that are large enough but are packed, folded or in another place.
static void find_elsewhere(const Job *j, Nodes *out)
{
    for (NodeId id = 1; id < j->n_imported; id++) {
        if (!node_is_const(j->graph, id))
            continue;
        const AttrVal *v = node_attr(graph_node(j->graph, id), A_const_data);
        if (v->len >= PLAN_FILE_LEAST && !is_in_place(j, v->u.blob))
            vec_push(j->cli->arena, out, id);
    }
}

static unsigned long long bytes_of(const Job *j, NodeId id)
{
    rlx_assert(node_is_const(j->graph, id));
    return node_attr(graph_node(j->graph, id), A_const_data)->len;
}

void inplace_report(const Job *j, Str *out)
{
    Nodes rest = {0};
    uint32_t n = 0;
    uint64_t bytes = 0;
    if (j->pipeline.file == NULL)
        return;
    count_in_place(j, &n, &bytes);
    find_elsewhere(j, &rest);
    str_printf(out, "in place: %u tensors with %llu bytes of %s; %u of 4096 bytes or more are not\n", n,
               (unsigned long long)bytes, j->pipeline.file->path, rest.len);
    for (uint32_t i = 0; i < rest.len && i < MAX_LISTED; i++)
        str_printf(out, "  elsewhere: %s (%llu bytes)\n", node_name(j->graph, rest.data[i]),
                   bytes_of(j, rest.data[i]));
    if (rest.len > MAX_LISTED)
        str_printf(out, "  and %u more\n", rest.len - MAX_LISTED);
}

void inplace_report_json(const Job *j, Str *out)
{
    Nodes rest = {0};
    uint32_t n = 0;
    uint64_t bytes = 0;
    Arena *a = j->cli->arena;
    if (j->pipeline.file == NULL)
        return;
    count_in_place(j, &n, &bytes);
    find_elsewhere(j, &rest);
    str_printf(out,
               ",\n  \"in_place\": {\"file\": \"%s\", \"tensors\": %u, \"bytes\": %llu, \"elsewhere\": [",
               json_text(a, j->pipeline.file->path), n, (unsigned long long)bytes);
    for (uint32_t i = 0; i < rest.len; i++)
        str_printf(out, "%s{\"name\": \"%s\", \"bytes\": %llu}", i == 0 ? "" : ", ",
                   json_text(a, node_name(j->graph, rest.data[i])), bytes_of(j, rest.data[i]));
    str_add(out, "]}");
}
