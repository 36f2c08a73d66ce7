// SPDX-License-Identifier: Apache-2.0
// Classifies the held-out images of models/digits in four threads, with a context for each.
#include "digits.h"
#include "network.hpp"
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t pixels = 64, workers = 4;

// The elements of a .npy file of version 1.
template <class T> std::vector<T> read_npy(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.size() < 10)
        throw std::runtime_error("cannot read " + path);
    const auto low = static_cast<unsigned char>(bytes[8]), high = static_cast<unsigned char>(bytes[9]);
    const std::size_t head = 10u + low + 256u * high;
    if (bytes.size() < head)
        throw std::runtime_error(path + " ends in its header");
    std::vector<T> values((bytes.size() - head) / sizeof(T));
    std::memcpy(values.data(), bytes.data() + head, values.size() * sizeof(T));
    return values;
}

std::size_t classify(Network &network, std::span<const float> image)
{
    std::ranges::copy(image, network.input<float>("image").begin());
    network.run();
    const auto probs = network.output<float>("probs");
    return static_cast<std::size_t>(std::ranges::max_element(probs) - probs.begin());
}

// Worker w takes every fourth image.
void work(Network &network, std::size_t w, std::span<const float> images, std::span<std::size_t> answers)
{
    for (std::size_t i = w; i < answers.size(); i += workers)
        answers[i] = classify(network, images.subspan(i * pixels, pixels));
}

int run(const std::string &folder)
{
    const auto images = read_npy<float>(folder + "/test_images.npy");
    const auto labels = read_npy<std::uint8_t>(folder + "/test_labels.npy");
    std::vector<std::size_t> answers(std::min(images.size() / pixels, labels.size()));
    std::vector<Network> networks;
    networks.emplace_back(digits_model);
    while (networks.size() < workers)
        networks.push_back(networks[0].clone());
    {
        std::vector<std::jthread> threads; // joined at the end of the block
        for (std::size_t w = 0; w < workers; w++)
            threads.emplace_back([&, w] { work(networks[w], w, images, answers); });
    }
    const auto right = std::ranges::count_if(answers, [&, i = std::size_t{0}](std::size_t a) mutable {
        return a == labels[i++];
    });
    std::cout << right << " of " << answers.size() << " images right, by " << workers << " contexts of "
              << digits_model.arena_bytes << " bytes\n";
    try {
        networks[0].input<float>("picture");
    } catch (const std::invalid_argument &e) {
        std::cout << "what goes wrong is an exception: " << e.what() << "\n";
    }
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        return run(argc > 1 ? argv[1] : ".");
    } catch (const std::exception &e) {
        std::cerr << e.what() << "\n";
        return 1;
    }
}
