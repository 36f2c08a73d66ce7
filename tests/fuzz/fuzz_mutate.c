// SPDX-License-Identifier: Apache-2.0
// Feeds mutated model files to the readers, in process: `fuzz_mutate FORMAT COUNT FIRST SEED...`. Mutation
// number n of a format and its seeds is always the same bytes, so a failure is repeated by COUNT 1 and FIRST
// n (and -o FILE keeps the input). It fails on a crash, a sanitizer report, an exit, more than 10 s or 64 MiB
// for one input, a reader that fails without a message or succeeds with one, and on a graph that the verifier
// refuses or that changes when it is printed and read back. What was read is compiled as far as C text.
#include "codegen/host.h"
#include "compiler/import/import.h"
#include "compiler/import/npy.h"
#include "compiler/import/onnx.h"
#include "compiler/import/safetensors.h"
#include "compiler/pipeline.h"
#include "compiler/rlxb/codec.h"
#include "compiler/rlxb/rlxb.h"
#include "ir/text.h"
#include "ir/verify.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { INPUT_CAP = 1 << 16, MAX_SEEDS = 64, SECONDS = 10, MAX_ARENA = 64 << 20, MAX_RSS_KIB = 2 << 20 };

typedef struct Bytes {
    unsigned char *data; // INPUT_CAP
    size_t len;
} Bytes;

typedef struct Format Format;
struct Format {
    const char *name;
    bool (*read)(Arena *a, Diag *d, const Bytes *in, Graph **out);
    const char *words; // what to insert
    void (*seal)(Bytes *in, unsigned long long iteration); // makes the mutated input plausible, or NULL
};

// --- the readers ---------------------------------------------------------------------------------------

static bool read_json(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    return import_json(a, d, diag_add_file(d, "fuzz.json", (const char *)in->data, in->len),
                       "/no/such/folder", out);
}

// As import_model does, which verifies what the parser takes line by line.
static bool read_text(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    uint32_t file = diag_add_file(d, "fuzz.rlx", (const char *)in->data, in->len);
    if (!graph_parse(a, d, file, out))
        return false;
    const char *broken = graph_verify(*out, STAGE_IMPORTED);
    return !broken || diag_error(d, (Span){.file = file}, E0209, "%s", broken);
}

static bool read_onnx(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    return import_onnx(a, d, "fuzz.onnx", in->data, in->len, "/no/such/folder", out);
}

// With values and sizes for what the seeds call their inputs.
static bool read_given(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    static const struct {
        const char *name;
        int64_t n, v[4];
    } given[] = {{"v", 2, {3, 2}},       {"c", 1, {7}},    {"s", 1, {1}}, {"e", 1, {3}},
                 {"p", 4, {0, 1, 0, 1}}, {"w", 2, {1, 4}}, {"k", 1, {2}}, {"x", 4, {1, 2, 3, 4}}};
    enum { N = sizeof given / sizeof *given };
    ImportValue values[N];
    const ImportSize sizes[] = {{.name = "n", .value = 2},
                                {.name = "batch", .value = 4, .min = 1, .is_range = true},
                                {.name = "2*seq + 1", .value = 9}};
    for (size_t i = 0; i < N; i++) {
        const Tensor t = tensor_new(a, DTYPE_i64, 1, &given[i].n);
        memcpy(t.data, given[i].v, (size_t)given[i].n * sizeof *given[i].v);
        values[i] = (ImportValue){.name = given[i].name, .value = t, .is_list = true, .is_optional = true};
    }
    const ImportShape shape = {.name = "x", .rank = 2, .dim = {2, 3}, .origin = "given"};
    const OnnxSource source = {.name = "fuzz.onnx",
                               .data = in->data,
                               .len = in->len,
                               .dir = "/no/such/folder",
                               .options = {.sizes = sizes,
                                           .n_sizes = 3,
                                           .shapes = &shape,
                                           .n_shapes = 1,
                                           .values = values,
                                           .n_values = N,
                                           .has_all_inputs = true}};
    return import_onnx_source(a, d, &source, out);
}

static bool read_npy(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    Tensor t;
    *out = NULL;
    return npy_read(a, d, (Span){0}, "fuzz.npy", in->data, in->len, &t);
}

static bool read_safetensors(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    SafeTensors f;
    *out = NULL;
    return safetensors_read(a, d, (Span){0}, "fuzz.safetensors", in->data, in->len, &f);
}

// Lengths and checksum of an .rlxb file that was mutated, so that what is behind them is read: but for one
// input of eight, and where the graph section would be longer than the file.
static void seal_rlxb(Bytes *in, unsigned long long iteration)
{
    Arena scratch = {0};
    if (iteration % 8 == 7 || in->len < RLXB_HEADER)
        return;
    const uint64_t said = rlxb_get(in->data + 24, 8), most = in->len - RLXB_HEADER,
                   graph = said < most ? said : most;
    Str h = str_new(&scratch);
    rlxb_put(&h, in->len, 8);
    rlxb_put(&h, graph, 8);
    rlxb_put(&h, (RLXB_HEADER + graph + RLXB_ALIGN - 1) / RLXB_ALIGN * RLXB_ALIGN, 8);
    memcpy(in->data + 16, h.data, h.len);
    h.len = 0;
    rlxb_put(&h, rlxb_checksum(in->data, (size_t)graph), 8);
    memcpy(in->data + RLXB_HASHED, h.data, h.len);
    arena_free(&scratch);
}

static bool read_rlxb(Arena *a, Diag *d, const Bytes *in, Graph **out)
{
    return import_rlxb(a, d, &(RlxbSource){"fuzz.rlxb", in->data, in->len, false}, out);
}

// Words are separated by spaces.
static const char json_words[] =
    "\"inputs\" \"outputs\" \"nodes\" \"op\" \"name\" \"states\" \"next\" \"weights\" \"data\" "
    "\"shape\" \"dtype\" \"axis\" \"symbols\" \"i64\" \"bool\" \"f16\" \"u8\" \"matmul\" \"conv\" "
    "\"reshape\" \"gather\" \"slice\" \"concat\" \"reduce_sum\" \"attention\" \"lstm\" \"resize\" "
    "\"expand\" \"pad\" \"if\" \"split\" \"where\" \"transpose\" \"unsqueeze\" \"flatten\" "
    "\"cumsum\" \"max_pool\" \"nan\" \"2*n+1\" \"floor(n/2)\" null true [ ] { } , : [[[[[[[[ "
    "\"\\u00e9\" -0.0";
static const char text_words[] =
    "graph symbol input param state const output -> %1 %2 %3 f32[ i64[ hex\" multiple { } [ ] ( ) \" "
    "# : = add( matmul( reshape( conv( if( result( split( attention( axis= shape= pads= floor(n/2) "
    "nan -inf bool[]";
static const char onnx_words[] =
    "Add MatMul Conv Reshape Gather Slice Concat Resize If Loop LSTM Split Cast Unsqueeze Transpose "
    "Expand Pad Range Shape Where axis axes perm to x y \x08\x01 \x12\x00 \x1a\x03 "
    "\x0a\xff\xff\xff\xff\x0f \x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01";
static const char rlxb_words[] =
    "\x01\x01\x01\x01 \xff\xff\xff\xff \x80 \x80\x80\x80 add matmul const loop if \x02 \x03 \x09";
static const char file_words[] =
    "'shape' ( ,) True 'descr' '<f8' \"F64\" \"shape\" [0,0] { } [ ] \"data_offsets\" \"BOOL\"";

static const Format formats[] = {
    {"json", read_json, json_words, NULL},  {"irtext", read_text, text_words, NULL},
    {"onnx", read_onnx, onnx_words, NULL},  {"given", read_given, onnx_words, NULL},
    {"npy", read_npy, file_words, NULL},    {"safetensors", read_safetensors, file_words, NULL},
    {"rlxb", read_rlxb, rlxb_words, seal_rlxb},
};

// --- mutations -----------------------------------------------------------------------------------------

static uint64_t random_state;

// splitmix64
static uint64_t random_bits(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

// Below n; 0 for n = 0.
static size_t pick(size_t n)
{
    return n ? (size_t)(random_bits() % n) : 0;
}

// Puts n bytes in the place of `cut` bytes at `at`.
static void replace(Bytes *b, size_t at, size_t cut, const void *bytes, size_t n)
{
    if (at > b->len || cut > b->len - at || b->len - cut + n > INPUT_CAP)
        return;
    memmove(b->data + at + n, b->data + at + cut, b->len - at - cut);
    if (n)
        memmove(b->data + at, bytes, n);
    b->len += n - cut;
}

static void flip_bit(Bytes *b)
{
    if (b->len)
        b->data[pick(b->len)] ^= (unsigned char)(1u << pick(8));
}

static void set_byte(Bytes *b)
{
    static const unsigned char values[] = {0, 1, 2, 7, 8, 9, 16, '0', '"', 0x7f, 0x80, 0xfe, 0xff};
    if (b->len)
        b->data[pick(b->len)] = pick(2) ? values[pick(sizeof values)] : (unsigned char)pick(256);
}

static void cut_range(Bytes *b)
{
    size_t at = pick(b->len), n = pick(pick(4) ? 8 : b->len) + 1;
    replace(b, at, n > b->len - at ? b->len - at : n, NULL, 0);
}

static void repeat_range(Bytes *b)
{
    unsigned char copy[4096];
    size_t from = pick(b->len), n = pick(64) + 1;
    n = n > b->len - from ? b->len - from : n;
    size_t times = pick(8) ? 1 : pick(32) + 1;
    memcpy(copy, b->data + from, n);
    for (size_t at = pick(b->len + 1); times > 0; times--)
        replace(b, at, 0, copy, n);
}

static void truncate_input(Bytes *b)
{
    b->len = pick(b->len + 1);
}

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

// Another number where one stands.
static void change_number(Bytes *b)
{
    static const char *const numbers[] = {"0",
                                          "1",
                                          "2",
                                          "-1",
                                          "3",
                                          "7",
                                          "8",
                                          "9",
                                          "16",
                                          "64",
                                          "255",
                                          "65536",
                                          "2147483648",
                                          "4294967296",
                                          "1099511627776",
                                          "1099511627777",
                                          "9007199254740993",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "18446744073709551616",
                                          "1e400",
                                          "1e-400",
                                          "0.5",
                                          "-0",
                                          "1e12",
                                          "4611686018427387904",
                                          "-4611686018427387904",
                                          "00",
                                          "1e5"};
    size_t at = pick(b->len), end;
    while (at < b->len && !is_digit(b->data[at]))
        at++;
    for (end = at; end < b->len && is_digit(b->data[end]);)
        end++;
    const char *text = numbers[pick(sizeof numbers / sizeof *numbers)];
    if (at < b->len)
        replace(b, at, end - at, text, strlen(text));
}

// The [begin, end) of a quoted text at or after a random place; false when there is none.
static bool find_quoted(const Bytes *b, size_t *begin, size_t *end)
{
    const unsigned char *from = b->data + pick(b->len), *stop = b->data + b->len;
    const unsigned char *open = memchr(from, '"', (size_t)(stop - from));
    const unsigned char *close =
        open && open + 1 < stop ? memchr(open + 1, '"', (size_t)(stop - open - 1)) : NULL;
    if (!close)
        return false;
    *begin = (size_t)(open - b->data);
    *end = (size_t)(close + 1 - b->data);
    return true;
}

// One name where another stands: wrong operands, repeated names, members in the wrong place.
static void swap_quoted(Bytes *b)
{
    unsigned char copy[256];
    size_t from = 0, from_end = 0, to = 0, to_end = 0;
    if (!find_quoted(b, &from, &from_end) || !find_quoted(b, &to, &to_end) || from_end - from > sizeof copy)
        return;
    memcpy(copy, b->data + from, from_end - from);
    replace(b, to, to_end - to, copy, from_end - from);
}

static void insert_word(Bytes *b, const Format *f)
{
    size_t at = pick(b->len + 1), begin = 0, end = 0;
    const char *word = f->words + pick(strlen(f->words));
    while (word > f->words && word[-1] != ' ')
        word--;
    size_t n = strcspn(word, " ");
    if (pick(2) && find_quoted(b, &begin, &end))
        replace(b, begin, end - begin, word, n);
    else
        replace(b, at, pick(3) ? 0 : pick(b->len - at < 8 ? b->len - at : 8), word, n);
}

// The head of this input and the tail of another.
static void splice(Bytes *b, const Bytes *other)
{
    size_t head = pick(b->len + 1), tail = pick(other->len + 1);
    b->len = head;
    replace(b, head, 0, other->data + tail, other->len - tail);
}

static void mutate(Bytes *b, const Format *f, const Bytes *seeds, size_t n_seeds)
{
    static void (*const simple[])(Bytes *) = {flip_bit,     set_byte,      set_byte,      cut_range,
                                              repeat_range, change_number, change_number, swap_quoted};
    enum { N_SIMPLE = sizeof simple / sizeof *simple };
    size_t kind = pick(N_SIMPLE + 6);
    if (!b->len)
        return;
    if (kind < N_SIMPLE)
        simple[kind](b);
    else if (kind < N_SIMPLE + 4)
        insert_word(b, f);
    else if (kind == N_SIMPLE + 4)
        splice(b, &seeds[pick(n_seeds)]);
    else if (!pick(4))
        truncate_input(b);
}

// --- running -------------------------------------------------------------------------------------------

static struct {
    const Format *format;
    unsigned long long iteration;
    bool is_done;
    FILE *sink; // where messages go
} run;

static void say_where(void)
{
    char text[128];
    int n = snprintf(text, sizeof text, "fuzz_mutate: %s: mutation %llu failed\n", run.format->name,
                     run.iteration);
    if (write(STDERR_FILENO, text, (size_t)n) != n)
        _exit(3);
}

static void on_exit_early(void)
{
    if (!run.is_done)
        say_where();
}

static void on_signal(int number)
{
    say_where();
    signal(number, SIG_DFL);
    raise(number);
}

static void fail(const char *why)
{
    fprintf(stderr, "fuzz_mutate: %s\n", why);
    exit(1);
}

// A graph that was read is printed, read back, and printed the same.
static void check_graph(Arena *a, Graph *g)
{
    const char *broken = graph_verify(g, STAGE_IMPORTED);
    if (broken)
        fail(broken);
    Str first = str_new(a), second = str_new(a);
    Graph *back = NULL;
    Diag d = diag_new(a);
    graph_print(g, &first, TEXT_FULL);
    if (!graph_parse(a, &d, diag_add_file(&d, "printed", first.data, first.len), &back)) {
        diag_print(&d, stderr, DIAG_PLAIN);
        fail("the printed graph does not parse");
    }
    graph_print(back, &second, TEXT_FULL);
    if (strcmp(str_text(&first), str_text(&second)) != 0) {
        fprintf(stderr, "--- printed\n%s--- read back and printed\n%s", str_text(&first), str_text(&second));
        fail("the printed graph reads back differently");
    }
}

// A graph that was read is compiled as far as C text: a diagnostic or a valid plan, for both kinds of CPU.
static void compile_graph(Arena *a, Diag *d, Graph *g)
{
    static const char *const cpus[] = {"generic", "x86-64-v4"};
    CpuInfo cpu;
    const Target *target = target_find("c");
    if (!cpu_find(cpus[run.iteration % 2], &cpu))
        fail("no such CPU");
    const TargetCaps caps = target_caps(target, &cpu);
    PipelineOptions o = {.opt_level = run.iteration % 3 == 0 ? 0 : 3, .caps = &caps, .report = run.sink};
    for (uint32_t i = 0; i < g->dims->symbols.len; i++) {
        const Symbol *s = &g->dims->symbols.data[i];
        vec_push(a, &o.dims, ((ImportSize){.name = s->name, .value = s->dflt != 0 ? s->dflt : s->min}));
    }
    Plan *plan = NULL;
    Emitted out;
    const HostOptions host = {.name = "fuzz",
                              .compiler = "rlxc",
                              .cc_flags = cpu.cc_flags,
                              .cpu = cpu.name,
                              .weights = WEIGHTS_FILE};
    const bool ok = pipeline_run(a, d, g, &o, &plan) && host_emit(a, d, target, plan, &host, &out);
    if (ok != (d->n_errors == 0))
        fail(ok ? "compiled with an error" : "not compiled, without an error");
}

static bool try_input(Arena *a, const Bytes *in)
{
    Diag d = diag_new(a);
    Graph *g = NULL;
    alarm(SECONDS);
    bool ok = run.format->read(a, &d, in, &g);
    if (ok != (d.n_errors == 0))
        fail(ok ? "read with an error" : "refused without an error");
    diag_print(&d, run.sink, DIAG_PLAIN);
    if (a->used > MAX_ARENA)
        fail("used more than 64 MiB");
    if (ok && g) {
        check_graph(a, g);
        compile_graph(a, &d, g);
    }
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > MAX_RSS_KIB)
        fail("the process grew beyond 2 GiB");
    return ok;
}

static Bytes read_file(Arena *a, const char *path)
{
    Bytes b = {arena_alloc(a, INPUT_CAP), 0};
    FILE *f = fopen(path, "rb");
    if (f) {
        b.len = fread(b.data, 1, INPUT_CAP, f);
        fclose(f);
    }
    if (!b.len) {
        fprintf(stderr, "fuzz_mutate: cannot read %s\n", path);
        exit(2);
    }
    return b;
}

// Sanitizers have their own exit, which atexit does not see.
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void watch(void)
{
    static const int signals[] = {SIGALRM, SIGABRT, SIGBUS};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], on_signal);
    atexit(on_exit_early);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(say_where);
    } else { // the sanitizers reserve address space without end
        struct rlimit limit = {(rlim_t)MAX_RSS_KIB << 10, (rlim_t)MAX_RSS_KIB << 10};
        signal(SIGSEGV, on_signal);
        setrlimit(RLIMIT_AS, &limit);
    }
}

static Bytes make_input(Arena *a, const Bytes *seeds, size_t n_seeds)
{
    random_state = run.iteration * UINT64_C(0x2545f4914f6cdd1d) + 1;
    const Bytes *seed = &seeds[pick(n_seeds)];
    Bytes in = {arena_alloc(a, INPUT_CAP), seed->len};
    memcpy(in.data, seed->data, seed->len);
    for (size_t n = pick(2) ? 1 : pick(5) + 1; n > 0; n--)
        mutate(&in, run.format, seeds, n_seeds);
    if (run.format->seal)
        run.format->seal(&in, run.iteration);
    return in;
}

static void write_input(const char *path, const Bytes *in)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(in->data, 1, in->len, f) != in->len || fclose(f) != 0)
        fail("cannot write the input");
}

static const Format *find_format(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

int main(int argc, char **argv)
{
    Arena perm = {0}, scratch = {0};
    Bytes seeds[MAX_SEEDS];
    size_t n_seeds = 0;
    const char *keep = NULL;
    run.format = argc > 4 ? find_format(argv[1]) : NULL;
    if (!run.format) {
        fprintf(stderr,
                "usage: fuzz_mutate json|irtext|onnx|given|npy|safetensors|rlxb COUNT FIRST [-o FILE] "
                "SEED...\n");
        return 2;
    }
    unsigned long long count = strtoull(argv[2], NULL, 10), first = strtoull(argv[3], NULL, 10), n_read = 0;
    run.is_done = true;
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
            keep = argv[++i];
        else if (n_seeds < MAX_SEEDS)
            seeds[n_seeds++] = read_file(&perm, argv[i]);
    }
    run.sink = fopen("/dev/null", "w");
    run.is_done = false;
    watch();
    for (size_t i = 0; i < n_seeds; i++, arena_reset(&scratch))
        if (!try_input(&scratch, &seeds[i]))
            fail("a seed is refused"); // mutations of a wrong seed test little
    for (run.iteration = first; run.iteration < first + count; run.iteration++, arena_reset(&scratch)) {
        Bytes in = make_input(&scratch, seeds, n_seeds);
        if (keep)
            write_input(keep, &in);
        n_read += try_input(&scratch, &in);
    }
    run.is_done = true;
    printf("%s: %llu mutations of %zu seeds, %llu of them read\n", run.format->name, count, n_seeds, n_read);
    fclose(run.sink);
    arena_free(&scratch);
    arena_free(&perm);
    return 0;
}
