// main() of every test program: GoogleTest plus --seed=N and --effort=N.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>

#include "yonder/testing/effort.h"
#include "yonder/testing/seed.h"

namespace {

// Written once by main() before any test runs.
std::uint64_t g_seed = 0;
std::uint64_t g_effort = 1;

bool parse(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

// The number of `--name=N`, else of the variable, else `otherwise`.
std::uint64_t choose(int argc, char** argv, std::string_view flag, const char* variable,
                     std::uint64_t otherwise) {
  std::uint64_t number = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with(flag) && parse(arg.substr(flag.size()), number)) return number;
  }
  const char* text = std::getenv(variable);
  return text != nullptr && parse(text, number) ? number : otherwise;
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

namespace yonder::testing {
std::uint64_t test_seed() { return g_seed; }
std::uint64_t test_effort() { return g_effort; }
}  // namespace yonder::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  g_seed = choose(argc, argv, "--seed=", "YONDER_TEST_SEED", random_seed());
  g_effort = std::max<std::uint64_t>(1, choose(argc, argv, "--effort=", "YONDER_TEST_EFFORT", 1));
  std::printf("seed: %llu (repeat with --seed=N)\n", static_cast<unsigned long long>(g_seed));
  return RUN_ALL_TESTS();
}
