#include "yonder/structures/suite_shuffle/bed.h"
#include "yonder/testing/patience.h"

#include <thread>

namespace yonder::structures::suite {

void ShuffleSuite::SetUp() {
  place_ = GetParam().make();
  ASSERT_NE(place_, nullptr);
  auto sending = place_->client_fabric().create_completion_queue({});
  auto receiving = place_->server_fabric().create_completion_queue({});
  ASSERT_TRUE(sending && receiving);
  sender_queue_ = *std::move(sending);
  receiver_queue_ = *std::move(receiving);
  sender_scheduler_ = std::make_unique<fabric::Scheduler>(*sender_queue_);
  receiver_scheduler_ = std::make_unique<fabric::Scheduler>(*receiver_queue_);
}

void ShuffleSuite::TearDown() {
  senders_.clear();
  receivers_.clear();
  sender_scheduler_.reset();
  receiver_scheduler_.reset();
  sender_queue_.reset();
  receiver_queue_.reset();
  place_.reset();
}

Deadline ShuffleSuite::soon() const {
  return Deadline::after(place_->client_fabric().clock(), ::yonder::testing::kPatience);
}

void ShuffleSuite::add_receiver(ShuffleReceiverOptions options) {
  options.address = place_->listen_address();
  // In virtual time one scheduler drives everybody.
  fabric::Scheduler& scheduler = is_virtual() ? *sender_scheduler_ : *receiver_scheduler_;
  auto receiver = ShuffleReceiver::create(place_->server_fabric(), *receiver_queue_, scheduler, options);
  ASSERT_TRUE(receiver) << receiver.error();
  addresses_.push_back((*receiver)->address());
  receivers_.push_back(*std::move(receiver));
}

Result<std::unique_ptr<ShuffleSender>> ShuffleSuite::connect_sender(ShuffleSenderOptions options) {
  if (options.receivers.empty()) options.receivers = addresses_;
  if (!is_virtual()) options.timeout = ::yonder::testing::kPatience;
  return ShuffleSender::connect(place_->client_fabric(), *sender_queue_, *sender_scheduler_, options);
}

void ShuffleSuite::gather(const Crowd& crowd) {
  partitioner_ = crowd.sender.partitioner;
  for (std::uint32_t i = 0; i < crowd.receivers; ++i) {
    ShuffleReceiverOptions options = crowd.receiver;
    options.senders = crowd.senders;
    options.index = i;
    ASSERT_NO_FATAL_FAILURE(add_receiver(options));
  }
  for (std::uint32_t i = 0; i < crowd.senders; ++i) {
    ShuffleSenderOptions options = crowd.sender;
    options.senders = crowd.senders;
    options.index = i;
    auto sender = connect_sender(options);
    ASSERT_TRUE(sender) << sender.error();
    senders_.push_back(*std::move(sender));
  }
}

void ShuffleSuite::run(std::vector<Task<void>> senders, std::vector<Task<void>> receivers) {
  const auto drive = [this](fabric::Scheduler& scheduler, std::vector<Task<void>>& tasks) {
    for (Task<void>& task : tasks) scheduler.spawn(std::move(task));
    EXPECT_TRUE(scheduler.run(soon())) << "an executor never ended";
  };
  if (is_virtual()) {
    for (Task<void>& task : receivers) senders.push_back(std::move(task));
    drive(*sender_scheduler_, senders);
    return;
  }
  std::thread other([&] { drive(*receiver_scheduler_, receivers); });
  drive(*sender_scheduler_, senders);
  other.join();
}

Task<void> ShuffleSuite::send_all(ShuffleSender& sender, const Records& records, Deadline deadline,
                                  Result<void>& outcome) {
  for (const Record& record : records) {
    outcome = co_await sender.async_add(entry_of(record), deadline);
    if (!outcome) co_return;
  }
  outcome = co_await sender.async_finish(deadline);
}

Task<void> ShuffleSuite::take_all(ShuffleReceiver& receiver, Harvest& harvest, Deadline deadline) {
  for (;;) {
    Result<ShuffleBatch> batch = co_await receiver.async_next(deadline);
    if (!batch) {
      harvest.outcome = std::unexpected(batch.error());
      co_return;
    }
    if (batch->kind() == ShuffleBatch::Kind::kEndOfStream) break;
    if (batch->is_end()) ++harvest.rounds;
    for (const ShuffleEntry entry : *batch)
      harvest.of_sender[batch->sender()].emplace_back(text_of(entry.key), text_of(entry.value));
  }
  harvest.outcome = co_await receiver.async_finish(deadline);
}

void ShuffleSuite::shuffle_and_check(const std::vector<Records>& inputs) {
  const auto senders = static_cast<std::uint32_t>(inputs.size());
  const auto receivers = static_cast<std::uint32_t>(receivers_.size());
  std::vector<Harvest> harvests(receivers, Harvest(senders));
  std::vector<Result<void>> outcomes(senders);
  std::vector<Task<void>> sending;
  std::vector<Task<void>> taking;
  for (std::uint32_t i = 0; i < senders; ++i)
    sending.push_back(send_all(*senders_[i], inputs[i], soon(), outcomes[i]));
  for (std::uint32_t i = 0; i < receivers; ++i)
    taking.push_back(take_all(*receivers_[i], harvests[i], soon()));
  run(std::move(sending), std::move(taking));
  for (const Result<void>& outcome : outcomes) EXPECT_TRUE(outcome) << outcome.error();
  std::vector<Harvest> expected(receivers, Harvest(senders));
  for (std::uint32_t i = 0; i < senders; ++i) {
    for (const Record& record : inputs[i]) {
      const ShuffleEntry entry = entry_of(record);
      const std::uint32_t to =
          partitioner_ ? partitioner_(entry, receivers) : hash_partition(entry.key, receivers);
      expected[to].of_sender[i].push_back(record);
    }
  }
  for (std::uint32_t i = 0; i < receivers; ++i) {
    EXPECT_TRUE(harvests[i].outcome) << harvests[i].outcome.error();
    EXPECT_TRUE(harvests[i].of_sender == expected[i].of_sender) << "receiver " << i;
  }
}

}  // namespace yonder::structures::suite
