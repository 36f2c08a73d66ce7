// SPDX-License-Identifier: Apache-2.0
// Enough of CUDA that a C++ compiler reads our CUDA text and runs it on compiler/metal/device.c: included in
// front of the emitted .cu. Code for chips that check __CUDA_ARCH__ is left out by itself.
#ifndef TESTS_GPU_CUDA_SHIM_H
#define TESTS_GPU_CUDA_SHIM_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

using std::abs; // C has one of integers only

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static // one group runs at a time

extern "C" {
void device_barrier(void);
void device_named_barrier(uint32_t number, uint32_t threads);
void device_swap(void *value, uint32_t bytes, uint32_t mask);
const uint32_t *device_thread(void); // its place in the grid
extern uint32_t device_group_x;
void fake_set_condition(unsigned long long condition, unsigned value);
}
#define RLX_LOOPS
#define cudaGraphSetConditional fake_set_condition

struct uint3 {
    unsigned x, y, z;
};
#define blockDim  (uint3{device_group_x, 1u, 1u})
#define threadIdx (uint3{device_thread()[0] % device_group_x, 0u, 0u})
#define blockIdx  (uint3{device_thread()[0] / device_group_x, device_thread()[1], device_thread()[2]})
#define __syncthreads() device_barrier()
#define cuda_named_sync device_named_barrier

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
#define make_uint2(...) (uint2{__VA_ARGS__})
#define make_uint4(...) (uint4{__VA_ARGS__})

template <typename T> static inline T __shfl_xor_sync(unsigned, T x, unsigned mask)
{
    device_swap(&x, sizeof x, mask);
    return x;
}

template <typename To, typename From> static inline To cuda_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
static inline float __int_as_float(int x)
{
    return cuda_bits<float>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return cuda_bits<float>(x);
}
static inline unsigned __float_as_uint(float x)
{
    return cuda_bits<unsigned>(x);
}
static inline double __longlong_as_double(long long x)
{
    return cuda_bits<double>(x);
}
static inline long long __double_as_longlong(double x)
{
    return cuda_bits<long long>(x);
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return unsigned(uint64_t(a) * b >> 32);
}

#define __expf cuda_expf // the C library has a function of that name
static inline float cuda_expf(float x)
{
    return std::exp(x);
}
static inline float __fdividef(float x, float y)
{
    return x / y;
}
#define RLX_CUDA_ON_CPU
static inline float cuda_f16_to_f32(unsigned short h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const float size = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                       : exponent == 0 ? std::ldexp(float(fraction), -24)
                                       : std::ldexp(float(fraction + 1024), exponent - 25);
    return std::copysign(size, (h & 0x8000) != 0 ? -1.0f : 1.0f);
}
// Rounds as the machine does: to even.
static inline unsigned cuda_f16_from_f32(float x)
{
    const unsigned sign = std::signbit(x) ? 0x8000u : 0u;
    const float size = std::fabs(x);
    if (x != x || size >= 65520)
        return sign | (x != x ? 0x7fffu : 0x7c00u);
    const int exponent = size < 6.103515625e-5f ? -14 : std::ilogb(size);
    const int steps = int(std::nearbyint(std::ldexp(size, 10 - exponent))); // of the last bit
    return sign | unsigned((exponent + 14) * 1024 + steps);
}
static inline unsigned cuda_bf16_from_f32(float x)
{
    const unsigned u = cuda_bits<unsigned>(x);
    return x != x ? 0x7fffu : (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}

// Calls a kernel with arguments that the driver was given: addresses.
template <typename... A, size_t... I>
static inline void cuda_call(void (*kernel)(A...), void *const *args, std::index_sequence<I...>)
{
    (void)args;
    kernel(reinterpret_cast<A>(args[I])...);
}
template <typename... A> static inline void cuda_call(void (*kernel)(A...), void *const *args)
{
    cuda_call(kernel, args, std::index_sequence_for<A...>());
}
#define CUDA_LAUNCH(name, has_barriers)                                   \
    extern "C" void launch_##name(void *const *args, const uint32_t *id); \
    void launch_##name(void *const *args, const uint32_t *)               \
    {                                                                     \
        cuda_call(name, args);                                            \
    }                                                                     \
    extern "C" {                                                          \
    extern const int barriers_##name;                                     \
    const int barriers_##name = has_barriers;                             \
    }

#endif
