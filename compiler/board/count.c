// SPDX-License-Identifier: Apache-2.0
// A plugin of QEMU that counts, for every function of an emulated program: the instructions that it executed,
// the cycles of a model, and how often it was entered; what a kernel calls counts as its own. A program of
// its own, which is carried as text and compiled where QEMU is. It declares what it needs of QEMU itself, so
// it needs no header.
//
// Build: cc -O2 -shared -fPIC -o count.so count.c
// Use:   qemu-system-arm ... -plugin ./count.so,out=FILE,model=cortex-m4
// A phase ends where the program enters a function called board_mark. Lines of FILE:
// PHASE INSTRUCTIONS CYCLES ENTERED FUNCTION. Everything is the same in every run, to the instruction.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- QEMU's interface, version 1 -----------------------------------------------------------------

typedef uint64_t PluginId;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct qemu_plugin_tb Translated;
typedef struct qemu_plugin_insn Insn;
#define INTERFACE __attribute__((visibility("default"))) extern
INTERFACE void qemu_plugin_register_vcpu_tb_trans_cb(PluginId id, void (*fn)(PluginId, Translated *));
INTERFACE void qemu_plugin_register_vcpu_tb_exec_cb(Translated *tb, void (*fn)(unsigned, void *), int flags,
                                                    void *data);
INTERFACE void qemu_plugin_register_atexit_cb(PluginId id, void (*fn)(PluginId, void *), void *data);
INTERFACE size_t qemu_plugin_tb_n_insns(const Translated *tb);
INTERFACE Insn *qemu_plugin_tb_get_insn(const Translated *tb, size_t i);
INTERFACE uint64_t qemu_plugin_insn_vaddr(const Insn *insn);
INTERFACE size_t qemu_plugin_insn_size(const Insn *insn);
INTERFACE const void *qemu_plugin_insn_data(const Insn *insn);
INTERFACE const char *qemu_plugin_insn_symbol(const Insn *insn);
extern int qemu_plugin_version;
int qemu_plugin_install(PluginId id, const void *info, int argc, char **argv);

// --- the model of cycles -------------------------------------------------------------------------

// A row for each CPU, in cycles beyond 1: no caches, no wait states, nothing at once.
typedef struct Model {
    const char *name;
    uint8_t load;     // a load on its own
    uint8_t after;    // a load right behind another load or store that does not make its address
    uint8_t many;     // each register of a load or store of several
    uint8_t taken;    // a branch that is taken
    uint8_t divide;   // an integer division
    uint8_t wide;     // a product of 64 bits
    uint8_t fused;    // a multiply-add of floats
    uint8_t quotient; // a division or square root of floats
    uint8_t vector;   // one of Armv8.1-M's vectors; a gathered one of four words takes three times as many
} Model;

// M0+, M3, M4: Arm's technical reference manuals (a branch: 1 + P with P = 2). Arm publishes no timing of an
// M33, M7 or M55; the M33 has the M4's row, and those of the M7 and M55, which begin two instructions a cycle
// or overlap vectors, are an upper bound. An M55 computes half a vector in a cycle. RV32: a plain pipeline of
// five stages, in which an instruction for vectors takes as long as another one.
static const Model models[] = {
    {"cortex-m0plus", 1, 1, 1, 1, 0, 0, 0, 0, 0}, {"cortex-m3", 1, 0, 1, 2, 5, 3, 0, 0, 0},
    {"cortex-m4", 1, 0, 1, 2, 5, 0, 2, 13, 0},    {"cortex-m7", 1, 0, 1, 2, 5, 0, 2, 13, 0},
    {"cortex-m33", 1, 0, 1, 2, 5, 0, 2, 13, 0},   {"cortex-m55", 1, 0, 1, 2, 5, 0, 2, 13, 1},
    {"rv32", 1, 1, 0, 2, 32, 0, 3, 20, 0},
};
static const Model *model = &models[2];

typedef enum Kind { PLAIN, LOAD, STORE, BRANCH } Kind;

typedef struct Decoded {
    Kind kind;
    uint32_t cycles; // beyond 1
    int rt, rn;      // of a load: what it makes, and what its address is made of; -1: several, or unknown
} Decoded;

static uint32_t bits_of(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

static Decoded single(int is_load, uint32_t rt, uint32_t rn)
{
    return (Decoded){is_load ? LOAD : STORE, 0, (int)rt, (int)rn};
}

static Decoded several(uint32_t registers)
{
    return (Decoded){PLAIN, registers * model->many, -1, -1};
}

static Decoded decode_thumb16(uint32_t w)
{
    const uint32_t top = w >> 12, low = w & 7, base = w >> 3 & 7;
    if (top == 5) // with an index register; 0 to 2 are stores
        return single((w >> 9 & 7) > 2, low, base);
    if (top >= 6 && top <= 8)
        return single(w >> 11 & 1, low, base);
    if (w >> 11 == 9 || top == 9) // a literal, or of the stack
        return single(top == 4 || (w >> 11 & 1), w >> 8 & 7, top == 4 ? 15 : 13);
    if (top == 12)
        return several(bits_of(w & 0xff));
    if ((w & 0xf600) == 0xb400) // push, pop
        return (Decoded){(w & 0x900) == 0x900 ? BRANCH : PLAIN, bits_of(w & 0x1ff) * model->many, -1, -1};
    const int is_branch = (w & 0xff00) == 0x4700 || top == 13 || top == 14 || (w & 0xf500) == 0xb100;
    return (Decoded){is_branch ? BRANCH : PLAIN, 0, -1, -1};
}

static Decoded decode_float(uint32_t high, uint32_t low)
{
    const uint32_t op = high & 0xffb0;
    if ((high & 0xff20) == 0xed00)
        return single(high >> 4 & 1, 16, high & 15);
    if ((high & 0xfe00) == 0xec00)
        return several(low & 0xff);
    if (op == 0xee80 || ((high & 0xffbf) == 0xeeb1 && (low & 0xc0) == 0xc0))
        return (Decoded){PLAIN, model->quotient, -1, -1};
    const int is_fused =
        (high & 0xff00) == 0xee00 && (op == 0xee00 || op == 0xee10 || op == 0xeea0 || op == 0xee90);
    return (Decoded){PLAIN, is_fused ? model->fused : 0, -1, -1};
}

static int is_vector(uint32_t high, uint32_t low)
{
    return (high & 0xef00) == 0xef00 || ((high & 0xec00) == 0xec00 && (low & 0xe00) == 0xe00);
}

static Decoded decode_thumb32(uint32_t high, uint32_t low)
{
    if (is_vector(high, low)) {
        const int is_gathered = (high & 0xff10) == 0xfd10;
        return (Decoded){PLAIN, (is_gathered ? 3U : 1U) * model->vector, -1, -1};
    }
    if ((high & 0xffcf) == 0xf00f && (low & 0xf001) == 0xc001) // the end of a loop that is known ahead
        return (Decoded){PLAIN, 0, -1, -1};
    if ((high & 0xfe40) == 0xe800)
        return (Decoded){(high & 16) && (low & 0x8000) ? BRANCH : PLAIN, bits_of(low) * model->many, -1, -1};
    if ((high & 0xfff0) == 0xe8d0 && (low & 0xffe0) == 0xf000)
        return (Decoded){BRANCH, 1, -1, -1}; // a table of branches
    if ((high & 0xfe40) == 0xe840)
        return several(2);
    if ((high & 0xf800) == 0xf000 && (low & 0x8000))
        return (Decoded){BRANCH, 0, -1, -1};
    if ((high & 0xfe00) == 0xf800)
        return single(high >> 4 & 1, low >> 12, high & 15);
    if ((high & 0xffd0) == 0xfb90 && (low & 0xf0) == 0xf0)
        return (Decoded){PLAIN, model->divide, -1, -1};
    if ((high & 0xff80) == 0xfb80)
        return (Decoded){PLAIN, model->wide, -1, -1};
    return (high & 0xec00) == 0xec00 ? decode_float(high, low) : (Decoded){PLAIN, 0, -1, -1};
}

static Decoded decode_riscv(uint32_t w)
{
    const uint32_t op = w & 0x7f, rt = w >> 7 & 31, rn = w >> 15 & 31;
    if ((w & 3) != 3) { // compressed, of RV32
        const uint32_t row = (w & 3) << 3 | (w >> 13 & 7);
        const int is_jump = row == 9 || (row >= 13 && row <= 15) || (row == 20 && (w & 0x7c) == 0 && rt != 0);
        if (row == 2 || row == 3 || row == 18 || row == 19)
            return single(1, row < 8 ? 8 + (w >> 2 & 7) : rt, row < 8 ? 8 + (w >> 7 & 7) : 2);
        return (Decoded){is_jump                                          ? BRANCH
                         : row == 6 || row == 7 || row == 22 || row == 23 ? STORE
                                                                          : PLAIN,
                         0, -1, -1};
    }
    if (op == 0x03 || op == 0x07)
        return single(1, rt, rn);
    if (op == 0x33 && w >> 25 == 1)
        return (Decoded){PLAIN, (w >> 14 & 1) ? model->divide : model->wide, -1, -1};
    if (op >= 0x43 && op <= 0x4f)
        return (Decoded){PLAIN, model->fused, -1, -1};
    if (op == 0x53 && ((w >> 27) == 3 || (w >> 27) == 11))
        return (Decoded){PLAIN, model->quotient, -1, -1};
    const int is_branch = op == 0x63 || op == 0x67 || op == 0x6f;
    return (Decoded){is_branch ? BRANCH : op == 0x23 || op == 0x27 ? STORE : PLAIN, 0, -1, -1};
}

static Decoded decode(const Insn *insn)
{
    uint16_t half[2] = {0, 0};
    const size_t n = qemu_plugin_insn_size(insn);
    memcpy(half, qemu_plugin_insn_data(insn), n < sizeof half ? n : sizeof half);
    if (!strncmp(model->name, "rv32", 4))
        return decode_riscv(half[0] | (uint32_t)half[1] << 16);
    return n == 2 ? decode_thumb16(half[0]) : decode_thumb32(half[0], half[1]);
}

// --- counting ------------------------------------------------------------------------------------

typedef struct Function {
    const char *name;
    uint64_t entry; // where it was first, which is where it begins
    uint64_t insns, cycles, entered;
} Function;

// A straight run of instructions, as QEMU translated it.
typedef struct Block {
    uint64_t first, next; // addresses of its first instruction, and of what is behind its last
    uint32_t insns, cycles, function;
    uint8_t ends, is_entry, is_mark;
} Block;

enum { MAX_BLOCKS = 1 << 18, MAX_FUNCTIONS = 4096 };
static Block blocks[MAX_BLOCKS];
static Function functions[MAX_FUNCTIONS];
static uint32_t n_blocks, n_functions, phase;
static const Block *last;
static FILE *out;

static void fail(const char *why)
{
    fprintf(stderr, "count.c: %s\n", why);
    exit(1);
}

static uint32_t find_function(const char *name, uint64_t address)
{
    for (uint32_t i = 0; i < n_functions; i++)
        if (functions[i].name == name || !strcmp(functions[i].name, name))
            return i;
    if (n_functions == MAX_FUNCTIONS)
        fail("too many functions");
    functions[n_functions] = (Function){.name = name, .entry = address}; // QEMU keeps its symbols
    return n_functions++;
}

static void flush(void)
{
    for (uint32_t i = 0; i < n_functions; i++) {
        Function *f = &functions[i];
        if (f->insns != 0 || f->entered != 0)
            fprintf(out, "%u %llu %llu %llu %s\n", phase, (unsigned long long)f->insns,
                    (unsigned long long)f->cycles, (unsigned long long)f->entered, f->name);
        f->insns = f->cycles = f->entered = 0;
    }
    phase++;
}

// The kernels that are being run, each inside of the one before: what a kernel calls counts as its own.
typedef struct Call {
    uint32_t function;
    uint64_t back; // where control returns to
} Call;
enum { MAX_CALLS = 16 };
static Call calls[MAX_CALLS];
static uint32_t n_calls;

static int is_kernel(const char *name) // as rlxc names them: k12_conv
{
    return name[0] == 'k' && name[1] >= '0' && name[1] <= '9';
}

// A loop that begins where its function does is no call.
static int is_called(const Block *b)
{
    return b->is_entry && (last == NULL || last->function != b->function);
}

static void follow_calls(const Block *b)
{
    if (n_calls > 0 && calls[n_calls - 1].back == b->first)
        n_calls--;
    if (last != NULL && is_called(b) && n_calls < MAX_CALLS && is_kernel(functions[b->function].name))
        calls[n_calls++] = (Call){b->function, last->next};
}

static Function *whose(const Block *b)
{
    return &functions[n_calls > 0 ? calls[n_calls - 1].function : b->function];
}

static void executed(unsigned cpu, void *data)
{
    const Block *b = data;
    (void)cpu;
    if (b->is_mark)
        flush();
    if (last != NULL && last->ends == BRANCH && last->next != b->first)
        whose(last)->cycles += model->taken;
    follow_calls(b);
    Function *f = whose(b);
    f->insns += b->insns;
    f->cycles += b->cycles;
    functions[b->function].entered += (uint64_t)is_called(b);
    last = b;
}

// Cycles of one instruction, taken branches apart.
static uint32_t cycles_of(const Decoded *d, const Decoded *before)
{
    const int is_behind = before->kind == STORE || (before->kind == LOAD && before->rt != d->rn);
    return 1 + d->cycles + (d->kind != LOAD ? 0 : is_behind ? model->after : model->load);
}

static void translated(PluginId id, Translated *tb)
{
    const size_t n = qemu_plugin_tb_n_insns(tb);
    const Insn *first = qemu_plugin_tb_get_insn(tb, 0);
    const char *name = qemu_plugin_insn_symbol(first);
    if (n_blocks == MAX_BLOCKS)
        fail("too much code");
    Block *b = &blocks[n_blocks++];
    Decoded before = {PLAIN, 0, -1, -1};
    (void)id;
    *b = (Block){.first = qemu_plugin_insn_vaddr(first), .insns = (uint32_t)n};
    b->function = find_function(name != NULL ? name : "?", b->first);
    b->is_entry = functions[b->function].entry == b->first;
    b->is_mark = b->is_entry && !strcmp(functions[b->function].name, "board_mark");
    for (size_t i = 0; i < n; i++) {
        const Insn *insn = qemu_plugin_tb_get_insn(tb, i);
        const Decoded d = decode(insn);
        b->cycles += cycles_of(&d, &before);
        b->next = qemu_plugin_insn_vaddr(insn) + qemu_plugin_insn_size(insn);
        b->ends = (uint8_t)d.kind;
        before = d;
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, b);
}

static void ended(PluginId id, void *data)
{
    (void)id, (void)data;
    flush();
    if (fclose(out) != 0)
        fail("the file cannot be written");
}

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

__attribute__((visibility("default"))) int qemu_plugin_install(PluginId id, const void *info, int argc,
                                                               char **argv)
{
    const size_t n_models = sizeof models / sizeof *models;
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "out=", 4))
            out = fopen(argv[i] + 4, "w");
        for (size_t k = 0; k < n_models && !strncmp(argv[i], "model=", 6); k++)
            if (!strncmp(argv[i] + 6, models[k].name, strlen(models[k].name)))
                model = &models[k];
    }
    if (out == NULL)
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
