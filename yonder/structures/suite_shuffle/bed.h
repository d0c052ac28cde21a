#pragma once
// The test bed of the shuffle: n senders and m receivers on some provider, and what
// each receiver must get of each sender. One suite runs unchanged on all providers.
//
// In virtual time one thread drives all executors; otherwise the senders have one
// thread and the receivers another.
//
// Concurrency: the test's thread, unless a function says more.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/testbed/provider.h"
#include "yonder/structures/shuffle_receiver.h"
#include "yonder/structures/shuffle_sender.h"

namespace yonder::structures::suite {

using fabric::Task;
using fabric::testbed::Place;
using fabric::testbed::Provider;
using fabric::testbed::provider_name;

using Record = std::pair<std::string, std::string>;
using Records = std::vector<Record>;

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
inline ShuffleEntry entry_of(const Record& record) {
  return {.key = bytes_of(record.first), .value = bytes_of(record.second)};
}
inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What a receiver got: per sender, in order; and how it ended.
struct Harvest {
  explicit Harvest(std::uint32_t senders) : of_sender(senders) {}
  std::vector<Records> of_sender;
  std::uint32_t rounds = 0;
  Result<void> outcome;
};

struct Crowd {
  std::uint32_t senders = 2;
  std::uint32_t receivers = 2;
  ShuffleSenderOptions sender;      // addresses and numbers are filled in
  ShuffleReceiverOptions receiver;  // likewise
};

class ShuffleSuite : public ::testing::TestWithParam<Provider> {
 protected:
  void SetUp() override;
  void TearDown() override;

  bool is_virtual() const { return place_->server_fabric().capabilities().virtual_time; }
  Deadline soon() const;

  // Makes the executors; ASSERT_NO_FATAL_FAILURE around it.
  void gather(const Crowd& crowd);
  void add_receiver(ShuffleReceiverOptions options);
  Result<std::unique_ptr<ShuffleSender>> connect_sender(ShuffleSenderOptions options);

  // Runs a task for each executor until all have ended.
  void run(std::vector<Task<void>> senders, std::vector<Task<void>> receivers);

  // All of one executor's part: sends `records`, ends; takes until the end.
  static Task<void> send_all(ShuffleSender& sender, const Records& records, Deadline deadline,
                             Result<void>& outcome);
  static Task<void> take_all(ShuffleReceiver& receiver, Harvest& harvest, Deadline deadline);

  // inputs[i] goes through sender i; checks that every receiver got exactly what
  // `partitioner` gives it, in each sender's order.
  void shuffle_and_check(const std::vector<Records>& inputs);

  std::unique_ptr<Place> place_;
  std::unique_ptr<fabric::CompletionQueue> sender_queue_;
  std::unique_ptr<fabric::CompletionQueue> receiver_queue_;
  std::unique_ptr<fabric::Scheduler> sender_scheduler_;
  std::unique_ptr<fabric::Scheduler> receiver_scheduler_;
  std::vector<std::unique_ptr<ShuffleReceiver>> receivers_;
  std::vector<std::unique_ptr<ShuffleSender>> senders_;
  std::vector<std::string> addresses_;
  Partitioner partitioner_;
};

}  // namespace yonder::structures::suite
