// SPDX-License-Identifier: Apache-2.0
// Evaluates graphs in the text form that need no inputs: `eval_tool FILE...` prints, for each file, a line
// with its name and a line per output: name, element type, sizes, and the bytes of the elements in hex. For
// eval_vs_onnx.py.
#include "ir/eval/eval.h"
#include "ir/text/text.h"

#include <stdlib.h>
#include <string.h>

static char *read_file(Arena *a, const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    Str s = str_new(a);
    char block[4096];
    size_t n;
    if (f == NULL) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(EXIT_FAILURE);
    }
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        str_add_n(&s, block, n);
    fclose(f);
    *len = s.len;
    return arena_strdup(a, str_text(&s));
}

static void print_tensor(const char *name, const Tensor *t)
{
    const unsigned char *bytes = t->data;
    printf("%s %s ", name, dtype_info[t->dtype].name);
    for (uint32_t i = 0; i < t->rank; i++)
        printf("%s%lld", i > 0 ? "," : "", (long long)t->dim[i]);
    printf(" ");
    for (uint64_t i = 0; i < (uint64_t)t->numel * dtype_info[t->dtype].bytes; i++)
        printf("%02x", bytes[i]);
    printf("\n");
}

static void run_file(const char *path)
{
    Arena a = {0};
    Diag d = diag_new(&a);
    size_t len = 0;
    const char *text = read_file(&a, path, &len);
    Graph *g = NULL;
    printf("= %s\n", path);
    bool ok = graph_parse(&a, &d, diag_add_file(&d, path, text, len), &g);
    if (ok) {
        EvalRun run = eval_begin(g, &a, (DimValues){0});
        ok = eval_graph(&run);
        for (uint32_t i = 0; ok && i < g->outputs.len; i++)
            print_tensor(g->outputs.data[i].name, &run.value[g->outputs.data[i].node]);
    }
    if (!ok)
        diag_print(&d, stderr, DIAG_PLAIN);
    fflush(stdout);
    arena_free(&a);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run_file(argv[i]);
    return EXIT_SUCCESS;
}
