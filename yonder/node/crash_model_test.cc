// Processes that use one heap after the other, each killed in the middle of it: by
// itself at a chosen stage of a move, or from outside at any moment. The next one must
// find every value that was acknowledged, whole, in a heap that is in order.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <optional>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/node/heap.h"
#include "yonder/node/keeper_client.h"
#include "yonder/node/keeper_server.h"
#include "yonder/os/mapping.h"
#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"
#include "yonder/testing/pattern.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::node {
namespace {

using ::yonder::testing::number_in;
using ::yonder::testing::pattern;

const os::SteadyClock kClock;
constexpr std::uint32_t kWriters = 2;
constexpr std::size_t kCells = 1200;  // Of both writers.
constexpr std::array<std::uint32_t, 4> kSizes = {24, 200, 2000, 90'000};

// What the dead process had promised: in memory that outlives it.
struct Cell {
  enum State : std::uint64_t { kEmpty, kLive, kEnding };
  std::atomic<std::uint64_t> state;
  std::atomic<std::uint64_t> low;
  std::atomic<std::uint64_t> high;
  std::atomic<std::uint64_t> acknowledged;
  std::atomic<std::uint64_t> attempted;
};
struct Ledger {
  std::array<Cell, kCells> cells;
  std::atomic<std::uint64_t> generations_begun;
  std::atomic<std::uint64_t> operations;
  std::atomic<std::uint64_t> repaired;
};

ObjectPtr pointer_in(const Cell& cell) { return ObjectPtr::from_words(cell.low, cell.high); }
void set_pointer(Cell& cell, ObjectPtr object) {
  cell.low = object.low();
  cell.high = object.high();
}

struct Plan {
  Validator validator = Validator::kReread;
  std::uint64_t seed = 0;
  std::optional<MoveStage> die_at;  // Of some move.
  std::uint64_t moves = 0;
};

// One process. Returns only if something is wrong.
class Generation {
 public:
  Generation(const std::string& keeper, const Plan& plan, Ledger& ledger) : plan_(plan), ledger_(ledger) {
    keeper_ = KeeperClient::connect({.path = keeper, .node = "crash"}).value();
    HeapOptions options{.limit = Bytes(96 << 20),
                        .classes = {.validator = plan.validator},
                        .max_threads = kWriters + 1,
                        .seed = plan.seed | 1,
                        .keeper = keeper_.get()};
    if (plan.die_at)
      options.compaction.on_move = [this](MoveStage stage, BlockId, ObjectId) { count(stage); };
    heap_ = Heap::create(kClock, options).value();
  }

  int run() {
    heap_->check_invariants();
    if (!verify()) return 1;
    if (const auto& report = heap_->adoption())
      ledger_.repaired +=
          report->writes_finished + report->holds_ended + report->moves_undone + report->blocks_finished;
    ++ledger_.generations_begun;
    std::vector<std::thread> writers;
    for (std::uint32_t i = 0; i < kWriters; ++i) writers.emplace_back([this, i] { write(i); });
    for (;;) heap_->compactor().compact_all();
  }

 private:
  void count(MoveStage stage) {
    if (stage == plan_.die_at && ++moves_ == plan_.moves) ::kill(::getpid(), SIGKILL);
  }

  bool verify() {
    HeapThread thread = heap_->register_thread().value();
    for (Cell& cell : ledger_.cells) {
      if (cell.state == Cell::kEmpty) continue;
      ObjectPtr object = pointer_in(cell);
      std::vector<std::byte> out(object.size());
      const auto read = thread.read(object, out);
      if (!read && cell.state == Cell::kEnding && read.error() == ErrorCode::kNoSuchObject) {
        cell.state = Cell::kEmpty;
        continue;
      }
      const std::uint64_t number = number_in(out);
      if (!read || (number != cell.acknowledged && number != cell.attempted)) {
        fmt::print(stderr, "cell: {} read {}, acknowledged {}, attempted {}\n",
                   read ? "ok" : read.error().to_string(), number, cell.acknowledged.load(),
                   cell.attempted.load());
        return false;
      }
      cell.acknowledged = number;
      cell.state = Cell::kLive;
      set_pointer(cell, object);
    }
    return true;
  }

  void write(std::uint32_t index) {
    Prng random(plan_.seed * 31 + index);
    HeapThread thread = heap_->register_thread().value();
    for (;;) {
      Cell& cell = ledger_.cells[random.below(kCells / kWriters) * kWriters + index];
      step(thread, random, cell);
      ++ledger_.operations;
    }
  }

  void step(HeapThread& thread, Prng& random, Cell& cell) {
    ObjectPtr object = pointer_in(cell);
    if (cell.state == Cell::kEmpty) {
      const auto made = thread.alloc(kSizes[random.below(kSizes.size())]);
      if (!made) return;  // At the limit, for objects that nobody knows: see kEnding.
      cell.acknowledged = 0;
      cell.attempted = 0;
      set_pointer(cell, *made);
      cell.state = Cell::kLive;
      return;
    }
    const std::uint64_t dice = random.below(100);
    if (dice < 70) {
      cell.attempted = random() >> 1;
      const auto data = pattern(object.size(), cell.attempted);
      YONDER_CHECK(thread.write(object, data), "a live object can be written");
      cell.acknowledged = cell.attempted.load();
    } else if (dice < 90) {
      cell.state = Cell::kEnding;
      YONDER_CHECK(thread.free(object), "a live object can be freed");
      cell.state = Cell::kEmpty;
      return;
    } else {
      // Whoever dies in between has neither pointer.
      cell.state = Cell::kEnding;
      object = thread.release_ptr(object).value();
      set_pointer(cell, object);
      cell.state = Cell::kLive;
    }
    set_pointer(cell, object);
  }

  const Plan plan_;
  Ledger& ledger_;
  std::unique_ptr<KeeperClient> keeper_;
  std::unique_ptr<Heap> heap_;
  std::uint64_t moves_ = 0;
};

class CrashModel : public ::testing::TestWithParam<Validator> {};
INSTANTIATE_TEST_SUITE_P(Validators, CrashModel,
                         ::testing::Values(Validator::kReread, Validator::kLines, Validator::kChecksum));

TEST_P(CrashModel, LosesNothingThatWasAcknowledged) {
  const std::string path = fmt::format("@yonder-crash-{}-{}", ::getpid(), static_cast<int>(GetParam()));
  auto keeper = KeeperServer::create({.path = path}).value();
  const os::Mapping memory =
      os::Mapping::anonymous({.bytes = sizeof(Ledger), .shared = true, .populate = true}).value();
  auto& ledger = *new (memory.data()) Ledger{};
  Prng random(::yonder::testing::test_seed() + static_cast<std::uint64_t>(GetParam()));
  const int generations = ::yonder::testing::scaled(30, 3);
  for (int i = 0; i < generations; ++i) {
    Plan plan{.validator = GetParam(), .seed = random()};
    if (random.chance(0.6)) plan.die_at = static_cast<MoveStage>(random.below(4));
    plan.moves = 1 + random.below(300);
    os::Child child = os::Child::fork([&] { return Generation(path, plan, ledger).run(); }).value();
    // One that is to end at a stage gets the time to come there.
    const Instant end = kClock.now() + (plan.die_at ? std::chrono::milliseconds(3000)
                                                    : std::chrono::milliseconds(20 + random.below(60)));
    const std::uint64_t before = ledger.generations_begun;
    // The time counts from when it has found everything in order.
    Instant patience = kClock.now() + std::chrono::seconds(60);
    for (bool killed = false; !killed;) {
      ASSERT_TRUE(keeper->serve(Deadline::after(kClock, std::chrono::milliseconds(2))));
      const bool over = child.wait(Deadline::after(kClock, Duration(0))).has_value();
      ASSERT_LT(kClock.now(), patience);
      killed = over || (ledger.generations_begun > before && kClock.now() > end);
    }
    ASSERT_TRUE(child.kill(SIGKILL));
    const auto status = child.wait(Deadline::after(kClock, std::chrono::seconds(30)));
    ASSERT_TRUE(status);
    ASSERT_TRUE(status->signalled && status->value == SIGKILL)
        << "generation " << i << " found a fault: " << status->value;
    ASSERT_GT(ledger.generations_begun, before) << i;
  }
  EXPECT_GT(ledger.operations, 0u);
  EXPECT_GT(ledger.repaired, 0u) << "no kill met anything under way";
}

}  // namespace
}  // namespace yonder::node
