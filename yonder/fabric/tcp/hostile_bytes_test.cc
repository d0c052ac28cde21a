// Random bytes and damaged frames through the same calls as the fuzzers', for
// builds without libFuzzer.
#include "yonder/fabric/tcp/hostile_bytes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/fabric/tcp/internal/wire.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::tcp {
namespace {

template <typename T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

// Mostly proper frames with a few bytes changed: gets deeper than noise.
std::vector<std::byte> damaged_frames(Prng& random, bool replies) {
  std::vector<std::byte> out{static_cast<std::byte>(random.below(256))};
  for (std::uint32_t i = 0; i < 8; ++i) {
    const auto length = static_cast<std::uint32_t>(random.chance(0.2) ? 100'000 : random.below(80));
    std::uint64_t key = 0;
    std::memcpy(&key, kKeyPlaceholder, sizeof key);
    if (replies) {
      const std::uint32_t bytes = i < 3 ? 8u : i == 3 ? 100'000u : 0u;
      append(out, ReplyHeader{
                      .op = static_cast<std::uint8_t>(0x81 + (i < 4 ? 0 : i - 3)), .id = i, .length = bytes});
    } else {
      append(out, RequestHeader{.op = static_cast<std::uint8_t>(1 + random.below(6)),
                                .id = i,
                                .length = length,
                                .key = key,
                                .offset = random.below(200'000),
                                .budget_ns = random.below(1'000'000)});
    }
    if (length > kChunkBytes || (replies && i == 3))
      append(out, ChunkHeader{.length = 1 + static_cast<std::uint32_t>(random.below(kChunkBytes))});
    out.resize(out.size() + random.below(length + 1));
  }
  for (std::uint64_t i = random.below(4); i > 0; --i)
    out[random.below(out.size())] = static_cast<std::byte>(random.below(256));
  return out;
}

TEST(HostileBytes, NoiseBreaksNothing) {
  Prng random(::yonder::testing::test_seed());
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> noise(random.below(2000));
    for (std::byte& b : noise) b = static_cast<std::byte>(random.below(256));
    parse_hostile_bytes(noise);
    serve_hostile_bytes(noise);
    answer_with_hostile_bytes(noise);
  }
}

TEST(HostileBytes, DamagedFramesBreakNothing) {
  Prng random(::yonder::testing::test_seed());
  for (int round = 0; round < 300; ++round) {
    const auto requests = damaged_frames(random, false);
    parse_hostile_bytes(requests);
    serve_hostile_bytes(requests);
    answer_with_hostile_bytes(damaged_frames(random, true));
  }
}

}  // namespace
}  // namespace yonder::fabric::tcp
