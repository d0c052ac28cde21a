// Two threads, one ring: nothing is lost, torn or reordered.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/fabric/shm/internal/message_ring.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::shm {
namespace {

constexpr std::uint32_t kCells = 256;
constexpr int kMessages = 200'000;

// Length and content follow from the number, so that the receiver can check both.
std::uint32_t length_of(std::uint64_t seed, int n) {
  std::uint64_t state = seed + static_cast<std::uint64_t>(n);
  return static_cast<std::uint32_t>(splitmix64(state) % 300);
}
std::byte byte_of(int n, std::uint32_t i) { return static_cast<std::byte>(n * 31 + static_cast<int>(i)); }

TEST(MessageRingStress, CarriesEverythingInOrder) {
  const std::uint64_t seed = ::yonder::testing::test_seed();
  std::vector<HeadCell> cells(kCells);
  for (HeadCell& cell : cells) cell.sequence.store(0);
  std::atomic<std::uint32_t> consumed{0};
  auto* const bytes = reinterpret_cast<std::byte*>(cells.data());
  std::jthread producer([&] {
    MessageSender sender(bytes, kCells, &consumed);
    std::vector<std::byte> message(300);
    for (int n = 0; n < kMessages; ++n) {
      const std::uint32_t length = length_of(seed, n);
      for (std::uint32_t i = 0; i < length; ++i) message[i] = byte_of(n, i);
      while (!sender.has_room(length)) std::this_thread::yield();
      const LocalPiece piece{message.data(), length};
      sender.send({MessageKind::kSend, length, static_cast<std::uint32_t>(n)}, {&piece, 1}, 0);
    }
  });
  MessageReceiver receiver(bytes, kCells, &consumed);
  std::vector<std::byte> message(300);
  int wrong = 0;
  for (int n = 0; n < kMessages; ++n) {
    while (!receiver.has_message()) std::this_thread::yield();
    MessageHead head;
    std::uint32_t acknowledged = 0;
    ASSERT_TRUE(receiver.peek(head, acknowledged));
    ASSERT_EQ(head.length, length_of(seed, n));
    ASSERT_EQ(head.immediate, static_cast<std::uint32_t>(n));
    ASSERT_TRUE(receiver.take(head, message.data(), head.length));
    for (std::uint32_t i = 0; i < head.length; ++i) wrong += message[i] != byte_of(n, i);
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace yonder::fabric::shm
