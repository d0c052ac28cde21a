// main() of every test program: GoogleTest plus --seed=N.
#include <gtest/gtest.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>

#include "yonder/testing/seed.h"

namespace {

std::uint64_t g_seed = 0;  // Written once by main() before any test runs.

bool parse_seed(std::string_view text, std::uint64_t& seed) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  return error == std::errc{} && end == text.data() + text.size();
}

std::uint64_t choose_seed(int argc, char** argv) {
  std::uint64_t seed = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with("--seed=") && parse_seed(arg.substr(7), seed)) return seed;
  }
  if (const char* text = std::getenv("YONDER_TEST_SEED"); text != nullptr && parse_seed(text, seed))
    return seed;
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

namespace yonder::testing {
std::uint64_t test_seed() { return g_seed; }
}  // namespace yonder::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  g_seed = choose_seed(argc, argv);
  std::printf("seed: %llu (repeat with --seed=N)\n", static_cast<unsigned long long>(g_seed));
  return RUN_ALL_TESTS();
}
