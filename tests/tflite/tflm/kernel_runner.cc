// SPDX-License-Identifier: Apache-2.0
// Stands in for tflite-micro's kernels and for its KernelRunner, so that its tests of kernels test rlxc. A run
// of a kernel becomes a text that says all of the operator (kernel_cases.py makes a model of it); its results
// come from a file, whose name is a number made of the text. Without that file the text is written and the
// test fails: the first run of a test program says what is needed, the second one judges.
//
// Compiled where tflite-micro's sources are, against its header.
#include "tensorflow/lite/micro/kernels/kernel_runner.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tensorflow/lite/c/builtin_op_data.h"

// --- registrations: the number of the operator is all that is needed ---

#define OPERATORS(X) \
    X(ADD, 0) X(AVERAGE_POOL_2D, 1) X(CONCATENATION, 2) X(CONV_2D, 3) X(DEPTHWISE_CONV_2D, 4) \
    X(DEPTH_TO_SPACE, 5) X(DEQUANTIZE, 6) X(EMBEDDING_LOOKUP, 7) X(FLOOR, 8) X(FULLY_CONNECTED, 9) \
    X(L2_NORMALIZATION, 11) X(L2_POOL_2D, 12) X(LOGISTIC, 14) X(MAX_POOL_2D, 17) X(MUL, 18) X(RELU, 19) \
    X(RELU6, 21) X(RESHAPE, 22) X(RESIZE_BILINEAR, 23) X(SOFTMAX, 25) X(SPACE_TO_DEPTH, 26) X(SVDF, 27) \
    X(TANH, 28) X(PAD, 34) X(GATHER, 36) X(BATCH_TO_SPACE_ND, 37) X(SPACE_TO_BATCH_ND, 38) X(TRANSPOSE, 39) \
    X(MEAN, 40) X(SUB, 41) X(DIV, 42) X(SQUEEZE, 43) X(UNIDIRECTIONAL_SEQUENCE_LSTM, 44) X(STRIDED_SLICE, 45) \
    X(EXP, 47) X(SPLIT, 49) X(LOG_SOFTMAX, 50) X(CAST, 53) X(PRELU, 54) X(MAXIMUM, 55) X(ARG_MAX, 56) \
    X(MINIMUM, 57) X(LESS, 58) X(NEG, 59) X(PADV2, 60) X(GREATER, 61) X(GREATER_EQUAL, 62) X(LESS_EQUAL, 63) \
    X(SLICE, 65) X(SIN, 66) X(TRANSPOSE_CONV, 67) X(EXPAND_DIMS, 70) X(EQUAL, 71) X(NOT_EQUAL, 72) X(LOG, 73) \
    X(SUM, 74) X(SQRT, 75) X(RSQRT, 76) X(SHAPE, 77) X(ARG_MIN, 79) X(REDUCE_MAX, 82) X(PACK, 83) \
    X(LOGICAL_OR, 84) X(LOGICAL_AND, 86) X(LOGICAL_NOT, 87) X(UNPACK, 88) X(REDUCE_MIN, 89) X(FLOOR_DIV, 90) \
    X(SQUARE, 92) X(ZEROS_LIKE, 93) X(FILL, 94) X(FLOOR_MOD, 95) X(RESIZE_NEAREST_NEIGHBOR, 97) \
    X(LEAKY_RELU, 98) X(SQUARED_DIFFERENCE, 99) X(MIRROR_PAD, 100) X(ABS, 101) X(SPLIT_V, 102) X(CEIL, 104) \
    X(REVERSE_V2, 105) X(ADD_N, 106) X(GATHER_ND, 107) X(COS, 108) X(ELU, 111) X(QUANTIZE, 114) X(ROUND, 116) \
    X(HARD_SWISH, 117) X(SELECT_V2, 123) X(BATCH_MATMUL, 126) X(CUMSUM, 128) X(BROADCAST_TO, 130) \
    X(REDUCE_ALL, 140) X(BROADCAST_ARGS, 145) X(DYNAMIC_UPDATE_SLICE, 151) X(IF, 118) X(WHILE, 119) \
    X(CALL_ONCE, 129) X(VAR_HANDLE, 142) X(READ_VARIABLE, 143) X(ASSIGN_VARIABLE, 144)

namespace tflite {
#define DEFINE(name, code) \
    TFLMRegistration Register_##name() \
    { \
        TFLMRegistration r = {}; \
        r.builtin_code = code; \
        return r; \
    }
OPERATORS(DEFINE)
} // namespace tflite

namespace {

// --- options ---

int type_number(TfLiteType type) // as files have it
{
    static const std::map<TfLiteType, int> numbers = {
        {kTfLiteFloat32, 0}, {kTfLiteFloat16, 1}, {kTfLiteInt32, 2}, {kTfLiteUInt8, 3}, {kTfLiteInt64, 4},
        {kTfLiteBool, 6},    {kTfLiteInt16, 7},   {kTfLiteInt8, 9},  {kTfLiteUInt32, 15}, {kTfLiteInt4, 17}};
    const auto found = numbers.find(type);
    return found == numbers.end() ? -1 : found->second;
}

// Writes the fields of a table of options, one after the other.
struct Fields {
    std::ostringstream &to;
    int field = 0;

    Fields &put(const char *kind, double value)
    {
        to << "option " << field++ << " " << kind << " " << value << "\n";
        return *this;
    }
    Fields &small(int value) { return put("i8", value); }
    Fields &flag(bool value) { return put("u8", value); }
    Fields &whole(int value) { return put("i32", value); }
    Fields &real(float value) { return put("f32", static_cast<double>(value)); }
    Fields &list(const int32_t *values, int count)
    {
        to << "option " << field++ << " list";
        for (int i = 0; i < count; i++)
            to << " " << values[i];
        to << "\n";
        return *this;
    }
};

template <typename T> const T &as(const void *data)
{
    return *static_cast<const T *>(data);
}

// The number of the table in the schema's union, and its fields.
#define OPTIONS(code, table, kind, fields) \
    case code: { \
        const auto &p = as<TfLite##kind##Params>(data); \
        (void)p; \
        to << "table " << table << "\n"; \
        Fields{to} fields; \
        return; \
    }

void write_options(std::ostringstream &to, int code, const void *data)
{
    to.precision(9);
    switch (code) {
        OPTIONS(0, 11, Add, .small(p.activation))
        OPTIONS(41, 28, Sub, .small(p.activation))
        OPTIONS(18, 21, Mul, .small(p.activation))
        OPTIONS(42, 29, Div, .small(p.activation))
        OPTIONS(11, 12, L2Norm, .small(p.activation))
        OPTIONS(1, 5, Pool, .small(p.padding - 1).whole(p.stride_width).whole(p.stride_height)
                                .whole(p.filter_width).whole(p.filter_height).small(p.activation))
        OPTIONS(12, 5, Pool, .small(p.padding - 1).whole(p.stride_width).whole(p.stride_height)
                                 .whole(p.filter_width).whole(p.filter_height).small(p.activation))
        OPTIONS(17, 5, Pool, .small(p.padding - 1).whole(p.stride_width).whole(p.stride_height)
                                 .whole(p.filter_width).whole(p.filter_height).small(p.activation))
        OPTIONS(2, 10, Concatenation, .whole(p.axis).small(p.activation))
        OPTIONS(3, 1, Conv, .small(p.padding - 1).whole(p.stride_width).whole(p.stride_height)
                                .small(p.activation).whole(p.dilation_width_factor)
                                .whole(p.dilation_height_factor).small(type_number(p.quantized_bias_type)))
        OPTIONS(4, 2, DepthwiseConv, .small(p.padding - 1).whole(p.stride_width).whole(p.stride_height)
                                         .whole(p.depth_multiplier).small(p.activation)
                                         .whole(p.dilation_width_factor).whole(p.dilation_height_factor))
        OPTIONS(67, 49, TransposeConv, .small(p.padding - 1).whole(p.stride_width).whole(p.stride_height)
                                           .small(p.activation).small(type_number(p.quantized_bias_type)))
        OPTIONS(9, 8, FullyConnected, .small(p.activation).small(p.weights_format).flag(p.keep_num_dims)
                                          .flag(p.asymmetric_quantize_inputs)
                                          .small(type_number(p.quantized_bias_type)))
        OPTIONS(5, 94, DepthToSpace, .whole(p.block_size))
        OPTIONS(26, 19, SpaceToDepth, .whole(p.block_size))
        OPTIONS(22, 17, Reshape, .list(p.shape, p.num_dimensions))
        OPTIONS(43, 30, Squeeze, .list(p.squeeze_dims, p.num_squeeze_dims))
        OPTIONS(23, 15, ResizeBilinear, .flag(false).flag(false).flag(p.align_corners)
                                            .flag(p.half_pixel_centers))
        OPTIONS(97, 74, ResizeNearestNeighbor, .flag(p.align_corners).flag(p.half_pixel_centers))
        OPTIONS(25, 9, Softmax, .real(p.beta))
        OPTIONS(27, 6, SVDF, .whole(p.rank).small(p.activation).flag(p.asymmetric_quantize_inputs))
        OPTIONS(36, 23, Gather, .whole(p.axis).whole(p.batch_dims))
        OPTIONS(40, 27, Reducer, .flag(p.keep_dims))
        OPTIONS(74, 27, Reducer, .flag(p.keep_dims))
        OPTIONS(82, 27, Reducer, .flag(p.keep_dims))
        OPTIONS(89, 27, Reducer, .flag(p.keep_dims))
        OPTIONS(140, 27, Reducer, .flag(p.keep_dims))
        OPTIONS(44, 71, UnidirectionalSequenceLSTM, .small(p.activation).real(p.cell_clip).real(p.proj_clip)
                                                        .flag(p.time_major)
                                                        .flag(p.asymmetric_quantize_inputs)
                                                        .flag(p.diagonal_recurrent_tensors))
        OPTIONS(45, 32, StridedSlice, .whole(p.begin_mask).whole(p.end_mask).whole(p.ellipsis_mask)
                                          .whole(p.new_axis_mask).whole(p.shrink_axis_mask).flag(p.offset))
        OPTIONS(49, 35, Split, .whole(p.num_splits))
        OPTIONS(102, 79, SplitV, .whole(p.num_splits))
        OPTIONS(56, 40, ArgMax, .small(type_number(p.output_type)))
        OPTIONS(79, 57, ArgMin, .small(type_number(p.output_type)))
        OPTIONS(77, 55, Shape, .small(type_number(p.out_type)))
        OPTIONS(83, 59, Pack, .whole(p.values_count).whole(p.axis))
        OPTIONS(88, 64, Unpack, .whole(p.num).whole(p.axis))
        OPTIONS(98, 75, LeakyRelu, .real(p.alpha))
        OPTIONS(100, 77, MirrorPadding, .small(p.mode - 1))
        OPTIONS(126, 101, BatchMatMul, .flag(p.adj_x).flag(p.adj_y).flag(p.asymmetric_quantize_inputs))
        OPTIONS(128, 102, Cumsum, .flag(p.exclusive).flag(p.reverse))
    default:
        return;
    }
}

// --- a node as a text ---

struct Node {
    const TFLMRegistration *registration;
    TfLiteTensor *tensors;
    const TfLiteIntArray *inputs, *outputs;
    const void *options;
    std::string before; // texts of earlier runs, where a state is kept

    bool has_state() const
    {
        bool found = false;
        for (int i = 0; i < inputs->size; i++)
            found = found || (inputs->data[i] >= 0 && tensors[inputs->data[i]].is_variable);
        return found;
    }
};

void write_hex(std::ostringstream &to, const void *data, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    const auto *p = static_cast<const unsigned char *>(data);
    for (size_t i = 0; i < bytes; i++)
        to << digits[p[i] >> 4] << digits[p[i] & 15];
}

void write_quantisation(std::ostringstream &to, const TfLiteTensor &t)
{
    const auto *q = static_cast<const TfLiteAffineQuantization *>(t.quantization.params);
    if (t.quantization.type == kTfLiteAffineQuantization && q && q->scale) {
        to << "axis " << q->quantized_dimension << "\n";
        for (int i = 0; i < q->scale->size; i++)
            to << "scale " << q->scale->data[i] << " "
               << (q->zero_point && i < q->zero_point->size ? q->zero_point->data[i] : 0) << "\n";
    } else if (t.params.scale > 0)
        to << "scale " << t.params.scale << " " << t.params.zero_point << "\n";
}

void write_tensor(std::ostringstream &to, const char *what, const Node &node, int index)
{
    if (index < 0) {
        to << what << " none\n";
        return;
    }
    const TfLiteTensor &t = node.tensors[index];
    to << what << " " << index << " " << type_number(t.type) << " " << t.is_variable;
    for (int i = 0; t.dims && i < t.dims->size; i++)
        to << " " << t.dims->data[i];
    to << "\n";
    write_quantisation(to, t);
    if (what[0] != 'i' || (t.is_variable && !node.before.empty()) || !t.data.data)
        return;
    to << "data ";
    write_hex(to, t.data.data, t.bytes);
    to << "\n";
}

std::string text_of(const Node &node)
{
    std::ostringstream to;
    to << node.before << "op " << node.registration->builtin_code << "\n";
    if (node.options)
        write_options(to, node.registration->builtin_code, node.options);
    for (int i = 0; i < node.inputs->size; i++)
        write_tensor(to, "in", node, node.inputs->data[i]);
    for (int i = 0; i < node.outputs->size; i++)
        write_tensor(to, "out", node, node.outputs->data[i]);
    return to.str();
}

// --- results ---

std::string path_of(const std::string &text, const char *end)
{
    uint64_t number = 14695981039346656037u; // FNV-1a
    for (const unsigned char c : text)
        number = (number ^ c) * 1099511628211u;
    char name[17];
    std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(number));
    return std::string(std::getenv("RLXC_TFLM_RUNS")) + "/" + name + end;
}

// The lines of a file of results: one an output, or one that begins with "refused".
std::vector<std::string> results_of(const std::string &text)
{
    std::ifstream from(path_of(text, ".out"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(from, line);)
        lines.push_back(line);
    if (lines.empty())
        std::ofstream(path_of(text, ".txt")) << text;
    return lines;
}

bool is_refused(const std::vector<std::string> &lines)
{
    const bool refused = !lines.empty() && lines[0].compare(0, 7, "refused") == 0;
    if (refused)
        std::fprintf(stderr, "rlxc %s\n", lines[0].c_str());
    return refused;
}

// Tests leave it to the kernel to say the shape of some results.
void set_shape(TfLiteTensor *t, const std::string &sizes, size_t bytes)
{
    std::istringstream from(sizes);
    std::vector<int> all;
    for (int size; from >> size;)
        all.push_back(size);
    t->dims = static_cast<TfLiteIntArray *>(std::malloc((all.size() + 1) * sizeof(int)));
    t->dims->size = static_cast<int>(all.size());
    for (size_t i = 0; i < all.size(); i++)
        t->dims->data[i] = all[i];
    t->bytes = bytes;
}

// A line with sizes, a colon and the elements.
bool read_result(const std::string &line, TfLiteTensor *t)
{
    const size_t colon = line.find(':');
    const std::string hex = line.substr(colon + 1);
    if (t->bytes == 0)
        set_shape(t, line.substr(0, colon), hex.size() / 2);
    if (hex.size() != 2 * t->bytes) {
        std::fprintf(stderr, "rlxc gave %zu bytes, expected %zu\n", hex.size() / 2, t->bytes);
        return false;
    }
    auto *p = static_cast<unsigned char *>(t->data.data);
    for (size_t i = 0; i < t->bytes; i++)
        p[i] = static_cast<unsigned char>(std::strtol(hex.substr(2 * i, 2).c_str(), nullptr, 16));
    return true;
}

// By runner: their class has no room for ours.
std::map<const void *, Node> &nodes()
{
    static std::map<const void *, Node> all;
    return all;
}

} // namespace

namespace tflite {
namespace micro {

constexpr int KernelRunner::kKernelRunnerBufferSize_;
uint8_t KernelRunner::kKernelRunnerBuffer_[];

KernelRunner::KernelRunner(const TFLMRegistration &registration, TfLiteTensor *tensors, int,
                           TfLiteIntArray *inputs, TfLiteIntArray *outputs, const void *builtin_data,
                           TfLiteIntArray *)
    : registration_(registration),
      allocator_(SingleArenaBufferAllocator::Create(kKernelRunnerBuffer_, kKernelRunnerBufferSize_)),
      mock_micro_graph_(allocator_), fake_micro_context_(tensors, allocator_, &mock_micro_graph_)
{
    node_.inputs = inputs;
    node_.outputs = outputs;
    node_.builtin_data = const_cast<void *>(builtin_data);
    nodes()[this] = Node{&registration_, tensors, inputs, outputs, builtin_data, ""};
}

bool KernelRunner::ValidateTempBufferDeallocated()
{
    return true;
}

// What rlxc refuses is refused here, as the kernels' own checks are.
TfLiteStatus KernelRunner::InitAndPrepare(const char *, size_t)
{
    return is_refused(results_of(text_of(nodes()[this]))) ? kTfLiteError : kTfLiteOk;
}

TfLiteStatus KernelRunner::Invoke()
{
    Node &node = nodes()[this];
    const std::string text = text_of(node);
    const std::vector<std::string> lines = results_of(text);
    if (node.has_state())
        node.before = text + "next\n";
    if (is_refused(lines) || lines.size() != static_cast<size_t>(node.outputs->size))
        return kTfLiteError;
    bool is_good = true;
    for (int i = 0; i < node.outputs->size; i++)
        is_good = read_result(lines[i], &node.tensors[node.outputs->data[i]]) && is_good;
    return is_good ? kTfLiteOk : kTfLiteError;
}

TfLiteStatus KernelRunner::Reset()
{
    nodes()[this].before.clear();
    return kTfLiteOk;
}

TfLiteStatus KernelRunner::Free()
{
    return kTfLiteOk;
}

} // namespace micro
} // namespace tflite
