// Bad input, peers that vanish, and peers that lie: typed errors, nothing twice.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "yonder/structures/suite_shuffle/bed.h"

namespace yonder::structures::suite {
namespace {

using namespace std::chrono_literals;

TEST_P(ShuffleSuite, RefusesOptionsThatCannotBe) {
  const auto create = [this](ShuffleReceiverOptions options) {
    options.address = place_->listen_address();
    return outcome_of(
        ShuffleReceiver::create(place_->server_fabric(), *receiver_queue_, *receiver_scheduler_, options));
  };
  EXPECT_EQ(create({.senders = 0}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create({.senders = 1, .ring_bytes = 0}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create({.senders = 1, .ring_bytes = 3000}).error(), ErrorCode::kInvalidArgument);
  ASSERT_NO_FATAL_FAILURE(add_receiver({.senders = 2}));
  const auto connect = [this](const ShuffleSenderOptions& options) {
    return outcome_of(connect_sender(options));
  };
  const auto without_receivers = outcome_of(ShuffleSender::connect(
      place_->client_fabric(), *sender_queue_, *sender_scheduler_, ShuffleSenderOptions{}));
  EXPECT_EQ(without_receivers.error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(connect({.senders = 0}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(connect({.senders = 2, .index = 2}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(connect({.senders = 3}).error(), ErrorCode::kInvalidArgument) << "the receiver expects two";
  EXPECT_EQ(connect({.receivers = {addresses_[0], addresses_[0]}, .senders = 2}).error(),
            ErrorCode::kInvalidArgument)
      << "the second address is the first receiver's";
  EXPECT_EQ(connect({.senders = 2, .batch_entries = 0}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(connect({.senders = 2, .batch_entries = 65'537}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(connect({.senders = 2, .in_flight = 0}).error(), ErrorCode::kInvalidArgument);
}

TEST_P(ShuffleSuite, AnIndexIsTakenOnce) {
  ASSERT_NO_FATAL_FAILURE(add_receiver({.senders = 2}));
  auto first = connect_sender({.senders = 2, .index = 1});
  ASSERT_TRUE(first) << first.error();
  const auto second = connect_sender({.senders = 2, .index = 1});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), ErrorCode::kAlreadyExists);
}

TEST_P(ShuffleSuite, APartitionerThatNamesNobodyOrThrowsLosesNothingElse) {
  const auto by_first = [](const ShuffleEntry& entry, std::uint32_t) -> std::uint32_t {
    if (entry.key.empty()) throw std::runtime_error("no key");
    return static_cast<std::uint32_t>(entry.key[0]) - '0';
  };
  ASSERT_NO_FATAL_FAILURE(gather({.senders = 1, .receivers = 2, .sender = {.partitioner = by_first}}));
  for (const char* const key : {"2", "9", ""}) {
    const std::string text = key;
    const auto refused = senders_[0]->try_add({.key = bytes_of(text)});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(senders_[0]->try_add_to(2, {}).error(), ErrorCode::kInvalidArgument);
  shuffle_and_check({{{"0", "a"}, {"1", "b"}}});
}

TEST_P(ShuffleSuite, AfterTheEndNothingIsTaken) {
  ASSERT_NO_FATAL_FAILURE(gather({.senders = 1, .receivers = 1}));
  shuffle_and_check({{{"k", "v"}}});
  EXPECT_EQ(senders_[0]->try_add({}).error(), ErrorCode::kClosed);
}

TEST_P(ShuffleSuite, WaitingHasADeadline) {
  ASSERT_NO_FATAL_FAILURE(add_receiver({.senders = 1}));
  const auto deadline = Deadline::after(place_->server_fabric().clock(), 5ms);
  fabric::Scheduler& scheduler = is_virtual() ? *sender_scheduler_ : *receiver_scheduler_;
  const auto batch = scheduler.block_on(receivers_[0]->async_next(deadline));
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(scheduler.block_on(receivers_[0]->async_finish(soon())).error(), ErrorCode::kInvalidArgument);
}

// Two batches of a stream, then the sender is gone.
TEST_P(ShuffleSuite, ASenderThatVanishesIsMissedAfterWhatItSent) {
  ASSERT_NO_FATAL_FAILURE(gather({.senders = 2, .receivers = 1}));
  const Records sent{{"a", "1"}, {"b", "2"}, {"c", "3"}};
  const auto flush_only = [](ShuffleSender& sender, const Records& records, Deadline deadline,
                             Result<void>& out) -> Task<void> {
    for (const Record& record : records) {
      out = co_await sender.async_add(entry_of(record), deadline);
      if (out) out = co_await sender.async_flush(deadline);
      if (!out) co_return;
    }
  };
  // The receiver must take the connections for the flush to end, and no batch yet.
  Result<void> outcome = fail(ErrorCode::kClosed, "not run");
  Harvest harvest(2);
  std::vector<Task<void>> sending;
  std::vector<Task<void>> taking;
  const auto take_some = [](ShuffleReceiver& receiver, Harvest& out, std::size_t count,
                            Deadline deadline) -> Task<void> {
    while (out.of_sender[0].size() < count) {
      Result<ShuffleBatch> batch = co_await receiver.async_next(deadline);
      if (!batch) co_return;
      for (const ShuffleEntry entry : *batch)
        out.of_sender[batch->sender()].emplace_back(text_of(entry.key), text_of(entry.value));
    }
  };
  sending.push_back(flush_only(*senders_[0], sent, soon(), outcome));
  taking.push_back(take_some(*receivers_[0], harvest, sent.size(), soon()));
  run(std::move(sending), std::move(taking));
  ASSERT_TRUE(outcome) << outcome.error();
  EXPECT_EQ(harvest.of_sender[0], sent);
  senders_[0].reset();
  std::vector<Task<void>> late;
  std::vector<Task<void>> missing;
  missing.push_back(take_all(*receivers_[0], harvest, soon()));
  run(std::move(late), std::move(missing));
  ASSERT_FALSE(harvest.outcome);
  EXPECT_EQ(harvest.outcome.error(), ErrorCode::kConnectionLost);
  EXPECT_EQ(harvest.outcome.error().detail(), 0);
  EXPECT_EQ(harvest.of_sender[0], sent) << "once";
  // The other sender learns that the shuffle is over.
  Result<void> other;
  std::vector<Task<void>> sending_more;
  std::vector<Task<void>> nobody;
  sending_more.push_back(send_all(*senders_[1], sent, soon(), other));
  run(std::move(sending_more), std::move(nobody));
  EXPECT_FALSE(other);
}

TEST_P(ShuffleSuite, AReceiverThatVanishesIsMissedByItsSenders) {
  ASSERT_NO_FATAL_FAILURE(gather({.senders = 1, .receivers = 2}));
  receivers_[1].reset();
  Result<void> outcome;
  Harvest harvest(1);
  std::vector<Task<void>> sending;
  std::vector<Task<void>> taking;
  const Records records(100, {"key", "value"});
  sending.push_back(send_all(*senders_[0], records, soon(), outcome));
  taking.push_back(take_all(*receivers_[0], harvest, soon()));
  run(std::move(sending), std::move(taking));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().detail(), 1) << outcome.error();
  EXPECT_EQ(senders_[0]->try_add({}).error(), outcome.error()) << "the same for ever";
  ASSERT_FALSE(harvest.outcome) << "the other receiver must not believe that this was all";
  EXPECT_EQ(harvest.outcome.error(), ErrorCode::kConnectionLost);
}

TEST_P(ShuffleSuite, NobodyShufflesAtAnotherListener) {
  auto listener = place_->server_fabric().listen({.address = place_->listen_address(), .passive = true});
  ASSERT_TRUE(listener) << listener.error();
  const auto sender = connect_sender({.receivers = {(*listener)->address()}, .senders = 1});
  ASSERT_FALSE(sender);
  EXPECT_EQ(sender.error(), ErrorCode::kProtocolMismatch);
}

}  // namespace
}  // namespace yonder::structures::suite
