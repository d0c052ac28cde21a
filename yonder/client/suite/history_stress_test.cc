// Sessions that read and write the same objects, one-sided and through the node,
// while a compactor never stops; their histories go through the checker.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/client/session.h"
#include "yonder/fabric/shm/shm.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/fabric/verbs/verbs.h"
#include "yonder/node/server.h"
#include "yonder/os/steady_clock.h"
#include "yonder/sync/spin.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/history.h"
#include "yonder/testing/patience.h"
#include "yonder/testing/pattern.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"
#include "yonder/testing/shared_cell.h"

namespace yonder::client::suite {
namespace {

using ::yonder::testing::HistoryCall;
using ::yonder::testing::HistoryEvent;
using ::yonder::testing::number_in;
using ::yonder::testing::pattern;

const os::SteadyClock kClock;
std::int64_t now_ns() { return kClock.now().ns(); }

using Cell = ::yonder::testing::SharedCell<ObjectPtr>;

struct Plan {
  std::unique_ptr<fabric::Fabric> (*open)();
  std::string address;
  node::Validator validator = node::Validator::kReread;
  bool use_windows = true;
  Correction correction = Correction::kRpc;
  std::size_t cells = 1024;
  std::uint32_t bytes = 40;
  int workers = 2;
  std::uint64_t operations = 100'000;  // of all workers, recorded
  std::uint64_t writes_percent = 12;
  node::Remap remap = node::Remap::kTable;
  node::Correction node_correction = node::Correction::kScan;
  std::uint32_t pollers = 1;
};

class Stress {
 public:
  explicit Stress(const Plan& plan)
      : plan_(plan), cells_(plan.cells), random_(::yonder::testing::test_seed()), fabric_(plan.open()) {
    node::NodeOptions options;
    options.ports = {{.fabric = fabric_.get(), .address = plan.address}};
    options.heap.limit = Bytes(64 << 20);
    options.heap.classes.frame_bytes = 4096;  // Many frames, so that there is always one to free.
    options.heap.seed = ::yonder::testing::test_seed() | 1;
    options.heap.remap = plan.remap;
    options.heap.correction = plan.node_correction;
    options.pollers = plan.pollers;
    options.validator = plan.validator;
    options.compaction.automatic = false;
    server_ = node::Server::create(options).value();
    size_class_ = server_->heap().classes().class_for(plan.bytes);
    const auto clients = plan.open();
    const auto session = connect(*clients);
    for (Cell& cell : cells_) renew(*session, cell, history_);
  }

  void run() {
    std::vector<std::thread> workers;
    for (int i = 0; i < plan_.workers; ++i)
      workers.emplace_back([this, random = random_.split()] { work(random); });
    std::thread compactor([this] { compact(); });
    for (std::thread& worker : workers) worker.join();
    stop_.store(true);
    compactor.join();
    EXPECT_TRUE(server_->stop(Deadline::after(kClock, ::yonder::testing::kPatience)));
    for (std::size_t i = 0; i < server_->heap().classes().count(); ++i)
      server_->heap().compactor().stop(static_cast<std::uint8_t>(i));
    server_->heap().check_invariants();
  }

  const std::vector<HistoryEvent>& history() const { return history_; }
  const SessionStats& reads() const { return reads_; }
  node::CompactionCounters counters() { return server_->heap().compactor().counters(); }

 private:
  std::unique_ptr<Session> connect(fabric::Fabric& fabric) {
    return Session::connect(fabric, {.address = server_->address(),
                                     .correction = plan_.correction,
                                     .timeout = ::yonder::testing::kPatience,
                                     .use_windows = plan_.use_windows})
        .value();
  }

  void renew(Session& session, Cell& cell, std::vector<HistoryEvent>& history) {
    Cell::Content next{.object = session.alloc(plan_.bytes).value(), .name = next_number_.fetch_add(1)};
    write(session, next, history);
    const Cell::Content old = cell.exchange(next);
    if (!old.object) return;
    HistoryEvent event{.object = old.name, .call = HistoryCall::kEnd, .begin_ns = now_ns()};
    EXPECT_TRUE(session.free(old.object));
    event.end_ns = now_ns();
    history.push_back(event);
  }

  void write(Session& session, Cell::Content& content, std::vector<HistoryEvent>& history) {
    const std::uint64_t number = next_number_.fetch_add(1);
    const std::vector<std::byte> value = pattern(plan_.bytes, number);
    HistoryEvent event{
        .object = content.name, .call = HistoryCall::kWrite, .begin_ns = now_ns(), .fingerprint = number};
    const auto version = session.write(content.object, value);
    event.end_ns = now_ns();
    finish(event, version, history);
  }

  void read(Session& session, Cell::Content& content, bool direct, std::vector<HistoryEvent>& history) {
    std::vector<std::byte> value(plan_.bytes);
    HistoryEvent event{.object = content.name, .call = HistoryCall::kRead, .begin_ns = now_ns()};
    const auto version =
        direct ? session.direct_read(content.object, value) : session.read(content.object, value);
    event.end_ns = now_ns();
    event.fingerprint = number_in(value);
    finish(event, version, history);
  }

  static void finish(HistoryEvent event, const Result<ObjectVersion>& version,
                     std::vector<HistoryEvent>& history) {
    if (version) {
      event.version = version->value();
    } else {
      EXPECT_EQ(version.error(), ErrorCode::kNoSuchObject);
      event.failed = true;
    }
    history.push_back(event);
  }

  void work(Prng random) {
    const auto fabric = plan_.open();
    const auto session = connect(*fabric);
    std::vector<HistoryEvent> history;
    std::vector<ObjectPtr> mine;
    const std::uint64_t share = plan_.operations / static_cast<std::uint64_t>(plan_.workers);
    while (history.size() < share) {
      Cell& cell = cells_[random.below(cells_.size())];
      Cell::Content content = cell.get();
      const std::uint64_t dice = random.below(1000);
      if (dice < 8) {
        renew(*session, cell, history);
      } else if (dice < 10) {
        scatter(*session, random, mine);
      } else if (dice < 10 + 10 * plan_.writes_percent) {
        write(*session, content, history);
      } else {
        read(*session, content, dice < 980, history);
      }
      cell.correct(content);
    }
    const std::lock_guard lock(mutex_);
    history_.insert(history_.end(), history.begin(), history.end());
    reads_.direct_reads += session->stats().direct_reads;
    reads_.near_reads += session->stats().near_reads;
    reads_.retries += session->stats().retries;
    reads_.corrections += session->stats().corrections;
    reads_.scans += session->stats().scans;
  }

  // Allocates neighbours of the cells and frees most of them, so that there is
  // always something to compact and slots are reused all the time.
  void scatter(Session& session, Prng& random, std::vector<ObjectPtr>& mine) {
    std::vector<AllocItem> items(100, AllocItem{.bytes = plan_.bytes});
    session.alloc_many(items);
    for (const AllocItem& item : items) mine.push_back(item.result.value());
    std::vector<FreeItem> gone;
    for (std::size_t i = mine.size(); i-- > 0;) {
      if (!random.chance(0.8)) continue;
      std::swap(mine[i], mine.back());
      gone.push_back({.object = mine.back()});
      mine.pop_back();
    }
    session.free_many(gone);
    for (const FreeItem& item : gone) EXPECT_TRUE(item.result) << item.result.error();
  }

  void compact() {
    Prng random(::yonder::testing::test_seed() + 2);
    while (!stop_.load()) {
      server_->heap().compactor().slice(size_class_,
                                        {.blocks = static_cast<std::uint32_t>(1 + random.below(30))});
      server_->heap().reclaim();
      if (random.below(4) == 0) std::this_thread::yield();
    }
  }

  const Plan plan_;
  std::vector<Cell> cells_;
  Prng random_;
  std::unique_ptr<fabric::Fabric> fabric_;
  std::unique_ptr<node::Server> server_;
  std::uint8_t size_class_ = 0;
  std::atomic<std::uint64_t> next_number_{1};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<HistoryEvent> history_;
  SessionStats reads_;
};

void run_and_check(Plan plan) {
  plan.operations = ::yonder::testing::scaled(plan.operations) * ::yonder::testing::test_effort();
  Stress stress(plan);
  stress.run();
  EXPECT_GE(stress.history().size(), plan.operations);
  EXPECT_GT(stress.counters().objects_moved, 0u) << "there was something to survive";
  EXPECT_GT(stress.reads().direct_reads, 0u);
  EXPECT_EQ(stress.reads().near_reads > 0, plan.use_windows && plan.address.starts_with("shm"));
  const auto property = [](const char* name, std::uint64_t value) {
    ::testing::Test::RecordProperty(name, std::to_string(value));
  };
  property("objects_moved", stress.counters().objects_moved);
  property("direct_reads", stress.reads().direct_reads);
  property("near_reads", stress.reads().near_reads);
  property("retries", stress.reads().retries);
  property("corrections", stress.reads().corrections);
  property("scans", stress.reads().scans);
  const auto violation = ::yonder::testing::find_violation(stress.history());
  EXPECT_FALSE(violation) << *violation;
}

std::unique_ptr<fabric::Fabric> open_shm() { return fabric::shm::open({}).value(); }
std::unique_ptr<fabric::Fabric> open_tcp() { return fabric::tcp::open().value(); }
std::unique_ptr<fabric::Fabric> open_verbs() { return fabric::verbs::open().value(); }

std::string shm_address(const char* options = "?inprocess=off") {
  static std::atomic<unsigned> next{0};
  return "shm:object-history-" + std::to_string(::getpid()) + "-" + std::to_string(next++) + options;
}

// One object of many lines, written inside the node all the time: many a copy
// meets a writer, and without its proof would be torn.
void read_under_constant_writing(const Plan& plan) {
  const auto server_fabric = plan.open();
  node::NodeOptions options;
  options.ports = {{.fabric = server_fabric.get(), .address = plan.address}};
  options.heap.limit = Bytes(64 << 20);
  options.validator = plan.validator;
  const auto server = node::Server::create(options).value();
  const auto fabric = plan.open();
  const auto session =
      Session::connect(*fabric, {.address = server->address(), .use_windows = plan.use_windows}).value();
  ObjectPtr object = session->alloc(plan.bytes).value();
  ASSERT_TRUE(session->write(object, pattern(plan.bytes, 1)));

  std::atomic<bool> stop{false};
  // The writer takes its own copy of the pointer: reads correct the one they are given.
  std::thread writer([&, mine = object]() mutable {
    node::HeapThread thread = server->heap().register_thread().value();
    const std::array values = {pattern(plan.bytes, 1), pattern(plan.bytes, ~std::uint64_t{1})};
    for (std::size_t i = 0; !stop.load(); ++i) {
      EXPECT_TRUE(thread.write(mine, values[i % values.size()]));
      // About as long as a write: a reader needs a moment without one.
      for (int pause = 0; pause < 20; ++pause) sync::cpu_pause();
    }
  });
  std::vector<std::byte> value(plan.bytes);
  const std::uint64_t reads = ::yonder::testing::kSanitized ? plan.operations / 10 : plan.operations;
  for (std::uint64_t i = 0; i < reads && !::testing::Test::HasFailure(); ++i) {
    const auto version = session->direct_read(object, value);
    EXPECT_TRUE(version) << version.error();
    EXPECT_NE(number_in(value), ~std::uint64_t{0}) << "torn";
  }
  stop.store(true);
  writer.join();
}

TEST(ObjectHistory, ACopyMadeDuringAWriteIsNeverTakenForAValue) {
  for (const bool use_windows : {true, false}) {
    read_under_constant_writing({.open = open_shm,
                                 .address = shm_address(),
                                 .use_windows = use_windows,
                                 .bytes = 3000,
                                 .operations = 20'000});
    read_under_constant_writing({.open = open_shm,
                                 .address = shm_address(),
                                 .validator = node::Validator::kChecksum,
                                 .use_windows = use_windows,
                                 .bytes = 3000,
                                 .operations = 20'000});
  }
  read_under_constant_writing({.open = open_tcp,
                               .address = "tcp://127.0.0.1:0",
                               .validator = node::Validator::kChecksum,
                               .bytes = 3000,
                               .operations = 2'000});
}

TEST(ObjectHistory, AMillionOperationsOverSharedMemoryAreLinearizable) {
  run_and_check({.open = open_shm, .address = shm_address(), .operations = 1'000'000, .writes_percent = 10});
}
TEST(ObjectHistory, FewObjectsAreFoughtOver) {
  run_and_check({.open = open_shm,
                 .address = shm_address(),
                 .correction = Correction::kScan,
                 .cells = 8,
                 .bytes = 200,
                 .operations = 100'000,
                 .writes_percent = 30});
}
TEST(ObjectHistory, InOneProcess) {
  run_and_check({.open = open_shm, .address = shm_address(""), .operations = 100'000});
}
TEST(ObjectHistory, ByRequestsAndWithChecksums) {
  run_and_check({.open = open_shm,
                 .address = shm_address(),
                 .validator = node::Validator::kChecksum,
                 .use_windows = false,
                 .bytes = 300,
                 .operations = 100'000});
}
TEST(ObjectHistory, ByRequestsAndWithTwoLooksAtTheHeader) {
  run_and_check({.open = open_shm,
                 .address = shm_address(),
                 .use_windows = false,
                 .cells = 64,
                 .bytes = 300,
                 .operations = 100'000,
                 .writes_percent = 30});
}
TEST(ObjectHistory, ByRequestsToTwoThreadsThatAskEachOther) {
  run_and_check({.open = open_shm,
                 .address = shm_address(),
                 .use_windows = false,
                 .operations = 100'000,
                 .node_correction = node::Correction::kOwner,
                 .pollers = 2});
}
TEST(ObjectHistory, OverTcpWithChecksums) {
  run_and_check({.open = open_tcp,
                 .address = "tcp://127.0.0.1:0",
                 .validator = node::Validator::kChecksum,
                 .correction = Correction::kScan,
                 .cells = 256,
                 .bytes = 200,
                 .operations = 40'000,
                 .writes_percent = 25});
}
TEST(ObjectHistory, OverTcpWithTwoLooksAtTheHeader) {
  run_and_check({.open = open_tcp,
                 .address = "tcp://127.0.0.1:0",
                 .cells = 64,
                 .bytes = 200,
                 .operations = 40'000,
                 .writes_percent = 25});
}

// Runs in the guest (tests/vm); a million operations take minutes there: --effort=50.
TEST(ObjectHistory, OverVerbsWithChecksums) {
  const auto device = fabric::verbs::open();
  if (!device && device.error() == ErrorCode::kProviderUnavailable) GTEST_SKIP() << device.error();
  run_and_check({.open = open_verbs,
                 .address = "verbs://*:0",
                 .validator = node::Validator::kChecksum,
                 .correction = Correction::kScan,
                 .cells = 256,
                 .bytes = 200,
                 .operations = 20'000,
                 .writes_percent = 15});
}

TEST(ObjectHistory, OverTcpWithRemappedBlocksAndChecksums) {
  run_and_check({.open = open_tcp,
                 .address = "tcp://127.0.0.1:0",
                 .validator = node::Validator::kChecksum,
                 .correction = Correction::kScan,
                 .cells = 64,
                 .bytes = 200,
                 .operations = 30'000,
                 .writes_percent = 25,
                 .remap = node::Remap::kMmap});
}
TEST(ObjectHistory, OverTcpWithRemappedBlocksAndTwoLooksAtTheHeader) {
  run_and_check({.open = open_tcp,
                 .address = "tcp://127.0.0.1:0",
                 .cells = 64,
                 .bytes = 1200,
                 .operations = 30'000,
                 .writes_percent = 25,
                 .remap = node::Remap::kMmap});
}

}  // namespace
}  // namespace yonder::client::suite
