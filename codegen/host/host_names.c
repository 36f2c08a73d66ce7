// SPDX-License-Identifier: Apache-2.0
// C identifiers of the generated interface: the model's name, and the parameters of its entry point. Separate
// from names.c, which names what no user sees: these stay as they are from one version of rlxc to the next.
#include "codegen/host/host_parts.h"
#include <ctype.h>
#include <string.h>

// Blanks on both sides of each word. Keywords of C and C++, and macros that the usual headers or compilers
// define: none of them can name anything.
static const char reserved_words[] =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t"
    " class co_await co_return co_yield compl complex concept const const_cast consteval constexpr constinit"
    " continue decltype default delete do double dynamic_cast else enum explicit export extern false float"
    " for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq"
    " private protected public register reinterpret_cast requires restrict return short signed sizeof static"
    " static_assert static_cast struct switch template this thread_local throw true try typedef typeid"
    " typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq"
    " EOF HUGE_VAL I INFINITY NAN NULL errno far i386 linux near offsetof stderr stdin stdout unix ";

// What the typed entry point itself uses.
static const char used_in_entry[] = " ctx status memcpy double int16_t int32_t int64_t int8_t size_t uint16_t"
                                    " uint32_t uint64_t uint8_t ";

// What the generated code has at file scope; of buckets also with _b and a number.
static const char own_names[] =
    " arena_block args buffers bucket_cells bucket_models bucket_sizes bucket_symbols checks clears device"
    " device_checks device_inputs device_kept device_outputs device_sizes dispatch dispatch_part edges"
    " expert_layers expert_parts experts first_segments functions grids held images inputs kept kernels"
    " loops maps moves output_sizes outputs param_has_init params preparation prepare_part program rows_input"
    " run_all schedule segments sets shape_now slots spans start state_block state_init states static_ctx"
    " steps symbol_list symbols tables take_first take_rows wait_for weights ";

// Each with a number at its end.
static const char own_numbered[] = " bucket_ladder model_b set ";

// What stands at file scope in a program around it, and headers that a file NAME.h would hide.
static const char library_names[] =
    " abort abs atexit calloc exit fprintf free index labs llabs main malloc printf putchar puts realloc"
    " rindex scanf signal snprintf sprintf sscanf"
    " memccpy memchr memcmp memcpy memmove memset stpcpy strcat strchr strcmp strcoll strcpy strcspn strdup"
    " strerror strlen strncat strncmp strncpy strpbrk strrchr strsep strspn strstr strtok strxfrm"
    " int16_t int32_t int64_t int8_t intmax_t intptr_t ptrdiff_t size_t uint16_t uint32_t uint64_t uint8_t"
    " uintmax_t uintptr_t"
    " access alarm asctime brk chdir chown chroot clock close closefrom confstr crypt ctime daemon difftime"
    " dlclose dlerror dlopen dlsym dup dup2 execl execle execlp execv execve execvp fork fsync getcwd getopt"
    " getpid gmtime isatty link localtime lockf lseek mktime nanosleep nice optarg optind pause pipe pread"
    " pwrite read readlink rmdir sbrk setuid sleep strftime symlink sync syscall sysconf truncate ttyname"
    " tzset unlink usleep vfork write"
    " assert complex ctype dlfcn errno features fenv float inttypes iso646 limits locale math memory"
    " pthread sched setjmp stdarg stdbool stddef stdint stdio stdlib string strings tgmath time unistd"
    " wchar wctype ";

// Threads, clocks and libraries of POSIX: too many to list.
static const char *const library_prefixes[] = {"pthread_", "sched_", "clock_get", "RTLD_"};

// The functions of math.h, each also with f or l at its end.
static const char math_functions[] =
    " acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 expm1"
    " fabs fdim finite floor fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint llround"
    " log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow pow10 remainder"
    " remquo rint round scalb scalbln scalbn significand sin sincos sinh sqrt tan tanh tgamma trunc y0 y1"
    " yn ";

// The first n bytes of the name.
static bool is_in(const char *words, const char *name, size_t n)
{
    for (const char *at = words; (at = strchr(at, ' ')) != NULL;) {
        at++;
        if (strncmp(at, name, n) == 0 && at[n] == ' ')
            return true;
    }
    return false;
}

static bool is_listed(const char *words, const char *name)
{
    return is_in(words, name, strlen(name));
}

static bool is_math_function(const char *name)
{
    const size_t n = strlen(name);
    const bool has_type = n > 1 && (name[n - 1] == 'f' || name[n - 1] == 'l');
    return is_in(math_functions, name, n) || (has_type && is_in(math_functions, name, n - 1));
}

// runtime-lite's own prefix.
static bool is_runtime(const char *name)
{
    return strcmp(name, "rlx") == 0 || strncmp(name, "rlx_", 4) == 0 || strncmp(name, "RLX_", 4) == 0;
}

// INT8_MAX, UINT32_C, M_PI ...: what headers define.
static bool is_macro_like(const char *name)
{
    const char *end = strrchr(name, '_');
    for (const char *c = name; *c != '\0'; c++)
        if (islower((unsigned char)*c))
            return false;
    return end != NULL &&
           (strncmp(name, "M_", 2) == 0 || strncmp(name, "FP_", 3) == 0 || strcmp(end, "_MAX") == 0 ||
            strcmp(end, "_MIN") == 0 || strcmp(end, "_C") == 0 || strcmp(end, "_WIDTH") == 0);
}

// The second of two sides.
static bool is_fallback(const char *name)
{
    const size_t n = strlen(name), tail = sizeof HOST_FALLBACK - 1;
    return n > tail && strcmp(name + n - tail, HOST_FALLBACK) == 0;
}

// NAME_rlx.h of a model NAME.
static bool is_runtime_file(const char *name)
{
    const size_t n = strlen(name), tail = sizeof HOST_RUNTIME - 1;
    return n > tail && strcmp(name + n - tail, HOST_RUNTIME) == 0;
}

// k0_conv, image_sm_90a, live_3: kernels, code for GPUs, sizes of buffers.
static bool is_kernel(const char *name)
{
    const size_t digits = name[0] == 'k' ? strspn(name + 1, "0123456789") : 0;
    const bool is_live = strncmp(name, "live_", 5) == 0 && isdigit((unsigned char)name[5]);
    return (digits > 0 && name[1 + digits] == '_') || strncmp(name, "image_", 6) == 0 || is_live;
}

static size_t without_digits(const char *name)
{
    size_t n = strlen(name);
    while (n > 0 && isdigit((unsigned char)name[n - 1]))
        n--;
    return n;
}

static bool is_own(const char *name)
{
    const size_t all = strlen(name), n = without_digits(name);
    const bool has_number = n < all, has_bucket = has_number && n > 2 && strncmp(name + n - 2, "_b", 2) == 0;
    return is_in(own_names, name, all) || (has_number && is_in(own_numbered, name, n)) ||
           (has_bucket && is_in(own_names, name, n - 2));
}

const char *host_identifier(Arena *a, const char *name)
{
    Str s = str_new(a);
    if (name[0] == '\0' || isdigit((unsigned char)name[0]))
        str_char(&s, '_');
    for (const char *c = name; *c != '\0'; c++)
        str_char(&s, isascii((unsigned char)*c) && isalnum((unsigned char)*c) ? *c : '_');
    return str_text(&s);
}

// __x, _X: the compiler's own.
static bool is_internal(const char *name)
{
    return name[0] == '_' && (name[1] == '_' || isupper((unsigned char)name[1]));
}

static bool is_library(const char *name)
{
    for (size_t i = 0; i < sizeof library_prefixes / sizeof *library_prefixes; i++)
        if (strncmp(name, library_prefixes[i], strlen(library_prefixes[i])) == 0)
            return true;
    return is_listed(library_names, name) || is_math_function(name) || is_macro_like(name);
}

static bool is_word(const char *name)
{
    return is_listed(reserved_words, name) || is_internal(name);
}

// Which names cannot be that of a model's function and files.
static const struct {
    bool (*is_one)(const char *name);
    const char *what;
} kept[] = {
    {is_word, "a word of C or C++, or of their compilers"},
    {is_library, "a name of the C library or of one of its headers"},
    {is_runtime, "a name of rlxc's runtime"},
    {is_own, "a name that the generated code uses itself"},
    {is_kernel, "a name that the generated code uses itself"},
    {is_fallback, "a name that the generated code uses itself"},
    {is_runtime_file, "a name that the generated code uses itself"},
};

const char *host_name_kept(const char *id)
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i].is_one(id))
            return kept[i].what;
    return NULL;
}

const char *host_value_name(Arena *a, const char *name)
{
    char *id = arena_strdup(a, host_identifier(a, name));
    bool has_lower = false;
    for (const char *c = id; *c != '\0'; c++)
        has_lower |= islower((unsigned char)*c) != 0;
    for (char *c = id; !has_lower && *c != '\0'; c++) // macros are in capitals
        *c = (char)tolower((unsigned char)*c);
    return host_name_kept(id) != NULL || is_listed(used_in_entry, id) ? arena_printf(a, "v_%s", id) : id;
}

const char *host_model_name(Arena *a, const char *name)
{
    const char *id = host_identifier(a, name);
    if (host_name_kept(id) == NULL)
        return id;
    return arena_printf(a, is_fallback(id) || is_runtime_file(id) ? "%s_" : "m_%s", id);
}

// --- parameters ----------------------------------------------------------------------------------

static bool is_one_of(const char *name, const char *const *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

static bool is_taken(const HostEmit *e, const char *name, uint32_t n_inputs, uint32_t n_outputs)
{
    return strcmp(name, e->options->name) == 0 || is_listed(reserved_words, name) ||
           is_listed(used_in_entry, name) || is_own(name) ||
           is_one_of(name, e->input_names, n_inputs) || is_one_of(name, e->output_names, n_outputs);
}

static const char *unique_name(const HostEmit *e, const char *name, uint32_t n_inputs, uint32_t n_outputs)
{
    const char *base = host_identifier(e->arena, name);
    const size_t upper = strlen(e->upper);
    const bool is_own_macro = strncmp(base, e->upper, upper) == 0 && base[upper] == '_';
    if (is_own_macro || is_internal(base) || is_runtime(base) || is_macro_like(base))
        base = arena_printf(e->arena, "v%s", base);
    const char *out = base;
    for (uint32_t i = 2; is_taken(e, out, n_inputs, n_outputs); i++)
        out = arena_printf(e->arena, "%s_%u", base, i);
    return out;
}

static void name_symbols(HostEmit *e)
{
    const GraphSymbols *s = e->plan->graph->symbols;
    e->symbol_names = ARENA_ARRAY(e->arena, const char *, s != NULL ? s->n : 0);
    for (uint32_t i = 0; s != NULL && i < s->n; i++) {
        const char *base = unique_name(e, s->symbol[i].name, 0, 0), *name = base;
        for (uint32_t k = 2; is_one_of(name, e->symbol_names, i); k++)
            name = arena_printf(e->arena, "%s_%u", base, k);
        e->symbol_names[i] = name;
    }
}

uint32_t host_n_held(const HostEmit *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->plan->graph->states.len; i++)
        n += e->plan->graph->states.data[i].output != NULL;
    return n;
}

uint32_t host_held_state(const HostEmit *e, uint32_t i)
{
    rlx_assert(i < host_n_held(e));
    uint32_t state = 0;
    while (e->plan->graph->states.data[state].output == NULL || i-- != 0)
        state++;
    return state;
}

void host_name_tensors(HostEmit *e)
{
    rlx_assert(e->upper != NULL && e->input_names == NULL);
    const Plan *p = e->plan;
    name_symbols(e);
    const uint32_t n_held = host_n_held(e);
    e->input_names = ARENA_ARRAY(e->arena, const char *, p->inputs.len);
    e->output_names = ARENA_ARRAY(e->arena, const char *, p->outputs.len + n_held);
    for (uint32_t i = 0; i < p->inputs.len; i++)
        e->input_names[i] = unique_name(e, p->inputs.data[i].name, i, 0);
    for (uint32_t i = 0; i < p->outputs.len; i++)
        e->output_names[i] = unique_name(e, p->outputs.data[i].name, p->inputs.len, i);
    for (uint32_t i = 0; i < n_held; i++)
        e->output_names[p->outputs.len + i] = unique_name(
            e, p->graph->states.data[host_held_state(e, i)].output, p->inputs.len, p->outputs.len + i);
}
