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
    EXPECT_TRUE(receiver_.take(head, reinterpret_cast<std::byte*>(text.data()), head.length));
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
  EXPECT_TRUE(sender_.acknowledge(0xffffffffu)) << "older than what we know: nothing new";
  EXPECT_EQ(sender_.acknowledged(), 0u);
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
    cell.what.store(kind << 28 | length);
    return receiver_.has_message() && receiver_.peek(head, acknowledged);
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
  reinterpret_cast<TailCell&>(cells_[2]).sequence.store(0);
  ASSERT_TRUE(receiver_.has_message());
  MessageHead head;
  std::uint32_t acknowledged = 0;
  ASSERT_TRUE(receiver_.peek(head, acknowledged));
  std::vector<std::byte> buffer(200);
  EXPECT_FALSE(receiver_.take(head, buffer.data(), static_cast<std::uint32_t>(buffer.size())));
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

// Two sides with rings and express cells in both directions.
class Dialogue : public ::testing::Test {
 protected:
  struct Side {
    MessageSender sender;
    MessageReceiver receiver;

    void say(const std::string& text) {
      const LocalPiece piece = LocalPiece::of(std::as_bytes(std::span(text)));
      sender.send({MessageKind::kSend, static_cast<std::uint32_t>(text.size()), 0}, {&piece, 1},
                  receiver.next());
      receiver.told();
    }
    std::string hear() {
      if (!receiver.has_message()) return "(nothing)";
      MessageHead head;
      std::uint32_t acknowledged = 0;
      EXPECT_TRUE(receiver.peek(head, acknowledged));
      EXPECT_TRUE(sender.acknowledge(acknowledged));
      std::string text(head.length, '?');
      EXPECT_TRUE(receiver.take(head, reinterpret_cast<std::byte*>(text.data()), head.length));
      return text;
    }
  };

  Dialogue() : cells_(2 * (kCells + kExpressCells)) {
    for (HeadCell& cell : cells_) std::memset(static_cast<void*>(&cell), 0, sizeof cell);
    for (int i = 0; i < 2; ++i) {
      Side& side = sides_[i];
      side.sender = MessageSender(ring(i), kCells, &consumed_[i], express(i));
      side.receiver = MessageReceiver(ring(1 - i), kCells, &consumed_[1 - i], express(1 - i));
    }
  }
  HeadCell* express(int i) { return &cells_[2 * kCells + static_cast<std::size_t>(i) * kExpressCells]; }
  std::byte* ring(int i) {
    return reinterpret_cast<std::byte*>(&cells_[static_cast<std::size_t>(i) * kCells]);
  }
  bool ring_was_used(int i) {
    for (std::uint32_t n = 0; n < kCells; ++n) {
      if (cells_[static_cast<std::size_t>(i) * kCells + n].sequence.load() != 0) return true;
    }
    return false;
  }

  std::vector<HeadCell> cells_;
  std::atomic<std::uint32_t> consumed_[2] = {};
  Side sides_[2];
};

TEST_F(Dialogue, QuestionsAndAnswersStayInTheExpressArea) {
  // The first answer tells that the first question was consumed, and so on.
  for (int i = 0; i < 1000; ++i) {
    const std::string question = "question " + std::to_string(i);
    const std::string answer = "answer " + std::string(static_cast<std::size_t>(i) % 221, 'a');
    sides_[0].say(question);
    ASSERT_EQ(sides_[1].hear(), question);
    sides_[1].say(answer);
    ASSERT_EQ(sides_[0].hear(), answer);
  }
  EXPECT_FALSE(ring_was_used(0) || ring_was_used(1));
}

TEST_F(Dialogue, AStreamUsesTheRingAndKeepsItsOrder) {
  sides_[0].say("one");  // express
  sides_[0].say("two");
  sides_[0].say(std::string(500, '3'));
  EXPECT_TRUE(ring_was_used(0));
  EXPECT_EQ(sides_[1].hear(), "one");
  sides_[1].say("back");  // tells that "one" was consumed
  EXPECT_EQ(sides_[1].hear(), "two");
  EXPECT_EQ(sides_[0].hear(), "back");
  sides_[0].say("four");  // express, while the third waits in the ring
  EXPECT_EQ(sides_[1].hear(), std::string(500, '3'));
  EXPECT_EQ(sides_[1].hear(), "four");
  EXPECT_EQ(sides_[1].hear(), "(nothing)");
}

TEST_F(Dialogue, BothSidesBehaveLikeQueues) {
  Prng random(::yonder::testing::test_seed());
  std::deque<std::string> model[2];
  for (int step = 0; step < 50'000; ++step) {
    const std::size_t i = random.below(2);
    const auto length = static_cast<std::uint32_t>(random.below(random.below(10) == 0 ? 2000 : 60));
    if (random.below(2) == 0 && sides_[i].sender.has_room(length)) {
      model[i].emplace_back(length, static_cast<char>('a' + random.below(26)));
      sides_[i].say(model[i].back());
    } else if (model[1 - i].empty()) {
      ASSERT_EQ(sides_[i].hear(), "(nothing)");
      if (sides_[i].receiver.has_news()) sides_[i].receiver.publish();
    } else {
      ASSERT_EQ(sides_[i].hear(), model[1 - i].front());
      model[1 - i].pop_front();
    }
  }
}

TEST_F(Dialogue, ALieAboutTheLengthOfAnExpressMessageIsMalformed) {
  sides_[0].say("short");
  express(0)->what.store(1u << 28 | 229);  // one byte more than the area holds
  MessageHead head;
  std::uint32_t acknowledged = 0;
  ASSERT_TRUE(sides_[1].receiver.has_message());
  EXPECT_FALSE(sides_[1].receiver.peek(head, acknowledged));
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
