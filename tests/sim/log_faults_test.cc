// Many seeds of a log whose writers and readers meet lost messages, broken connections,
// torn writes and crashes:
//   G1  an acknowledged record is read once, whole, at the position that was told
//   G2  any other record is read at most once
//   G3  all readers see the same sequence
//   G4  what was appended after another append was acknowledged stands behind it
//   G5  every call ends, with a value or a typed error, and readers get to the end
// A failure names its seed; --seed=N runs that one first.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/remote/port.h"
#include "yonder/structures/log.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder {
namespace {

using namespace std::chrono_literals;
using fabric::Task;
using structures::Log;
using structures::LogPosition;
using structures::LogReader;
using structures::LogRecord;

constexpr std::uint32_t kWriters = 3;
constexpr int kAppends = 25;
// Longer and shorter than a message is on its way. Nothing is trimmed here, so a slot is
// never used again and even a lease that every writer misses must do no harm (L4).
constexpr Duration kLeases[] = {20us, 400us, 80ms};

struct Appended {
  std::string text;
  Instant begin;
  Instant end;
  LogPosition position;
};

using Sequence = std::vector<std::pair<LogPosition, std::string>>;

std::string text_of(const LogRecord& record) {
  return {reinterpret_cast<const char*>(record.bytes.data()), record.bytes.size()};
}

// A host's way to the log.
struct Client {
  std::unique_ptr<fabric::CompletionQueue> queue;
  std::unique_ptr<fabric::Endpoint> endpoint;
  std::unique_ptr<Log> log;
};

class Chaos {
 public:
  explicit Chaos(std::uint64_t seed)
      : random_(seed),
        world_({.seed = seed, .hosts = kWriters + 2}),
        options_{.slots = 4096, .lease = kLeases[random_.below(std::size(kLeases))]} {
    fabric::Fabric& memory_host = world_.host(0).fabric();
    memory_.resize(Log::bytes_for(options_) / 8);
    region_ = memory_host
                  .register_memory(
                      {.memory = std::as_writable_bytes(std::span(memory_)), .rights = fabric::Rights::kAll})
                  .value();
    listener_ = memory_host.listen({.address = "sim://host0:7400", .passive = true}).value();
    scheduler_queue_ = world_.host(1).fabric().create_completion_queue({}).value();
    scheduler_ = std::make_unique<fabric::Scheduler>(*scheduler_queue_);
    for (std::uint32_t host = 1; host < kWriters + 2; ++host) clients_.push_back(connect(host));
    EXPECT_TRUE(Log::create(port(clients_[0]), region_.token(), options_));
    for (std::uint32_t i = 0; i < clients_.size(); ++i) clients_[i].log = open(i);
    world_.inject(random_rates());
    schedule_faults();
  }
  ~Chaos() {
    readers_.clear();
    for (Client& client : clients_) client.endpoint->close();
    clients_.clear();
    scheduler_.reset();
  }

  void run() {
    readers_.push_back(clients_[0].log->reader({}));
    scheduler_->spawn(follow(*readers_.back()));
    for (std::uint32_t i = 1; i <= kWriters; ++i) scheduler_->spawn(write(*clients_[i].log, i));
    for (int i = 0; i < 4000 && finished_ < kWriters + 1; ++i) {
      (void)scheduler_->run(Deadline::after(world_.clock(), 5ms));
    }
    ASSERT_EQ(finished_, kWriters + 1) << "G5: a call never ended";
    world_.inject({});
    const auto first = read_all();
    const auto second = read_all();
    EXPECT_TRUE(first == second) << "G3";
    ASSERT_LE(followed_.size(), first.size()) << "G3";
    EXPECT_TRUE(std::equal(followed_.begin(), followed_.end(), first.begin())) << "G3";
    check(first);
  }

  std::uint64_t sealed() const { return clients_[0].log->stats().sealed; }
  std::uint64_t overtaken() const {
    std::uint64_t sum = 0;
    for (const Client& client : clients_) sum += client.log->stats().overtaken;
    return sum;
  }
  std::size_t acknowledged() const { return appended_.size(); }

 private:
  Client connect(std::uint32_t host) {
    Client client;
    fabric::Fabric& fabric = world_.host(host).fabric();
    client.queue = fabric.create_completion_queue({}).value();
    client.endpoint = fabric.connect({.address = "sim://host0:7400"}, *client.queue).value();
    return client;
  }
  remote::Port port(const Client& client) { return {*client.endpoint, *scheduler_, 500ms}; }
  std::unique_ptr<Log> open(std::uint32_t index) {
    return Log::open(world_.host(index + 1).fabric(), port(clients_[index]), region_.token()).value();
  }

  fabric::sim::FaultRates random_rates() {
    fabric::sim::FaultRates rates;
    if (random_.chance(0.5)) rates.tear = random_.uniform_double();
    rates.tear_bytes = 8u << random_.below(4);
    if (random_.chance(0.4)) rates.loss = random_.uniform_double() * 0.05;
    if (random_.chance(0.5)) rates.delay = random_.uniform_double() * 0.5;
    if (random_.chance(0.4)) rates.completion_error = random_.uniform_double() * 0.05;
    if (random_.chance(0.3)) rates.connection_break = random_.uniform_double() * 0.02;
    return rates;
  }
  void schedule_faults() {
    const auto some_time = [this] { return world_.clock().now() + Duration(random_.below(400'000)); };
    // Writers die in the middle of anything; host 1 is the reader's.
    for (std::uint32_t host = 2; host < kWriters + 2; ++host) {
      if (random_.chance(0.25)) {
        world_.schedule({.at = some_time(), .kind = fabric::sim::FaultKind::kCrash, .host = host});
      }
    }
    if (random_.chance(0.2)) {
      world_.schedule({.at = some_time(), .kind = fabric::sim::FaultKind::kBreak, .host = 0});
    }
  }

  Task<void> write(Log& log, std::uint32_t writer) {
    for (int i = 0; i < kAppends; ++i) {
      std::vector<std::string> texts;
      const std::uint64_t count = 1 + (random_.chance(0.3) ? random_.below(8) : 0);
      for (std::uint64_t j = 0; j < count; ++j) {
        texts.push_back(std::to_string(writer) + ":" + std::to_string(i) + ":" + std::to_string(j) +
                        std::string(random_.below(120), '.'));
        attempted_.insert(texts.back());
      }
      std::vector<std::span<const std::byte>> records;
      for (const std::string& text : texts) records.push_back(std::as_bytes(std::span(text)));
      const auto batching =
          random_.chance(0.5) ? structures::LogBatching::kPack : structures::LogBatching::kGather;
      const Instant begin = world_.clock().now();
      const auto at = co_await log.async_append_many(records, {.batching = batching});
      if (!at) continue;
      for (std::uint32_t j = 0; j < count; ++j) {
        appended_.push_back({.text = texts[j],
                             .begin = begin,
                             .end = world_.clock().now(),
                             .position = {.slot = at->slot, .index = j}});
      }
    }
    ++finished_;
  }

  // Reads while the others write.
  Task<void> follow(LogReader& reader) {
    for (int quiet = 0; quiet < 3;) {
      const auto records = co_await reader.async_next(Deadline::after(world_.clock(), 20ms));
      if (records) {
        for (const LogRecord& record : *records) followed_.emplace_back(record.position, text_of(record));
      } else if (records.error() == ErrorCode::kCorrupt) {
        damaged_.insert(reader.position());
        reader.skip();
      } else {
        quiet += finished_ == kWriters ? 1 : 0;
      }
    }
    ++finished_;
  }

  // Everything, from the first host, which never crashes.
  Sequence read_all() {
    Sequence out;
    auto bounds = clients_[0].log->bounds();
    // Its connection may have to be made again first.
    while (!bounds) bounds = clients_[0].log->bounds();
    const LogPosition end = bounds->end;
    readers_.push_back(clients_[0].log->reader({}));
    LogReader& reader = *readers_.back();
    while (reader.position() < end) {
      const auto records = reader.next(Deadline::after(world_.clock(), 2s));
      if (records) {
        for (const LogRecord& record : *records) {
          out.emplace_back(record.position, std::string(reinterpret_cast<const char*>(record.bytes.data()),
                                                        record.bytes.size()));
        }
        continue;
      }
      if (records.error() == ErrorCode::kCorrupt) {
        damaged_.insert(reader.position());
        reader.skip();
        continue;
      }
      // A break that was still to come: the reader is where it was.
      if (records.error() == ErrorCode::kConnectionLost) continue;
      // Holes at the very end are skipped without a record to show for it.
      if (records.error() == ErrorCode::kDeadlineExceeded && reader.position() >= end) break;
      ADD_FAILURE() << "G5: " << records.error();
      break;
    }
    return out;
  }

  void check(const Sequence& seen) {
    std::map<LogPosition, std::string> at;
    std::set<std::string> once;
    for (const auto& [position, text] : seen) {
      at.emplace(position, text);
      EXPECT_TRUE(attempted_.contains(text)) << "G2: never appended: " << text;
      EXPECT_TRUE(once.insert(text).second) << "G2: twice: " << text;
    }
    for (const Appended& one : appended_) {
      EXPECT_EQ(at[one.position], one.text) << "G1";
      EXPECT_FALSE(damaged_.contains({.slot = one.position.slot})) << "G1";
    }
    std::ranges::sort(appended_, {}, &Appended::position);
    Instant latest_begin;
    for (const Appended& one : appended_) {
      EXPECT_GE(one.end, latest_begin) << "G4: " << one.text << " ended before one in front of it began";
      latest_begin = std::max(latest_begin, one.begin);
    }
  }

  Prng random_;
  fabric::sim::World world_;
  const structures::LogOptions options_;
  std::vector<std::uint64_t> memory_;
  fabric::Region region_;
  std::unique_ptr<fabric::Listener> listener_;
  std::unique_ptr<fabric::CompletionQueue> scheduler_queue_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
  std::vector<Client> clients_;
  std::vector<std::unique_ptr<LogReader>> readers_;
  std::set<std::string> attempted_;
  std::vector<Appended> appended_;
  std::set<LogPosition> damaged_;
  Sequence followed_;
  std::uint32_t finished_ = 0;
};

TEST(LogFaults, NothingAcknowledgedIsLostOverManySeeds) {
  std::uint64_t sealed = 0;
  std::uint64_t overtaken = 0;
  std::size_t acknowledged = 0;
  const auto seeds = static_cast<std::uint64_t>(testing::scaled(1000)) * testing::test_effort();
  for (std::uint64_t i = 0; i < seeds && !HasFailure(); ++i) {
    const std::uint64_t seed = testing::test_seed() + i;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Chaos chaos(seed);
    chaos.run();
    sealed += chaos.sealed();
    overtaken += chaos.overtaken();
    acknowledged += chaos.acknowledged();
  }
  // Of hundreds of seeds, most have writers that die or lose an answer.
  EXPECT_GT(sealed, 0u);
  EXPECT_GT(overtaken, 0u);
  EXPECT_GT(acknowledged, 0u);
}

}  // namespace
}  // namespace yonder
