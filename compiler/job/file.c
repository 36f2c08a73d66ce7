// SPDX-License-Identifier: Apache-2.0
// Model files of any format. The content decides which reader gets one, since names lie; the name decides
// what is written.
#include "compiler/export/onnx/put_file.h"
#include "compiler/import/gguf/gguf_model.h"
#include "compiler/import/hf/hf.h"
#include "compiler/import/import.h"
#include "compiler/import/onnx/onnx.h"
#include "compiler/import/sizes.h"
#include "compiler/import/tflite/tflite.h"
#include "compiler/rlxb/rlxb.h"
#include "compiler/system/rawfile.h"
#include "ir/shape/verify.h"
#include "ir/text/text.h"

#include <ctype.h>
#include <string.h>

enum { PROBE = 256 }; // bytes that tell text from a protobuf message

// Past white space, comment lines ("# ...") and a byte order mark.
static size_t skip_comments(const RawFile *f)
{
    size_t at = f->len >= 3 && memcmp(f->data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < f->len) {
        if (f->data[at] == '#') {
            const char *end = memchr(f->data + at, '\n', f->len - at);
            at = end ? (size_t)(end - f->data) : f->len;
        } else if (f->data[at] && strchr(" \t\r\n", f->data[at])) {
            at++;
        } else {
            break;
        }
    }
    return at;
}

static bool has_word(const RawFile *f, size_t at, const char *word)
{
    size_t n = strlen(word);
    return f->len - at > n && memcmp(f->data + at, word, n) == 0 && strchr(" \t\r\n\"{", f->data[at + n]);
}

// A message of ModelProto soon has a byte below tab (a version, a short length); text has none.
static bool is_text(const RawFile *f)
{
    for (size_t i = 0; i < f->len && i < PROBE; i++)
        if ((unsigned char)f->data[i] < '\t')
            return false;
    return true;
}

// The parser checks line by line (it also reads what passes print); a model must hold as a whole too.
static bool import_text(Arena *a, Diag *d, uint32_t file, Graph **out)
{
    if (!graph_parse(a, d, file, out))
        return false;
    const char *broken = graph_verify(*out, STAGE_IMPORTED);
    return !broken || diag_error(d, (Span){.file = file}, E0209, "%s", broken);
}

// What files begin with that are often given in place of a model, whatever they are called.
static const struct {
    uint32_t at, len;
    const char *begin, *wrong;
} known[] = {
    {0, 23, "version https://git-lfs",
     "this is a pointer of Git LFS, not the file itself: fetch it with `git lfs pull`"},
    {0, 9, "<!doctype", "this is an HTML page, not a model: a login or an error was downloaded perhaps"},
    {0, 5, "<html", "this is an HTML page, not a model: a login or an error was downloaded perhaps"},
    {0, 4, "PK\3\4",
     "this is a zip archive, as PyTorch (.pt, .pth) and Keras (.keras) write them: export the model as ONNX "
     "(torch.onnx.export), or unpack the archive"},
    {0, 2, "\x80\2",
     "this is a pickled Python object, as older versions of PyTorch write (.pt, .pth): export the model as "
     "ONNX (torch.onnx.export)"},
    {0, 4, "\x89HDF", "this is an HDF5 file, as Keras writes (.h5): export the model as ONNX (tf2onnx)"},
};

static const char *known_as(const RawFile *f)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t same = 0;
        rlx_assert(strlen(known[i].begin) == known[i].len);
        while (same < known[i].len && known[i].at + same < f->len &&
               (f->data[known[i].at + same] == known[i].begin[same] ||
                tolower((unsigned char)f->data[known[i].at + same]) == known[i].begin[same]))
            same++;
        if (same == known[i].len)
            return known[i].wrong;
    }
    return NULL;
}

// Names of files that are no ONNX. They count only where the content says nothing.
static const struct {
    const char *suffix, *wrong;
} named[] = {
    {".json", "expected '{', with which a JSON model begins"},
    {".rlx", "expected `graph`, with which IR text begins"},
    {".safetensors",
     "expected a model; a .safetensors file has weights only, for the model that names it, or for the "
     "config.json beside it: then give the folder"},
    {".npy", "expected a model; an .npy file has the elements of one array only"},
};

static const char *wrong_for_its_name(const char *path)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (str_ends_with(path, named[i].suffix))
            return named[i].wrong;
    return NULL;
}

// What no reader takes. False: reported.
static bool refuse(Diag *d, const char *path, const RawFile *f)
{
    const char *wrong = known_as(f) ? known_as(f) : wrong_for_its_name(path);
    if (f->len == 0)
        wrong = "the file is empty";
    else if (wrong == NULL)
        wrong = "the file is neither JSON (starts with '{'), .rlxb, IR text (starts with `graph`), .tflite, "
                "GGUF nor ONNX";
    return diag_error(d, (Span){diag_add_file(d, path, NULL, 0), 0, 0, NULL}, E0108, "%s", wrong);
}

bool import_model(Arena *a, Diag *d, const char *path, Graph **out)
{
    return import_model_with(a, d, path, &(ImportOptions){0}, out);
}

// Options that say something to language models only: other models are not taken with them.
static bool check_language(Diag *d, const LlmOptions *o)
{
    const struct {
        bool is_given;
        const char *option, *what;
    } given[] = {
        {o->n_adapters != 0, "--lora", "adapters"}, {o->slots != 0, "--slots", "slots"},
        {o->drafts != 0, "--drafts", "drafts"},     {o->context != 0, "--context", "a context"},
        {o->has_f16_caches, "--kv", "caches"},      {o->has_rings, "--windows", "caches"},
        {o->outputs != 0, "--outputs", "outputs"},
    };
    for (uint32_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].is_given)
            return diag_error(d, (Span){0}, E0003,
                              "%s: only language models in GGUF files and folders take %s", given[i].option,
                              given[i].what);
    return true;
}

// Applies options to graphs of the formats that do not depend on them.
static bool apply(Graph *g, const ImportOptions *o, bool is_tflite)
{
    rlx_assert(g != NULL);
    for (uint32_t i = 0; i < o->n_values; i++)
        if (!o->values[i].is_optional)
            return diag_error(g->diag, (Span){0}, E0003, "--value %s: only ONNX models take values",
                              o->values[i].name);
    if (o->signature != NULL && !is_tflite && o->llm.part == NULL)
        return diag_error(g->diag, (Span){0}, E0003,
                          "--signature %s: only .tflite models and folders of Whisper have signatures",
                          o->signature);
    if (o->custom != NULL && !is_tflite)
        return diag_error(
            g->diag, (Span){0}, E0003,
            "--custom works with ONNX and .tflite models; other models declare their custom ops themselves");
    return sizes_fit(g, o);
}

bool import_model_with(Arena *a, Diag *d, const char *path, const ImportOptions *options, Graph **out)
{
    RawFile f;
    if (hf_is_folder(path)) {
        ImportOptions of_folder = *options;
        of_folder.llm.part = options->signature;
        return import_hf(a, d, path, &of_folder.llm, out) && apply(*out, &of_folder, false);
    }
    if (!rawfile_open(a, d, (Span){0}, path, &f))
        return false;
    size_t at = skip_comments(&f);
    const char *dir = rawfile_folder(a, path);
    const bool is_rlxb = rlxb_is(f.data, f.len);
    const bool is_tflite = tflite_is(f.data, f.len) || (f.len != 0 && str_ends_with(path, ".tflite"));
    const bool is_gguf =
        !is_tflite && (gguf_is(f.data, f.len) || (f.len != 0 && str_ends_with(path, ".gguf")));
    if (!is_gguf && !check_language(d, &options->llm))
        return false;
    if (is_tflite)
        return import_tflite(a, d, &(TflSource){path, f.data, f.len, *options}, out) &&
               apply(*out, options, is_tflite);
    if (is_gguf)
        return rawfile_open_once(d, (Span){0}, path, &f) && // once: its bytes are known by their addresses
               import_gguf(a, d, &(GgufSource){path, f.data, f.len, options->llm}, out) &&
               apply(*out, options, is_tflite);
    if (at < f.len && f.data[at] == '{')
        return import_json(a, d, diag_add_file(d, path, f.data, f.len), dir, out) &&
               apply(*out, options, is_tflite);
    if (has_word(&f, at, "graph"))
        return import_text(a, d, diag_add_file(d, path, f.data, f.len), out) &&
               apply(*out, options, is_tflite);
    if (is_rlxb || (f.len != 0 && str_ends_with(path, ".rlxb")))
        return import_rlxb(a, d, &(RlxbSource){path, f.data, f.len, !options->trusts_data}, out) &&
               apply(*out, options, is_tflite);
    const bool may_be_onnx = f.len != 0 && known_as(&f) == NULL;
    if (may_be_onnx && (str_ends_with(path, ".onnx") || (!is_text(&f) && wrong_for_its_name(path) == NULL)))
        return import_onnx_source(a, d, &(OnnxSource){path, f.data, f.len, dir, *options}, out);
    return refuse(d, path, &f);
}

bool import_export(const Graph *g, const char *path, Diag *d)
{
    static const char *const others[] = {".rlx", ".safetensors", ".npy", ".tflite", NULL};
    for (const char *const *other = others; *other != NULL; other++)
        if (str_ends_with(path, *other))
            return diag_error(d, (Span){0}, E0003,
                              "%s: expected NAME.json, NAME.rlxb or NAME.onnx; rlxc writes no %s", path,
                              *other);
    if (str_ends_with(path, ".onnx"))
        return export_onnx(g, path, d);
    return str_ends_with(path, ".rlxb") ? import_export_rlxb(g, path, d) : import_export_json(g, path, d);
}
