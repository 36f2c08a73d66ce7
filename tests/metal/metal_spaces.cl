// SPDX-License-Identifier: Apache-2.0
// Metal text as OpenCL C++: clang has address spaces there, so that a pointer without one, or with another
// one than what it points to, is an error as it is in Metal. Put before the text, which is only checked:
//   clang -x cl -cl-std=clc++ -fsyntax-only -w -I FOLDER -include metal_spaces.cl TEXT
// FOLDER holds an empty metal_stdlib.
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef uint uint3 __attribute__((ext_vector_type(3)));
struct metal_uint2 {
    uint x, y;
    metal_uint2(uint a, uint b) : x(a), y(b)
    {
    }
};
struct metal_uint4 {
    uint x, y, z, w;
    metal_uint4(uint a, uint b, uint c, uint d) : x(a), y(b), z(c), w(d)
    {
    }
};
struct metal_float2 {
    metal_float2(float a, float b)
    {
    }
    float operator[](int i);
};
struct metal_ulong2 {
    metal_ulong2(ulong a, ulong b)
    {
    }
};
#define float2 metal_float2
#define ulong2 metal_ulong2
#define uint2 metal_uint2
#define uint4 metal_uint4
#define device __global
#define threadgroup __local
#define given clang::annotate("given")
#define buffer(n) given
#define thread_position_in_grid given
#define threadgroup_position_in_grid given
#define thread_index_in_threadgroup given
#define threads_per_simdgroup given
#define max_total_threads_per_threadgroup(n) given

namespace metal
{
enum class mem_flags { mem_threadgroup };
void threadgroup_barrier(mem_flags);
template <typename T> T simd_shuffle_xor(T x, ushort mask);
struct simdgroup_float8x8 {
    float2 &thread_elements();
};
void simdgroup_load(simdgroup_float8x8 &m, const __local float *from, ulong pitch, ulong2 origin,
                    bool is_turned);
void simdgroup_store(simdgroup_float8x8 m, __local float *to, ulong pitch);
void simdgroup_multiply_accumulate(simdgroup_float8x8 &d, simdgroup_float8x8 a, simdgroup_float8x8 b,
                                   simdgroup_float8x8 c);
template <typename To, typename From> To as_type(From from);
uint mulhi(uint a, uint b);
float abs(float x);
int abs(int x);
namespace precise
{
float sqrt(float x);
float exp(float x);
float log(float x);
float sin(float x);
float cos(float x);
float tan(float x);
float asin(float x);
float acos(float x);
float atan(float x);
float sinh(float x);
float cosh(float x);
float tanh(float x);
float asinh(float x);
float acosh(float x);
float atanh(float x);
float pow(float x, float y);
float atan2(float y, float x);
float fmod(float x, float y);
}
}
