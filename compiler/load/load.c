// SPDX-License-Identifier: Apache-2.0
// See load.h.
#include "compiler/load/load.h"
#include "base/map.h"
#include "codegen/host/host_parts.h"
#include "compiler/job/append.h"
#include "compiler/vocab/vocab.h"
#include "runtime-lite/load/rlx_load.h"

#include <string.h>

bool load_refuse(const Job *j, const char *expected)
{
    return diag_error(j->cli->diag, (Span){0}, E0003, "--weights load: %s", expected);
}

// --- tables --------------------------------------------------------------------------------------

static void emit_tensors(const Load *l, Str *out)
{
    str_printf(out, "static const rlx_load_tensor load_tensors[%u] = {\n", l->tensors.len);
    for (uint32_t i = 0; i < l->tensors.len; i++) {
        const LoadTensor *own = &l->tensors.data[i];
        str_printf(out, "    {%s, {%lluu, %lluu, %lluu, %lluu}, %u, %d, %lluu, 0x%llxu},\n",
                   host_string_literal(out->arena, own->name), (unsigned long long)own->dim[0],
                   (unsigned long long)own->dim[1], (unsigned long long)own->dim[2],
                   (unsigned long long)own->dim[3], own->type, own->is_fixed, (unsigned long long)own->bytes,
                   own->is_fixed ? (unsigned long long)rlx_load_sum(own->data, own->bytes) : 0);
    }
    str_add(out, "};\n");
}

static void emit_parts(const Load *l, Str *out)
{
    str_printf(out, "static const rlx_load_part load_parts[%u] = {\n", l->parts.len);
    for (uint32_t i = 0; i < l->parts.len; i++) {
        const LoadPart *p = &l->parts.data[i];
        str_printf(out, "    {%lluu, %lluu, %lluu, %llu, %llu, %u, %u, %u},\n", (unsigned long long)p->to,
                   (unsigned long long)p->bytes, (unsigned long long)p->from,
                   p->packed != NULL ? (unsigned long long)p->packed->columns : 0,
                   p->packed != NULL ? (unsigned long long)p->packed->blocks : 0, p->tensor, p->format,
                   p->kind);
    }
    str_add(out, "};\n");
}

static void emit_formats(const Load *l, Str *out)
{
    for (uint32_t i = 0; i < l->formats.len; i++)
        load_emit_format(l->formats.data[i], i, out);
    if (l->formats.len == 0)
        return;
    str_printf(out, "static const rlx_load_format load_formats[%u] = {\n", l->formats.len);
    for (uint32_t i = 0; i < l->formats.len; i++)
        load_emit_format_row(l->formats.data[i], i, out);
    str_add(out, "};\n");
}

static void emit_layouts(const Load *l, Str *out)
{
    if (l->layouts.len == 0)
        return;
    str_printf(out, "static const rlx_load_layout load_layouts[%u] = {\n", l->layouts.len);
    for (uint32_t i = 0; i < l->layouts.len; i++)
        load_emit_layout_row(l->layouts.data[i], out);
    str_add(out, "};\n");
}

// Constants that are of no tensor, or made of several.
static void emit_own(const Load *l, Str *out)
{
    Arena scratch = {0};
    if (l->own_bytes == 0)
        return;
    unsigned char *all = ARENA_ARRAY(&scratch, unsigned char, l->own_bytes);
    for (uint32_t i = 0; i < l->parts.len; i++)
        if (l->parts.data[i].tensor == LOAD_NONE)
            memcpy(all + l->parts.data[i].from, plan_buffer_bytes(l->parts.data[i].buffer, &scratch),
                   l->parts.data[i].bytes);
    str_printf(out, "static const uint32_t load_own[%llu] = {", (unsigned long long)l->own_bytes / 4);
    for (uint64_t i = 0; i < l->own_bytes / 4; i++) {
        uint32_t word;
        memcpy(&word, all + 4 * i, sizeof word);
        str_printf(out, "%s0x%x,", i % 8 == 0 ? "\n    " : " ", word);
    }
    str_add(out, "\n};\n");
    arena_free(&scratch);
}

static void emit_plan(const Load *l, const char *name, Str *out)
{
    str_printf(out,
               "static const rlx_load_plan load_plan = {\n"
               "    &%s_model, %s, 0x%016llxu, 0x%016llxu, %u, %u,\n"
               "    load_tensors, load_parts, %s, %s, %s};\n\n",
               name, l->arch != NULL ? host_string_literal(out->arena, l->arch) : "NULL",
               (unsigned long long)l->settings,
               (unsigned long long)l->vocabulary, l->tensors.len, l->parts.len,
               l->formats.len != 0 ? "load_formats" : "NULL",
               l->layouts.len != 0 ? "load_layouts" : "NULL", l->own_bytes != 0 ? "load_own" : "NULL");
}

bool load_find(Job *j, Load *out)
{
    rlx_assert(j->plan != NULL);
    *out = (Load){.code = str_new(j->cli->arena)};
    if (j->host.weights != WEIGHTS_LOAD)
        return true;
    if (j->target->caps.is_gpu || j->fallback != NULL || j->host.moe_slots != 0 || j->plan->banks.len != 0)
        return load_refuse(j, "not with GPU targets, --moe-resident and --bank");
    if (!load_read_files(j, out) || !load_find_parts(j, out))
        return false;
    emit_tensors(out, &out->code);
    emit_formats(out, &out->code);
    emit_layouts(out, &out->code);
    emit_own(out, &out->code);
    emit_parts(out, &out->code);
    emit_plan(out, j->host.name, &out->code);
    out->is_there = true;
    out->host.hash = hash_bytes64(str_text(&out->code), out->code.len, 0);
    out->host.bytes = 2 * HOST_SEAL_BYTES + sizeof(uint64_t) * out->tensors.len + RLX_LOAD_SHARES;
    j->host.load = &out->host;
    return true;
}

// --- files ---------------------------------------------------------------------------------------

static const char head_text[] =
    "\n// Weights of @name@ from a file.\n#ifndef @NAME@_LOAD_H\n#define @NAME@_LOAD_H\n\n";

static const char code_head_text[] =
    "\n// --- weights from a file "
    "------------------------------------------------------------------------\n\n"
    "#if !defined(@NAME@_PART) || @NAME@_PART == 1\n";

static const char call_text[] =
    "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
    "// Packs the weights of a GGUF or .safetensors file, of which `file` has all n bytes, into memory of\n"
    "// @NAME@_WEIGHT_BYTES at a multiple of RLX_ALIGNMENT, which is what rlx_init or @name@_open is then\n"
    "// given. The file may be any that differs from the one compiled with in the values of its tensors\n"
    "// only, and is not needed afterwards. 0 or a status below zero, which rlx_load_text puts in words;\n"
    "// the memory has no weights then.\n"
    "int @name@_load(void *memory, size_t bytes, const void *file, size_t n);\n\n"
    "// The same of a file in several parts, in any order, and by several threads: one calls begin, then\n"
    "// threads call share with i from 0 to n - 1 (at most RLX_LOAD_SHARES) at the same time, and when all\n"
    "// have returned, one calls end. Where begin has refused the files, the others do too.\n"
    "int @name@_load_begin(void *memory, size_t bytes, const rlx_load_bytes *files, size_t n_files);\n"
    "int @name@_load_share(void *memory, size_t bytes, const rlx_load_bytes *files, size_t n_files,\n"
    "                      uint32_t i, uint32_t n);\n"
    "int @name@_load_end(void *memory, size_t bytes);\n"
    "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";

static const char code_text[] =
    "int @name@_load(void *memory, size_t bytes, const void *file, size_t n)\n"
    "{\n    return rlx_load_model(&load_plan, memory, bytes, file, n);\n}\n\n"
    "int @name@_load_begin(void *memory, size_t bytes, const rlx_load_bytes *files, size_t n_files)\n"
    "{\n    const rlx_load_files all = {files, n_files};\n"
    "    return rlx_load_begin(&load_plan, memory, bytes, all);\n}\n\n"
    "int @name@_load_share(void *memory, size_t bytes, const rlx_load_bytes *files, size_t n_files,\n"
    "                      uint32_t i, uint32_t n)\n"
    "{\n    const rlx_load_files all = {files, n_files};\n"
    "    const rlx_load_share share = {i, n};\n"
    "    return rlx_load_share_of(&load_plan, memory, bytes, all, share);\n}\n\n"
    "int @name@_load_end(void *memory, size_t bytes)\n"
    "{\n    return rlx_load_end(&load_plan, memory, bytes);\n}\n#endif\n";

void load_add(Job *j, const Load *l)
{
    Arena *a = j->cli->arena;
    Str header = str_new(a), code = str_new(a);
    const char *name = j->host.name;
    if (!l->is_there)
        return;
    vocab_emit_named(&header, head_text, name);
    vocab_emit_lines(&header, load_text_public);
    vocab_emit_named(&header, call_text, name);
    vocab_emit_named(&code, code_head_text, name);
    vocab_emit_lines(&code, load_text_code);
    str_add_n(&code, str_text(&l->code), l->code.len);
    vocab_emit_named(&code, code_text, name);
    job_append(j, arena_printf(a, "%s.h", name), &header);
    job_append(j, arena_printf(a, "%s.c", name), &code);
}
