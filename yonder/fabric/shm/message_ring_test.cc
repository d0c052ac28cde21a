#include "yonder/fabric/shm/internal/message_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::shm {
namespace {

constexpr std::uint32_t kCells = 256;

class Ring : public ::testing::Test {
 protected:
  Ring() : cells_(kCells) {
    for (HeadCell& cell : cells_) std::memset(static_cast<void*>(&cell), 0, sizeof cell);
    auto* const bytes = reinterpret_cast<std::byte*>(cells_.data());
    sender_ = MessageSender(bytes, kCells, &consumed_);
    receiver_ = MessageReceiver(bytes, kCells, &consumed_);
  }

  std::uint32_t send(const std::string& text, std::uint32_t immediate = 0) {
    const LocalPiece piece = LocalPiece::of(std::as_bytes(std::span(text)));
    return sender_.send({MessageKind::kSend, static_cast<std::uint32_t>(text.size()), immediate}, {&piece, 1},
                        0);
  }
  std::string receive() {
    MessageHead head;
    std::uint32_t acknowledged = 0;
    EXPECT_TRUE(receiver_.has_message());
    EXPECT_TRUE(receiver_.peek(head, acknowledged));
    std::string text(head.length, '?');
    EXPECT_TRUE(receiver_.take(head, reinterpret_cast<std::byte*>(text.data())));
    return text;
  }

  std::vector<HeadCell> cells_;
  std::atomic<std::uint32_t> consumed_{0};
  MessageSender sender_;
  MessageReceiver receiver_;
};

TEST_F(Ring, CarriesMessagesOfEveryLengthAroundACellBoundary) {
  for (std::uint32_t length : {0u, 1u, 47u, 48u, 49u, 107u, 108u, 109u, 168u, 1000u, 4000u}) {
    const std::string text(length, static_cast<char>('a' + length % 26));
    ASSERT_TRUE(sender_.has_room(length));
    send(text);
    EXPECT_EQ(receive(), text) << length;
    receiver_.publish();
  }
  EXPECT_FALSE(receiver_.has_message());
}

TEST_F(Ring, ASmallMessageIsOneCell) {
  EXPECT_EQ(cells_of(0), 1u);
  EXPECT_EQ(cells_of(48), 1u);
  EXPECT_EQ(cells_of(49), 2u);
  EXPECT_EQ(cells_of(48 + 60), 2u);
  EXPECT_EQ(cells_of(48 + 61), 3u);
}

TEST_F(Ring, RefusesWhatDoesNotFitUntilTheReceiverHasTold) {
  while (sender_.has_room(0)) send("");
  EXPECT_EQ(sender_.next(), kCells);
  receive();
  EXPECT_FALSE(sender_.has_room(0)) << "a quarter of the ring may be consumed untold";
  receiver_.publish();
  EXPECT_TRUE(sender_.has_room(0));
  EXPECT_FALSE(sender_.has_room(49));
}

TEST_F(Ring, TellsByItselfWhenAQuarterIsConsumed) {
  while (sender_.has_room(0)) send("");
  for (std::uint32_t i = 0; i < kCells / 4; ++i) receive();
  EXPECT_TRUE(sender_.has_room(48));
}

TEST_F(Ring, ALateNoticeThatIsOlderThanAMessageIsNoError) {
  // Acknowledgements travel with messages only; what is published stays behind by
  // many rounds of the ring.
  for (std::uint32_t i = 0; i < 20 * kCells; ++i) {
    send("x");
    receive();
    ASSERT_TRUE(sender_.acknowledge(receiver_.next()));
    receiver_.told();
    ASSERT_TRUE(sender_.refresh()) << i;
  }
}

TEST_F(Ring, KnowsWhichMessagesWereConsumed) {
  const std::uint32_t first = send("a");
  const std::uint32_t second = send(std::string(100, 'b'));
  EXPECT_FALSE(sender_.is_consumed(first));
  receive();
  ASSERT_TRUE(sender_.acknowledge(receiver_.next()));
  EXPECT_TRUE(sender_.is_consumed(first));
  EXPECT_FALSE(sender_.is_consumed(second));
}

TEST_F(Ring, RefusesAcknowledgementsOfWhatWasNeverSent) {
  send("a");
  EXPECT_FALSE(sender_.acknowledge(2));
  EXPECT_FALSE(sender_.acknowledge(0xffffffffu));
  EXPECT_TRUE(sender_.acknowledge(1));
  consumed_.store(77);
  EXPECT_FALSE(sender_.refresh());
}

TEST_F(Ring, RefusesHeadsThatAreNoMessage) {
  MessageHead head;
  std::uint32_t acknowledged = 0;
  HeadCell& cell = cells_[0];
  cell.sequence.store(1);
  const auto with = [&](std::uint32_t kind, std::uint32_t length) {
    cell.kind_length = kind << 28 | length;
    return receiver_.peek(head, acknowledged);
  };
  EXPECT_FALSE(with(0, 0));
  EXPECT_FALSE(with(3, 0));
  EXPECT_FALSE(with(15, 0));
  EXPECT_FALSE(with(1, kLengthMask));
  EXPECT_FALSE(with(1, kCells * 64)) << "longer than the ring";
  EXPECT_FALSE(with(2, 5)) << "a notice of a write has four bytes";
  EXPECT_TRUE(with(2, 4));
  EXPECT_TRUE(with(1, 48));
}

TEST_F(Ring, RefusesAMessageWhoseTailIsNotThere) {
  send(std::string(200, 'x'));
  cells_[2].sequence.store(0);
  MessageHead head;
  std::uint32_t acknowledged = 0;
  ASSERT_TRUE(receiver_.peek(head, acknowledged));
  std::vector<std::byte> buffer(200);
  EXPECT_FALSE(receiver_.take(head, buffer.data()));
}

TEST_F(Ring, PayloadIsNeverTakenForASequenceNumber) {
  // Every payload byte is what the next head's sequence would look like.
  for (std::uint32_t round = 0; round < 3 * kCells; ++round) {
    std::string text(150, '\0');
    for (std::size_t i = 0; i + 4 <= text.size(); i += 4) {
      const std::uint32_t fake = sender_.next() + static_cast<std::uint32_t>(i / 4) % 8;
      std::memcpy(text.data() + i, &fake, 4);
    }
    ASSERT_TRUE(sender_.has_room(150));
    send(text);
    ASSERT_EQ(receive(), text);
    ASSERT_FALSE(receiver_.has_message()) << round;
    receiver_.publish();
  }
}

// Random traffic against a queue of strings.
TEST_F(Ring, BehavesLikeAQueue) {
  Prng random(::yonder::testing::test_seed());
  std::deque<std::string> model;
  for (int step = 0; step < 50'000; ++step) {
    const auto length = static_cast<std::uint32_t>(random.below(random.below(20) == 0 ? 3000 : 200));
    if (random.below(2) == 0 && sender_.has_room(length)) {
      model.emplace_back(length, static_cast<char>(random.below(256)));
      send(model.back());
    } else if (!model.empty()) {
      ASSERT_EQ(receive(), model.front());
      model.pop_front();
    }
    ASSERT_EQ(receiver_.has_message(), !model.empty());
    if (random.below(16) == 0 && receiver_.has_news()) receiver_.publish();
  }
}

}  // namespace
}  // namespace yonder::fabric::shm
