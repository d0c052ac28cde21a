#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/rpc/internal/connection.h"
#include "yonder/testing/seed.h"

namespace yonder::rpc {
namespace {

// A queue and endpoints that do nothing: the table needs their ids only.
class IdleQueue final : public fabric::CompletionQueue {
 public:
  IdleQueue() : CompletionQueue(1) {}
  void wake() override {}
  const Clock& clock() const override { return clock_; }

 private:
  struct StoppedClock final : Clock {
    Instant now() const override { return {}; }
  };
  std::size_t do_poll(std::span<fabric::Completion>) override { return 0; }
  Result<void> do_wait(Deadline) override { return {}; }
  StoppedClock clock_;
};

class IdleEndpoint final : public fabric::Endpoint {
 public:
  IdleEndpoint(fabric::CompletionQueue& queue, std::uint64_t id) : Endpoint(queue, fabric::EndpointId{id}) {}
  Result<void> post_receive(std::span<const fabric::ReceiveRequest>) override { return {}; }
  void close() override {}
  fabric::EndpointState state() const override { return fabric::EndpointState::kOpen; }
  const fabric::Limits& limits() const override { return limits_; }
  const fabric::Agreement& agreement() const override { return agreement_; }
  std::span<const std::byte> greeting() const override { return {}; }

 private:
  Result<std::size_t> do_post(std::span<const fabric::WorkRequest>) override { return 0; }
  fabric::Limits limits_;
  fabric::Agreement agreement_;
};

class ConnectionTableTest : public ::testing::Test {
 protected:
  Connection& insert(ConnectionTable& table, std::uint64_t id) {
    auto connection = std::make_unique<Connection>();
    connection->endpoint = std::make_unique<IdleEndpoint>(queue_, id);
    return table.insert(std::move(connection));
  }
  IdleQueue queue_;
};

TEST_F(ConnectionTableTest, FindsWhatWasInserted) {
  ConnectionTable table(4);
  EXPECT_EQ(table.find(fabric::EndpointId{1}), nullptr);
  Connection& one = insert(table, 1);
  EXPECT_EQ(table.find(fabric::EndpointId{1}), &one);
  EXPECT_EQ(table.find(fabric::EndpointId{9}), nullptr) << "9 would stand at the same place";
  EXPECT_EQ(table.find(fabric::EndpointId{0}), nullptr) << "an empty cell is no connection with the id 0";
}

TEST_F(ConnectionTableTest, IsFullAtItsBound) {
  ConnectionTable table(2);
  insert(table, 1);
  EXPECT_FALSE(table.full());
  insert(table, 2);
  EXPECT_TRUE(table.full());
  table.remove(fabric::EndpointId{1});
  EXPECT_FALSE(table.full());
}

TEST_F(ConnectionTableTest, AgreesWithAMapWhateverComesAndGoes) {
  Prng prng(testing::test_seed());
  ConnectionTable table(16);
  std::map<std::uint64_t, Connection*> twin;
  for (int i = 0; i < 20'000; ++i) {
    // Ids that collide often: multiples of the table's size, and neighbours.
    const std::uint64_t id = prng.below(8) * 32 + prng.below(3);
    if (twin.contains(id)) {
      EXPECT_EQ(table.remove(fabric::EndpointId{id}).get(), twin[id]);
      twin.erase(id);
    } else if (!table.full()) {
      twin[id] = &insert(table, id);
    }
    ASSERT_EQ(table.size(), twin.size());
    for (std::uint64_t other = 0; other < 8 * 32; ++other) {
      const auto found = twin.find(other);
      ASSERT_EQ(table.find(fabric::EndpointId{other}), found == twin.end() ? nullptr : found->second)
          << other;
    }
  }
}

}  // namespace
}  // namespace yonder::rpc
