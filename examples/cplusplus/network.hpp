// SPDX-License-Identifier: Apache-2.0
// A generated model as a C++ object: owns the memory of a context, gives inputs and outputs as std::span,
// throws what the C calls return. Knows no model in particular: takes the descriptor that every generated
// header declares. Include that header first, since it brings runtime-lite.
#ifndef NETWORK_HPP
#define NETWORK_HPP
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

class Network {
  public:
    explicit Network(const rlx_model &model) : Network(Blocks(model))
    {
        check(rlx_init(context_.get(), &model, arena(), model.arena_bytes, state(), model.state_bytes,
                       model.weights, model.weights != nullptr ? model.weight_bytes : 0));
    }

    ~Network()
    {
        if (context_ != nullptr)
            rlx_close(context_.get());
    }

    Network(Network &&) noexcept = default; // the blocks stay where they are
    Network &operator=(Network &&) = delete;

    // Another context with the same parameters and states. The weights are shared.
    Network clone() const
    {
        Network copy{Blocks(*context_->model)};
        check(rlx_clone(copy.context_.get(), context_.get(), copy.arena(), context_->model->arena_bytes,
                        copy.state(), context_->model->state_bytes));
        return copy;
    }

    // In the arena. What is in an input is consumed by a run; an output stays until the next.
    template <class T> std::span<T> input(std::string_view name)
    {
        const rlx_model &m = *context_->model;
        const std::uint32_t slot = find<T>(m.inputs, m.n_inputs, name);
        return {static_cast<T *>(rlx_input(context_.get(), slot)), m.inputs[slot].bytes / sizeof(T)};
    }

    template <class T> std::span<const T> output(std::string_view name) const
    {
        const rlx_model &m = *context_->model;
        const std::uint32_t slot = find<T>(m.outputs, m.n_outputs, name);
        return {static_cast<const T *>(rlx_output(context_.get(), slot)), m.outputs[slot].bytes / sizeof(T)};
    }

    void run()
    {
        check(rlx_run(context_.get()));
    }

    // States begin again.
    void reset()
    {
        check(rlx_reset(context_.get()));
    }

    // For all other calls of docs/API.md.
    rlx_ctx *context()
    {
        return context_.get();
    }

  private:
    static constexpr std::align_val_t alignment{RLX_ALIGNMENT};

    struct Free {
        void operator()(unsigned char *block) const
        {
            ::operator delete[](block, alignment);
        }
    };
    using Block = std::unique_ptr<unsigned char[], Free>;

    struct Blocks {
        Block arena, state;
        explicit Blocks(const rlx_model &m) : arena(make(m.arena_bytes)), state(make(m.state_bytes)) {}
        static Block make(std::size_t bytes)
        {
            return Block(bytes > 0 ? new (alignment) unsigned char[bytes] : nullptr);
        }
    };

    Blocks blocks_;
    std::unique_ptr<rlx_ctx> context_ = std::make_unique<rlx_ctx>();

    explicit Network(Blocks &&blocks) : blocks_(std::move(blocks)) {}

    unsigned char *arena() const
    {
        return blocks_.arena.get();
    }

    unsigned char *state() const
    {
        return blocks_.state.get();
    }

    static void check(rlx_status status)
    {
        if (status != RLX_OK)
            throw std::runtime_error(rlx_status_text(status));
    }

    // The element type of T; a type without a row does not compile.
    template <class T> static constexpr rlx_dtype dtype = T::no_tensor_has_elements_of_this_type;

    template <class T>
    static std::uint32_t find(const rlx_tensor *tensors, std::uint32_t n, std::string_view name)
    {
        for (std::uint32_t i = 0; i < n; i++) {
            if (name != tensors[i].name)
                continue;
            if (tensors[i].dtype != dtype<T>)
                throw std::invalid_argument(std::string(name) + " has elements of another type");
            return i;
        }
        throw std::invalid_argument("nothing is called " + std::string(name));
    }
};

template <> constexpr rlx_dtype Network::dtype<float> = RLX_F32;
template <> constexpr rlx_dtype Network::dtype<double> = RLX_F64;
template <> constexpr rlx_dtype Network::dtype<std::int64_t> = RLX_I64;
template <> constexpr rlx_dtype Network::dtype<std::int32_t> = RLX_I32;
template <> constexpr rlx_dtype Network::dtype<std::uint8_t> = RLX_U8;

#endif
