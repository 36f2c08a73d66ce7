// SPDX-License-Identifier: Apache-2.0
// Kernels that the CPU's device (compiler/metal/device.h) must find fault with, and two that it must not.
#include <metal_stdlib>
using namespace metal;
// Sums the group's elements in memory that its threads share.
kernel void right(device int *out [[buffer(0)]], uint3 id [[thread_position_in_grid]])
{
    threadgroup int part[128];
    const uint lane = id.x % 128;
    part[lane] = int(id.x);
    for (uint half_of = 64; half_of > 16; half_of /= 2) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lane < half_of)
            part[lane] += part[lane + half_of];
    }
    int sum = part[lane];
    for (ushort other = 16; other > 0; other /= 2)
        sum += simd_shuffle_xor(sum, other);
    if (lane == 0)
        out[id.x / 128] = sum;
}
kernel void without_barrier(device int *out [[buffer(0)]], uint3 id [[thread_position_in_grid]])
{
    threadgroup int part[128];
    const uint lane = id.x % 128;
    part[lane] = int(id.x);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane < 64)
        part[lane] += part[lane + 1]; // which another thread writes
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[id.x] = part[lane];
}
kernel void across_groups(device int *out [[buffer(0)]], uint3 id [[thread_position_in_grid]])
{
    out[id.x] = 1;
    threadgroup_barrier(mem_flags::mem_threadgroup); // of one group only
    out[id.x] += out[(id.x + 128) % 256];
}
kernel void same_byte(device int *out [[buffer(0)]], uint3 id [[thread_position_in_grid]])
{
    out[id.x / 2] = 1; // the same value, and still a race
}
kernel void outside(device int *out [[buffer(0)]], uint3 id [[thread_position_in_grid]])
{
    out[id.x + 1] = 1;
}
kernel void not_all(device int *out [[buffer(0)]], uint3 id [[thread_position_in_grid]])
{
    if (id.x % 128 < 100)
        threadgroup_barrier(mem_flags::mem_threadgroup);
    out[id.x] = 1;
}
kernel void behind_swap(device int *out [[buffer(0)]], uint3 id [[thread_position_in_grid]])
{
    threadgroup int part[128];
    const uint lane = id.x % 128;
    part[lane] = simd_shuffle_xor(int(id.x), ushort(1)); // orders nothing
    out[id.x] = part[lane ^ 1u];
}
kernel void not_all_swap(device int *out [[buffer(0)]], uint3 id [[thread_position_in_grid]])
{
    if (id.x % 128 < 64)
        out[id.x] = simd_shuffle_xor(int(id.x), ushort(1));
    else
        threadgroup_barrier(mem_flags::mem_threadgroup);
}
// Sums bytes that threads wrote, a word of them at a time.
kernel void bytes_of_words(device int *out [[buffer(0)]], uint3 id [[thread_position_in_grid]])
{
    device uchar *bytes = (device uchar *)(out + 2);
    int sum = 0;
    bytes[id.x] = uchar(id.x);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (id.x % 128 != 0)
        return;
    for (uint i = 0; i < 32; i++) {
        const int word = out[2 + id.x / 4 + i];
        sum += (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24 & 255);
    }
    out[id.x / 128] = sum;
}
kernel void byte_of_word(device int *out [[buffer(0)]], uint3 id [[thread_position_in_grid]])
{
    device uchar *bytes = (device uchar *)out;
    out[id.x] = int(id.x);
    out[id.x] = bytes[4 * (id.x ^ 1u) + 1];
}
kernel void word_of_bytes(device int *out [[buffer(0)]], uint3 id [[thread_position_in_grid]])
{
    device uchar *bytes = (device uchar *)out;
    bytes[id.x] = uchar(id.x);
    if (id.x % 4 == 3)
        out[128 + id.x / 4] = out[id.x / 4];
}
