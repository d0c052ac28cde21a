// Threads that append, read and trim one log at the same time, in real time.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "yonder/fabric/testbed/shm_place.h"
#include "yonder/fabric/testbed/tcp_place.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/structures/log.h"
#include "yonder/testing/sanitizer.h"

namespace yonder::structures {
namespace {

using fabric::testbed::Place;
using fabric::testbed::ShmPlace;
using fabric::testbed::TcpPlace;

constexpr LogOptions kOptions{.slots = 512, .lease = std::chrono::seconds(5)};
constexpr std::uint64_t kWriters = 2;

// A thread's way to the log.
struct Client {
  Client(fabric::Fabric& fabric, const std::string& address)
      : queue(fabric.create_completion_queue({}).value()),
        scheduler(*queue),
        endpoint(fabric.connect({.address = address}, *queue).value()),
        port(*endpoint, scheduler, std::chrono::seconds(60)) {}

  std::unique_ptr<fabric::CompletionQueue> queue;
  fabric::Scheduler scheduler;
  std::unique_ptr<fabric::Endpoint> endpoint;
  remote::Port port;
};

// Number, writer, and the number again: nothing of it can be torn unnoticed.
struct Record {
  std::uint64_t number;
  std::uint64_t writer;
  std::uint64_t again;
};

class Stress {
 public:
  explicit Stress(Place& place) : place_(place) {
    const std::uint64_t bytes = Log::bytes_for(kOptions);
    file_ = std::make_unique<os::Memfd>(os::Memfd::create({.size = bytes}).value());
    memory_ =
        os::Mapping::of_file(file_->fd(), {.bytes = bytes, .protection = os::Protection::kReadWrite}).value();
    region_ = place.server_fabric()
                  .register_memory({.memory = memory_.bytes(),
                                    .rights = fabric::Rights::kAll,
                                    .backing = fabric::Backing{.fd = file_->fd().get()}})
                  .value();
    listener_ = place.server_fabric().listen({.address = place.listen_address(), .passive = true}).value();
    Client client(place.client_fabric(), listener_->address());
    EXPECT_TRUE(Log::create(client.port, region_.token(), kOptions));
  }

  void run(std::uint64_t appends) {
    std::vector<std::thread> writers;
    for (std::uint64_t i = 0; i < kWriters; ++i)
      writers.emplace_back([this, i, appends] { write(i, appends); });
    read(appends);
    for (std::thread& writer : writers) writer.join();
  }

 private:
  // In batches of one to eight records; waits while the log is full.
  void write(std::uint64_t writer, std::uint64_t appends) {
    Client client(place_.client_fabric(), listener_->address());
    const auto log = Log::open(place_.client_fabric(), client.port, region_.token()).value();
    std::vector<Record> records(8);
    for (std::uint64_t number = 0; number < appends;) {
      const std::uint64_t count = std::min(1 + number % 8, appends - number);
      std::vector<std::span<const std::byte>> spans;
      for (std::uint64_t i = 0; i < count; ++i) {
        records[i] = {number + i, writer, number + i};
        spans.push_back(std::as_bytes(std::span(&records[i], 1)));
      }
      const auto at = log->append_many(spans);
      if (!at) {
        ASSERT_EQ(at.error(), ErrorCode::kResourceExhausted) << at.error();
        std::this_thread::yield();
        continue;
      }
      number += count;
    }
  }

  // Every writer's numbers in order and none missing; trims what it has read.
  void read(std::uint64_t appends) {
    Client client(place_.client_fabric(), listener_->address());
    const auto log = Log::open(place_.client_fabric(), client.port, region_.token()).value();
    const auto reader = log->reader({});
    std::vector<std::uint64_t> expected(kWriters);
    std::uint64_t seen = 0;
    while (seen < kWriters * appends) {
      const auto records = reader->next();
      ASSERT_TRUE(records) << records.error();
      for (const LogRecord& record : *records) {
        Record value;
        ASSERT_EQ(record.bytes.size(), sizeof value);
        std::memcpy(&value, record.bytes.data(), sizeof value);
        ASSERT_LT(value.writer, kWriters);
        ASSERT_EQ(value.number, expected[value.writer]++);
        ASSERT_EQ(value.again, value.number);
        ++seen;
      }
      ASSERT_TRUE(log->trim(reader->position()));
    }
  }

  Place& place_;
  std::unique_ptr<os::Memfd> file_;
  os::Mapping memory_;
  fabric::Region region_;
  std::unique_ptr<fabric::Listener> listener_;
};

TEST(LogStress, ThreadsShareALogThroughSharedMemory) {
  ShmPlace place("?inprocess=off");
  Stress(place).run(static_cast<std::uint64_t>(testing::scaled(20'000)));
}

TEST(LogStress, ThreadsShareALogOverTcp) {
  TcpPlace place;
  Stress(place).run(static_cast<std::uint64_t>(testing::scaled(3'000)));
}

}  // namespace
}  // namespace yonder::structures
