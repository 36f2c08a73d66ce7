// SPDX-License-Identifier: Apache-2.0
// Which barriers the runtime records between launches and copies for Vulkan (rlx_vulkan_commands.h), and
// which devices get kernels with cooperative matrices, with functions in the place of a driver's. TAP.
#include "runtime-lite/rlx_vulkan_commands.h"

#include <stdio.h>

// Commands as letters: d a dispatch, c a copy, u an update; barriers as what they name before and after:
// K kernels, C copies, H the host.
static char said[256];
static unsigned n_failed, n_done;

static void say(const char *text)
{
    strncat(said, text, sizeof said - strlen(said) - 1);
}

static void say_stages(uint32_t stages)
{
    say((stages & RLX_VULKAN_KERNELS) != 0 ? "K" : "");
    say((stages & RLX_VULKAN_COPIES) != 0 ? "C" : "");
    say((stages & 0x4000u) != 0 ? "H" : "");
}

static void fake_barrier(void *commands, uint32_t from, uint32_t to, uint32_t flags, uint32_t n,
                         const rlx_vk_barrier *barriers, uint32_t n_buffers, const void *buffers,
                         uint32_t n_images, const void *images)
{
    (void)commands, (void)flags, (void)n, (void)barriers, (void)n_buffers, (void)buffers, (void)n_images;
    (void)images;
    say(" ");
    say_stages(from);
    say(">");
    say_stages(to);
}

static int fake_begin(void *commands, const rlx_vk_begin_info *info)
{
    (void)commands, (void)info;
    return 0;
}

static int fake_wait(void *device, const rlx_vk_wait_info *info, uint64_t ns)
{
    (void)device, (void)info, (void)ns;
    return 0;
}

static void fake_use(void *commands, uint32_t point, uint64_t pipeline)
{
    (void)commands, (void)point, (void)pipeline;
}

static void fake_push(void *commands, uint64_t layout, uint32_t stages, uint32_t offset, uint32_t bytes,
                      const void *values)
{
    (void)commands, (void)layout, (void)stages, (void)offset, (void)bytes, (void)values;
}

static void fake_dispatch(void *commands, uint32_t x, uint32_t y, uint32_t z)
{
    (void)commands, (void)x, (void)y, (void)z;
    say(" d");
}

static void fake_copy(void *commands, uint64_t from, uint64_t to, uint32_t n, const rlx_vk_copy *copies)
{
    (void)commands, (void)from, (void)to, (void)n, (void)copies;
    say(" c");
}

static void fake_update(void *commands, uint64_t buffer, uint64_t offset, uint64_t bytes, const void *data)
{
    (void)commands, (void)buffer, (void)offset, (void)bytes, (void)data;
    say(" u");
}

static int fake_end(void *commands)
{
    (void)commands;
    return 0;
}

static rlx_vulkan make_device(void)
{
    rlx_vulkan v;
    memset(&v, 0, sizeof v);
    v.lists[0] = &n_done;
    v.lists[1] = &n_failed;
    v.api.barrier = fake_barrier;
    v.api.begin = fake_begin;
    v.api.end = fake_end;
    v.api.wait = fake_wait;
    v.api.use = fake_use;
    v.api.push = fake_push;
    v.api.dispatch = fake_dispatch;
    v.api.update = fake_update;
    v.api.copy = fake_copy;
    said[0] = '\0';
    return v;
}

static void launch(rlx_vulkan *v, uint64_t groups, uint32_t n_args)
{
    static const uint64_t args[RLX_VULKAN_MAX_ARGS];
    if (rlx_vulkan_launch(v, 1, groups, args, n_args) != RLX_VULKAN_OK)
        say(" failed");
}

static void expect(const char *commands, const char *what)
{
    const int is_right = strcmp(said, commands) == 0;
    n_failed += !is_right;
    printf("%sok %u - %s\n", is_right ? "" : "not ", ++n_done, what);
    if (!is_right)
        printf("# recorded%s, expected%s\n", said, commands);
}

static void check_kernels(void)
{
    rlx_vulkan v = make_device();
    launch(&v, 1, 2);
    launch(&v, 1, 2);
    rlx_vulkan_barrier(&v);
    launch(&v, 1, 2);
    expect(" KC>K d d K>K d", "kernels wait for all of other lists, then for kernels alone");
}

static void check_copies(void)
{
    const uint32_t word = 0;
    rlx_vulkan v = make_device();
    launch(&v, 1, 2);
    if (rlx_vulkan_write(&v, 64, &word, 4) != RLX_VULKAN_OK ||
        rlx_vulkan_write(&v, 68, &word, 4) != RLX_VULKAN_OK)
        say(" failed");
    launch(&v, 1, 2);
    rlx_vulkan_barrier(&v);
    launch(&v, 1, 2);
    expect(" KC>K d K>C u KC>C u KC>K d K>K d", "copies stand between barriers that name them");
}

static void check_many(void)
{
    rlx_vulkan v = make_device();
    launch(&v, 1, RLX_VULKAN_OWN_ARGS + 1u);
    launch(&v, 1, RLX_VULKAN_OWN_ARGS + 1u);
    expect(" KC>C u KC>K d K>C u KC>K d", "many arguments are copied after those before were read");
}

static void check_empty(void)
{
    rlx_vulkan v = make_device();
    launch(&v, 1, 2);
    rlx_vulkan_barrier(&v);
    launch(&v, 0, RLX_VULKAN_OWN_ARGS + 1u);
    launch(&v, 1, 2);
    expect(" KC>K d K>K d", "what a launch of no group was to wait for, the next one waits for");
}

static void check_end(void)
{
    rlx_vulkan v = make_device();
    launch(&v, 1, 2);
    if (rlx_vulkan_end_list(&v) != RLX_VULKAN_OK || rlx_vulkan_give(&v, 0, 4) != RLX_VULKAN_OK ||
        rlx_vulkan_end_list(&v) != RLX_VULKAN_OK)
        say(" failed");
    expect(" KC>K d K>H KC>C c KC>H", "at the end of a list, the host waits for what there was in it");
}

// --- families of queues ---

static rlx_vk_queue_family families[4];
static uint32_t n_families;

static void fake_families(void *physical, uint32_t *n, rlx_vk_queue_family *out)
{
    (void)physical;
    memcpy(out, families, n_families * sizeof *families);
    *n = n_families;
}

// Of families with these flags, each of a queue: which one is taken?
static int family_of(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t flags[3] = {a, b, c};
    rlx_vulkan v = make_device();
    v.instance_api.families = fake_families;
    memset(families, 0, sizeof families);
    for (n_families = 0; n_families < 3; n_families++) {
        families[n_families].flags = flags[n_families];
        families[n_families].count = 1;
    }
    return rlx_vulkan_family(&v, NULL);
}

static void check_families(void)
{
    const int is_right = family_of(7, 4, 6) == 2 && family_of(4, 7, 5) == 1 && family_of(4, 4, 5) == -1;
    n_failed += !is_right;
    printf("%sok %u - the queue computes, and draws only if all such do\n", is_right ? "" : "not ", ++n_done);
}

// --- cooperative matrices ------------------------------------------------------------------------

static uint32_t subgroup, shared_bytes;

static void fake_properties2(void *physical, rlx_vk_properties2 *out)
{
    rlx_vk_subgroup *next = NULL;
    (void)physical;
    memcpy((unsigned char *)out->properties + RLX_VK_SHARED_MEMORY, &shared_bytes, sizeof shared_bytes);
    memcpy(&next, &out->head.next, sizeof next);
    next->size = subgroup;
}

// Squares of f16.
static int fake_matrices(void *physical, uint32_t *n, rlx_vk_coop *out)
{
    static const uint32_t is[9] = {16, 16, 16, RLX_VULKAN_F16_TYPE, RLX_VULKAN_F16_TYPE, 1, 1, 0, 3};
    (void)physical;
    memcpy(out[0].is, is, sizeof is);
    *n = 1;
    return 0;
}

static int has_squares(uint32_t lanes, uint32_t bytes, uint32_t type)
{
    rlx_vulkan v = make_device();
    v.instance_api.properties2 = fake_properties2;
    v.instance_api.matrices = fake_matrices;
    subgroup = lanes;
    shared_bytes = bytes;
    return rlx_vulkan_has_squares(&v, type);
}

static void check_squares(void)
{
    const int taken = has_squares(32, 49152, RLX_VULKAN_F16_TYPE);
    const int refused = !has_squares(32, 32768, RLX_VULKAN_F16_TYPE) &&
                        !has_squares(64, 49152, RLX_VULKAN_F16_TYPE) &&
                        !has_squares(32, 49152, RLX_VULKAN_BF16_TYPE);
    n_failed += !taken || !refused;
    printf("%sok %u - cooperative matrices need their type, subgroups of 32 and 48 KB of a group\n",
           taken && refused ? "" : "not ", ++n_done);
}

int main(void)
{
    printf("1..7\n");
    check_kernels();
    check_copies();
    check_many();
    check_empty();
    check_end();
    check_families();
    check_squares();
    return n_failed != 0;
}
