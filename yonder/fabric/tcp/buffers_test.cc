#include "yonder/fabric/tcp/internal/buffers.h"

#include <gtest/gtest.h>

#include <vector>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::tcp {
namespace {

constexpr std::byte kOld{0x11};
constexpr std::byte kNew{0xee};

// Every aligned word of `memory` that lies inside [from, to) is all old or all new.
void expect_no_torn_word(std::span<const std::byte> memory, std::size_t from, std::size_t to) {
  for (std::size_t word = (from + 7) / 8 * 8; word + 8 <= to; word += 8) {
    for (std::size_t i = 1; i < 8; ++i) ASSERT_EQ(memory[word], memory[word + i]) << "word at " << word;
  }
}

TEST(WordWriter, NeverWritesAWordInTwoSteps) {
  Prng random(::yonder::testing::test_seed());
  alignas(8) std::array<std::byte, 256> memory;
  for (int round = 0; round < 3000; ++round) {
    memory.fill(kOld);
    const std::size_t offset = random.below(64);
    const std::size_t length = 1 + random.below(memory.size() - offset - 1);
    const std::vector<std::byte> payload(length, kNew);
    WordWriter writer;
    writer.start(memory.data() + offset);
    for (std::size_t at = 0; at < length;) {
      const std::size_t count = std::min<std::size_t>(length - at, 1 + random.below(round % 3 == 0 ? 3 : 40));
      at += count;
      writer.put(std::span(payload).first(count), at == length);
      expect_no_torn_word(memory, offset, offset + length);
    }
    for (std::size_t i = 0; i < memory.size(); ++i) {
      ASSERT_EQ(memory[i], i >= offset && i < offset + length ? kNew : kOld) << i;
    }
  }
}

TEST(WordWriter, KeepsTheOrderOfBytes) {
  alignas(8) std::array<std::byte, 64> memory{};
  std::array<std::byte, 41> payload;
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i + 1);
  for (std::size_t cut = 1; cut < payload.size(); ++cut) {
    memory.fill(std::byte{0});
    WordWriter writer;
    writer.start(memory.data() + 3);
    writer.put(std::span(payload).first(cut), false);
    writer.put(std::span(payload).subspan(cut), true);
    for (std::size_t i = 0; i < payload.size(); ++i) ASSERT_EQ(memory[3 + i], payload[i]) << cut << " " << i;
  }
}

TEST(OutputBuffer, KeepsOrderWhileItIsDrainedAndFilled) {
  OutputBuffer buffer(100);
  unsigned next_in = 0;
  unsigned next_out = 0;
  Prng random(::yonder::testing::test_seed());
  for (int round = 0; round < 2000; ++round) {
    const std::size_t count = random.below(buffer.room() + 1);
    std::byte* to = buffer.append(count);
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::byte>(next_in++);
    const auto pending = buffer.pending();
    const std::size_t drained = random.below(pending.size() + 1);
    for (std::size_t i = 0; i < drained; ++i) ASSERT_EQ(pending[i], static_cast<std::byte>(next_out++));
    buffer.consume(drained);
    ASSERT_EQ(buffer.room(), 100 - (next_in - next_out));
  }
}

}  // namespace
}  // namespace yonder::fabric::tcp
