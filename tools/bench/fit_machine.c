// SPDX-License-Identifier: Apache-2.0
// What tools/fit-machine runs: prints one line "name value" for each figure of a CPU that can be measured, in
// GHz, GFLOP/s, GB/s of each core, and nanoseconds. Built on the probe of `rlxc bench`, with the instructions
// of the machine that compiles it. Usage: fit_machine L1_BYTES L2_BYTES L3_BYTES CORES
#include "compiler/bench/probe.c"

#include <sched.h>
#include <stdio.h>

enum {
    CLOCK_STEPS = 50000,
    LATENCY_STEPS = 10000,
    PAIR_CHAINS = 12,
    TIMES = 60,
    LINE = 64,
    WORD_STEP = LINE / sizeof(uint32_t)
};
enum { N_LINES = 2048, HAND_OVERS = 40, BARRIERS = 2000 };

// --- one core ------------------------------------------------------------------------------------

static double shortest(double (*seconds)(void))
{
    double best = 1;
    for (int i = 0; i < TIMES; i++) { // each so short that other programs leave some of them alone
        const double one = seconds();
        best = one < best ? one : best;
    }
    return best;
}

// A chain of operations that take a cycle each.
static double chain_seconds(void)
{
    uint64_t x = 1, k = (uint64_t)(now() * 1e6) | 1;
    const double start = now();
    for (int i = 0; i < CLOCK_STEPS; i++) {
#define STEP2                                                                                                \
    x ^= k;                                                                                                  \
    __asm__ volatile("" : "+r"(x));                                                                          \
    x += k;                                                                                                  \
    __asm__ volatile("" : "+r"(x));
        STEP2 STEP2 STEP2 STEP2
    }
    return (now() - start) / (8.0 * CLOCK_STEPS);
}

// From the beginning of a multiply-add to the beginning of one that needs its result.
static double latency_seconds(void)
{
    const float zero = (float)(now() < 0);
    const Vec factor = (Vec){0} + 0.999f + zero, addend = (Vec){0} + 1e-3f + zero;
    Vec sum = factor;
    const double start = now();
    for (int step = 0; step < LATENCY_STEPS; step++) {
#define NEXT                                                                                                 \
    sum = sum * factor + addend;                                                                             \
    __asm__ volatile("" : REG(sum));
        NEXT NEXT NEXT NEXT
    }
    return (now() - start) / (4.0 * LATENCY_STEPS);
}

#if defined(__AVX512BF16__)
// Sums of two products of bf16 each, in so many chains that none waits for another.
static double pairs_seconds(void)
{
    const double start = now();
    for (int step = 0; step < LATENCY_STEPS; step++)
        __asm__ volatile("vdpbf16ps %%zmm16, %%zmm16, %%zmm17\n\tvdpbf16ps %%zmm16, %%zmm16, %%zmm18\n\t"
                         "vdpbf16ps %%zmm16, %%zmm16, %%zmm19\n\tvdpbf16ps %%zmm16, %%zmm16, %%zmm20\n\t"
                         "vdpbf16ps %%zmm16, %%zmm16, %%zmm21\n\tvdpbf16ps %%zmm16, %%zmm16, %%zmm22\n\t"
                         "vdpbf16ps %%zmm16, %%zmm16, %%zmm23\n\tvdpbf16ps %%zmm16, %%zmm16, %%zmm24\n\t"
                         "vdpbf16ps %%zmm16, %%zmm16, %%zmm25\n\tvdpbf16ps %%zmm16, %%zmm16, %%zmm26\n\t"
                         "vdpbf16ps %%zmm16, %%zmm16, %%zmm27\n\tvdpbf16ps %%zmm16, %%zmm16, %%zmm28"
                         :
                         :
                         : "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",
                           "xmm26", "xmm27", "xmm28");
    return (now() - start) / (PAIR_CHAINS * (double)LATENCY_STEPS);
}

static void print_pairs(void)
{
    __asm__ volatile("vpxord %%zmm16, %%zmm16, %%zmm16" : : : "xmm16");
    printf("pairs %.4g\n", 4e-9 * LANES / shortest(pairs_seconds));
}
#else
static void print_pairs(void) {}
#endif

// --- two cores -----------------------------------------------------------------------------------

// Lines that go from one thread to another: each holds the number of the next one in a random cycle.
typedef struct HandOver {
    uint32_t *words;
    uint32_t order[N_LINES];
    volatile int turn; // 0: of the thread that writes, 1: of the one that reads, 2: end
    volatile int arrived[2][WORD_STEP];
} HandOver;

static void stay_on(int core)
{
#if defined(__linux__)
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all) && core-- == 0)
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
#else
    (void)core;
#endif
}

static void wait_for(const volatile int *value, int wanted)
{
    for (unsigned spins = 0; __atomic_load_n(value, __ATOMIC_ACQUIRE) < wanted; spins++)
        if (spins % 4096 == 4095)
            sched_yield(); // the other one may need this core
}

static void write_lines(HandOver *h)
{
    for (uint32_t i = 0; i < N_LINES; i++)
        h->words[h->order[i] * WORD_STEP] = h->order[(i + 1) % N_LINES];
}

static void *write_in_turn(void *arg)
{
    HandOver *h = arg;
    stay_on(1);
    for (int i = 0; i < 2 * HAND_OVERS; i++) {
        while (__atomic_load_n(&h->turn, __ATOMIC_ACQUIRE) != 0)
            sched_yield();
        write_lines(h);
        __atomic_store_n(&h->turn, 1, __ATOMIC_RELEASE);
    }
    for (int i = 1; i <= BARRIERS; i++) {
        __atomic_store_n(&h->arrived[1][0], i, __ATOMIC_RELEASE);
        wait_for(&h->arrived[0][0], i);
    }
    return NULL;
}

static double read_chain(const HandOver *h)
{
    const double start = now();
    uint32_t at = h->order[0];
    for (int i = 0; i < N_LINES; i++)
        at = h->words[at * WORD_STEP];
    const double seconds = now() - start;
    __asm__ volatile("" ::"r"(at));
    return seconds;
}

static double read_in_order(const HandOver *h)
{
    const double start = now();
    uint32_t sum = 0;
    for (size_t i = 0; i < (size_t)N_LINES * WORD_STEP; i++)
        sum += h->words[i];
    __asm__ volatile("" ::"r"(sum));
    return now() - start;
}

static double hand_over(HandOver *h, double (*read)(const HandOver *h))
{
    double best = 1;
    for (int i = 0; i < HAND_OVERS; i++) {
        wait_for(&h->turn, 1);
        const double seconds = read(h);
        best = seconds < best ? seconds : best;
        __atomic_store_n(&h->turn, 0, __ATOMIC_RELEASE);
    }
    return best / N_LINES * 1e9;
}

// The shortest of ten parts of the barriers.
static double meet(HandOver *h)
{
    double best = 1, start = now();
    for (int i = 1; i <= BARRIERS; i++) {
        __atomic_store_n(&h->arrived[0][0], i, __ATOMIC_RELEASE);
        wait_for(&h->arrived[1][0], i);
        if (i % (BARRIERS / 10) == 0) {
            const double end = now();
            best = end - start < best ? end - start : best;
            start = end;
        }
    }
    return best / (BARRIERS / 10) * 1e9;
}

static void print_two_cores(void)
{
    static HandOver h;
    pthread_t other;
    uint64_t random = 12345;
    h.words = aligned_alloc(4096, (size_t)N_LINES * LINE);
    if (h.words == NULL)
        return;
    for (uint32_t i = 0; i < N_LINES; i++)
        h.order[i] = i;
    for (uint32_t i = N_LINES - 1; i > 0; i--) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint32_t k = (uint32_t)(random >> 33) % (i + 1), kept = h.order[i];
        h.order[i] = h.order[k];
        h.order[k] = kept;
    }
    if (pthread_create(&other, NULL, write_in_turn, &h) != 0)
        return;
    stay_on(0);
    printf("line %.4g\nlines %.4g\n", hand_over(&h, read_chain), hand_over(&h, read_in_order));
    printf("barrier %.4g\n", meet(&h));
    pthread_join(other, NULL);
    free(h.words);
}

// --- all -----------------------------------------------------------------------------------------

static void print_rate(const char *name, size_t bytes, int cores)
{
    printf("%s %.4g\n", name, rlx_probe_read(bytes * (size_t)cores, cores) / cores);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    const size_t l1 = strtoul(argv[1], NULL, 10), l2 = strtoul(argv[2], NULL, 10),
                 l3 = strtoul(argv[3], NULL, 10), most = (size_t)1 << 30;
    const long given = strtol(argv[4], NULL, 10);
    const int cores = given < MAX_THREADS ? (int)given : MAX_THREADS;
    const size_t share = l3 / (size_t)cores / 2, middle = share > 2 * l2 ? share : 2 * l2,
                 far = 3 * l3 < most ? 3 * l3 : most;
    printf("lanes %d\nghz %.4g\n", LANES, 1e-9 / shortest(chain_seconds));
    printf("fma %.4g\nlatency %.4g\n", rlx_probe_peak(1), shortest(latency_seconds) * 1e9);
    print_pairs();
    print_rate("loads", l1 / 2, 1);
    print_rate("l2", l2 / 2, 1);
    print_rate("l3", middle, 1);
    print_rate("memory", far, 1);
    print_rate("shared", far / (size_t)cores, cores);
    if (cores > 1)
        print_two_cores();
    return 0;
}
