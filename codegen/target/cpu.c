// SPDX-License-Identifier: Apache-2.0
// The table of CPUs, and the resolution of "native". Separate from the targets because it alone looks at the
// machine it runs on.
#include "codegen/target/target.h"

#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/auxv.h>
#include <sys/syscall.h>
#endif

typedef struct CpuRow {
    CpuInfo info;
    CpuMachineId machine;
} CpuRow;

static const CpuRow cpus[] = {
#define CPU(name, flags, lanes, regs, machine, features)                                                     \
    {{name, flags, lanes, regs, features, {0}}, CPU_MACHINE_##machine},
#define CPU_FAMILY(...)
#include "codegen/target/cpus.def"
#undef CPU
#undef CPU_FAMILY
};

const char *const cpu_names[] = {
#define CPU(name, flags, lanes, regs, machine, features) name,
#define CPU_FAMILY(...)
#include "codegen/target/cpus.def"
#undef CPU
#undef CPU_FAMILY
    "native", NULL};

typedef struct CpuFamily {
    const char *maker;
    uint32_t family;
    const char *name;
} CpuFamily;

static const CpuFamily families[] = {
#define CPU(...)
#define CPU_FAMILY(maker, family, name) {maker, family, name},
#include "codegen/target/cpus.def"
#undef CPU
#undef CPU_FAMILY
};

enum { N_CPUS = sizeof cpus / sizeof *cpus };

#if defined(__x86_64__)
// AMX with bf16 and bytes, and a system that lets this process use its registers.
static bool has_matrix(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum {
        AMX_BF16 = 1 << 22,
        AMX_TILE = 1 << 24,
        AMX_INT8 = 1 << 25,
        ARCH_REQ_XCOMP_PERM = 0x1023,
        XTILEDATA = 18
    };
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BF16) && (d & AMX_TILE) && (d & AMX_INT8) &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
#else
    return false;
#endif
}
#endif

#if defined(__x86_64__)
// Dot products of bytes without AVX-512, whose instruction is another one.
static bool has_vnni_of_avx(void)
{
    enum { AVX_VNNI = 1 << 4 };
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & AVX_VNNI);
}
#endif

// Judged by instruction sets, as the levels of x86-64 define them.
bool cpu_runs_here(const CpuInfo *cpu)
{
    const bool is_arm = !strncmp(cpu->name, "arm", 3), is_riscv = !strncmp(cpu->name, "rv64", 4);
    if (!strcmp(cpu->name, "generic"))
        return true;
    if (!strncmp(cpu->name, "wasm", 4) || (cpu->features & CPU_INTEGERS) != 0)
        return false; // for browsers and microcontrollers: rlxc itself runs on neither
#if defined(__x86_64__)
    if (is_arm || is_riscv)
        return false;
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    const bool is_v3 = cpu->f32_lanes == 8;
    const bool has_dot8 = is_v3 ? has_vnni_of_avx() : __builtin_cpu_supports("avx512vnni"),
               has_bf16 = __builtin_cpu_supports("avx512bf16");
    if (((cpu->features & CPU_DOT8) && !has_dot8) || ((cpu->features & CPU_DOT_BF16) && !has_bf16))
        return false;
    if ((cpu->features & CPU_MATRIX) && !has_matrix())
        return false;
    return is_v3 ? v3 : v4;
#elif defined(__aarch64__) && defined(__linux__)
    enum { HAS_DOT = 1 << 20 }; // HWCAP_ASIMDDP
    return is_arm && !is_riscv && ((cpu->features & CPU_DOT8) == 0 || (getauxval(AT_HWCAP) & HAS_DOT) != 0);
#elif defined(__aarch64__)
    return is_arm && !is_riscv && cpu->features == 0;
#elif defined(__riscv) && __riscv_xlen == 64
    enum { HAS_VECTORS = 1 << ('V' - 'A') };
    return is_riscv && !is_arm && (cpu->f32_lanes == 1 || (getauxval(AT_HWCAP) & HAS_VECTORS) != 0);
#else
    return !is_arm && !is_riscv && false;
#endif
}

// A cache size of this machine, or what the table says where the system does not tell.
static uint32_t cache_bytes(int name, uint32_t otherwise)
{
    const long n = sysconf(name);
    return n >= 4096 && n <= (1L << 30) ? (uint32_t)n : otherwise;
}

static CpuInfo info_of(const CpuRow *row)
{
    CpuInfo info = row->info;
    info.machine = cpu_machines[row->machine];
    return info;
}

static bool find_named(const char *name, CpuInfo *out)
{
    for (uint32_t i = 0; i < N_CPUS; i++) {
        if (!strcmp(cpus[i].info.name, name)) {
            *out = info_of(&cpus[i]);
            return true;
        }
    }
    return false;
}

const char *cpu_of_family(const char *maker, uint32_t family)
{
    rlx_assert(maker != NULL);
    for (uint32_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i].family == family && !strcmp(families[i].maker, maker))
            return families[i].name;
    return NULL;
}

#if defined(__x86_64__)
// Of a processor of AMD, the third-level cache that one core can use: that of its complex, where the C
// library tells the sum over all. 0: the processor does not say.
static uint32_t complex_l3_bytes(void)
{
    static const unsigned leaf = 0x8000001D;
    enum { THIRD = 3, LEVEL_AT = 5, LEVEL_BITS = 7 };
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(leaf, THIRD, &a, &b, &c, &d) || (a >> LEVEL_AT & LEVEL_BITS) != THIRD)
        return 0;
    const uint64_t ways = (b >> 22) + 1, parts = (b >> 12 & 1023) + 1, line = (b & 4095) + 1,
                   bytes = ways * parts * line * ((uint64_t)c + 1);
    return bytes <= 1u << 30 ? (uint32_t)bytes : 0;
}
#endif

#if defined(__x86_64__)
// A virtual machine sees the cache of a whole processor, of which others on the host have their share (480 MB
// were told where 32 MB stayed): no more than the table says counts there.
static uint32_t share_of_host(uint32_t told, uint32_t of_table)
{
    enum { IS_GUEST = 31 };
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool is_guest = __get_cpuid(1, &a, &b, &c, &d) && (c >> IS_GUEST & 1) != 0;
    return is_guest && told > of_table ? of_table : told;
}
#endif

// The row of this machine itself, where the table has one.
static const char *name_of_this(void)
{
#if defined(__x86_64__)
    enum { FAMILY_AT = 8, FAMILY_BITS = 15, MORE_AT = 20, MORE_BITS = 255 };
    unsigned a = 0, b = 0, c = 0, d = 0;
    char maker[13] = {0};
    if (!__get_cpuid(0, &a, &b, &c, &d))
        return NULL;
    memcpy(maker, &b, 4);
    memcpy(maker + 4, &d, 4);
    memcpy(maker + 8, &c, 4);
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return NULL;
    const unsigned family = a >> FAMILY_AT & FAMILY_BITS;
    return cpu_of_family(maker, family == FAMILY_BITS ? family + (a >> MORE_AT & MORE_BITS) : family);
#else
    return NULL;
#endif
}

static void resolve_native(CpuInfo *out)
{
    const char *name = name_of_this();
    CpuInfo of_this;
    for (uint32_t i = 0; i < N_CPUS; i++)
        if (cpu_runs_here(&cpus[i].info))
            *out = info_of(&cpus[i]);
    rlx_assert(out->name != NULL); // every machine runs some row
    if (name != NULL && find_named(name, &of_this) && cpu_runs_here(&of_this))
        *out = of_this;
    CpuMachine *m = &out->machine;
    const uint32_t table_l3 = m->l3_bytes;
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
    m->l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, m->l1_bytes);
    m->l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, m->l2_bytes);
    m->l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, m->l3_bytes);
#endif
#if defined(__x86_64__)
    const uint32_t of_complex = __builtin_cpu_is("amd") ? complex_l3_bytes() : 0;
    m->l3_bytes = of_complex > m->l2_bytes ? of_complex : m->l3_bytes;
    m->l3_bytes = share_of_host(m->l3_bytes, table_l3);
    // Intel's server cores begin two products of 16 lanes a cycle, its others and Zen 4 one; caches tell them
    // apart.
    if (out->f32_lanes == 16 && __builtin_cpu_is("intel") && m->l2_bytes >= 1u << 20 &&
        m->l3_bytes > 24u << 20)
        m->fma_per_cycle = 2;
#endif
    (void)m;
    (void)table_l3;
}

bool cpu_find(const char *name, CpuInfo *out)
{
    rlx_assert(name != NULL && out != NULL);
    if (!strcmp(name, "native")) {
        resolve_native(out);
        return true;
    }
    return find_named(name, out);
}
