// Many seeds of a memory node and its clients in which reads are torn, messages are
// lost, connections break and hosts crash, while the node compacts all the time:
//   O1  what the calls returned is linearizable per object
//   O2  every call ends, shortly after its deadline at the latest, with a value or a
//       typed error
//   O3  in the end the heap's books balance
// A failure names its seed; --seed=N runs that one first.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/client/session.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/node/server.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/history.h"
#include "yonder/testing/pattern.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder {
namespace {

using namespace std::chrono_literals;
using client::ObjectPtr;
using client::ObjectVersion;
using client::Session;
using fabric::Task;
using ::yonder::testing::HistoryCall;
using ::yonder::testing::HistoryEvent;
using ::yonder::testing::number_in;
using ::yonder::testing::pattern;

constexpr std::uint32_t kClients = 3;
constexpr std::size_t kCells = 12;
constexpr std::uint32_t kBytes = 160;  // Three lines and a half.
constexpr int kOperations = 60;        // Per client.

struct Cell {
  ObjectPtr object;
  std::uint64_t name = 0;
};

// How the node publishes where blocks are; see nic_mapping.h.
struct Publication {
  const char* name;
  node::Remap remap = node::Remap::kMmap;
  node::NicMapping mapping = node::NicMapping::kAuto;
  std::uint64_t seeds = 150;
};
void PrintTo(const Publication& publication, std::ostream* out) { *out << publication.name; }

class Chaos {
 public:
  Chaos(std::uint64_t seed, const Publication& publication)
      : random_(seed),
        world_({.seed = seed, .hosts = kClients + 1, .host = {.nics = {{.model = nic_for(publication)}}}}),
        publication_(publication),
        validator_(choose_validator()) {
    queue_ = world_.host(1).fabric().create_completion_queue({}).value();
    scheduler_ = std::make_unique<fabric::Scheduler>(*queue_);
    serve();
    for (std::uint32_t i = 0; i < kClients; ++i) connect(i + 1);
    for (Cell& cell : cells_) scheduler_->block_on(renew(*sessions_[0], cell));
    world_.inject(random_rates());
    schedule_faults();
  }

  ~Chaos() {
    for (auto& session : sessions_) session->close();
    sessions_.clear();
    node_.reset();
    scheduler_.reset();
  }

  void run() {
    for (std::uint32_t i = 0; i < kClients; ++i) scheduler_->spawn(work(*sessions_[i]));
    for (int i = 0; i < 4000 && finished_ < kClients; ++i) {
      (void)scheduler_->run(Deadline::after(world_.clock(), 1ms));
    }
    ASSERT_EQ(finished_, kClients) << "O2: a call never ended";
    world_.inject({});
    node_->begin_stop();
    // Nobody polls the clients' queues any more: one that lost its receives takes neither its
    // last answer nor the goodbye, and the node waits a send_timeout (5 s) for each.
    (void)scheduler_->run(Deadline::after(world_.clock(), 20s));
    ASSERT_TRUE(node_->stopped());
    for (std::size_t i = 0; i < node_->heap().classes().count(); ++i)
      node_->heap().compactor().stop(static_cast<std::uint8_t>(i));
    node_->heap().check_invariants();  // O3
    resolve_uncertain_writes();
    const auto violation = ::yonder::testing::find_violation(history_);
    EXPECT_FALSE(violation) << "O1: " << *violation;
  }

  static fabric::sim::NicModel nic_for(const Publication& publication) {
    const bool on_demand = publication.mapping == node::NicMapping::kOdp ||
                           publication.mapping == node::NicMapping::kOdpPrefetch;
    return on_demand ? fabric::sim::rdma100g() : fabric::sim::connectx3_40g();
  }

  std::uint64_t moved() const { return node_->stats().compaction.objects_moved; }
  std::uint64_t reads() const { return reads_; }
  std::uint64_t retries() const {
    std::uint64_t sum = 0;
    for (const auto& session : sessions_) sum += session->stats().retries;
    return sum;
  }

 private:
  node::Validator choose_validator() {
    switch (random_.below(3)) {
      case 0:
        return node::Validator::kLines;
      case 1:
        return node::Validator::kReread;
      default:
        return node::Validator::kChecksum;
    }
  }

  fabric::sim::FaultRates random_rates() {
    fabric::sim::FaultRates rates;
    if (random_.chance(0.8)) rates.tear = random_.uniform_double();
    // What a validator stands, it must stand: lines come whole where *lines* is used.
    rates.tear_bytes = validator_ == node::Validator::kLines ? 64 : 8u << random_.below(4);
    rates.tear_pause = fabric::sim::ns(static_cast<std::int64_t>(20 + random_.below(2000)));
    if (random_.chance(0.4)) rates.loss = random_.uniform_double() * 0.05;
    if (random_.chance(0.4)) rates.delay = random_.uniform_double() * 0.3;
    if (random_.chance(0.3)) rates.completion_error = random_.uniform_double() * 0.02;
    if (random_.chance(0.2)) rates.connection_break = random_.uniform_double() * 0.005;
    return rates;
  }

  void schedule_faults() {
    const auto some_time = [this] { return world_.clock().now() + Duration(random_.below(1'000'000)); };
    const auto client = static_cast<std::uint32_t>(1 + random_.below(kClients));
    if (random_.chance(0.2)) {
      world_.schedule({.at = some_time(), .kind = fabric::sim::FaultKind::kBreak, .host = 0});
    }
    // The node itself, and its memory with it: from then on every call must fail.
    if (random_.chance(0.1)) {
      world_.schedule({.at = some_time(), .kind = fabric::sim::FaultKind::kCrash, .host = 0});
    }
    // Not host 1: the scheduler's queue is there, and somebody must see the end.
    if (random_.chance(0.2) && client != 1) {
      world_.schedule({.at = some_time(), .kind = fabric::sim::FaultKind::kCrash, .host = client});
    }
    if (random_.chance(0.2)) {
      world_.schedule({.at = some_time(), .kind = fabric::sim::FaultKind::kPartition, .hosts = {client}});
      world_.schedule({.at = some_time() + 1ms, .kind = fabric::sim::FaultKind::kHeal});
    }
  }

  void serve() {
    node::NodeOptions options;
    options.ports = {{.fabric = &world_.host(0).fabric(), .address = "sim://host0:7400"}};
    options.heap.limit = Bytes(8 << 20);
    options.heap.seed = random_() | 1;
    options.heap.remap = publication_.remap;
    options.mapping = publication_.mapping;
    options.validator = validator_;
    options.pollers = 0;
    options.max_connections = 64;
    // All the time, and in the smallest steps, so that reads fall between them.
    options.compaction = {.threshold = 1.01,
                          .min_waste_bytes = 0,
                          .slice = {.blocks = 1, .time = 1us},
                          .pause = Duration(200 + random_.below(2000)),
                          .interval = Duration(20'000 + random_.below(100'000))};
    node_ = node::Server::create(options).value();
    scheduler_->spawn(node_->serve(*scheduler_));
  }

  void connect(std::uint32_t host) {
    queues_.push_back(world_.host(host).fabric().create_completion_queue({}).value());
    const client::Correction corrections[] = {client::Correction::kRpc, client::Correction::kScan};
    sessions_.push_back(
        Session::connect(world_.host(host).fabric(), {.address = "sim://host0:7400",
                                                      .correction = corrections[random_.below(2)],
                                                      .timeout = kTimeout,
                                                      .queue = queues_.back().get(),
                                                      .scheduler = scheduler_.get()})
            .value());
  }

  Task<void> work(Session& session) {
    for (int i = 0; i < kOperations; ++i) {
      Cell& cell = cells_[random_.below(kCells)];
      const std::uint64_t dice = random_.below(100);
      const Instant begin = world_.clock().now();
      if (dice < 8) {
        co_await renew(session, cell);
      } else if (dice < 20) {
        co_await scatter(session);
      } else if (dice < 50) {
        Cell copy = cell;
        (void)co_await write(session, copy);
      } else {
        Cell copy = cell;
        co_await read(session, copy, dice);
        if (cell.name == copy.name) cell.object = copy.object;
      }
      // A renewal is three calls; a call and its retries end soon after the deadline.
      EXPECT_LT(world_.clock().now() - begin, 5 * kTimeout) << "O2";
      if (random_.chance(0.3)) co_await scheduler_->sleep_for(Duration(random_.below(20'000)));
    }
    ++finished_;
  }

  Task<void> renew(Session& session, Cell& cell) {
    const auto made = co_await session.async_alloc(kBytes);
    if (!note_error(made)) co_return;
    Cell next{.object = *made, .name = ++last_name_};
    // Without a first write that is certain nobody knows what the object holds.
    if (!co_await write(session, next)) co_return;
    const Cell old = std::exchange(cell, next);
    if (!old.object) co_return;
    HistoryEvent event{.object = old.name, .call = HistoryCall::kEnd, .begin_ns = now()};
    const auto freed = co_await session.async_free(old.object);
    if (!freed && !is_uncertain(freed.error())) {
      // Somebody's uncertain free had ended it before.
      EXPECT_EQ(freed.error(), ErrorCode::kNoSuchObject);
      co_return;
    }
    event.end_ns = freed ? now() : INT64_MAX;
    history_.push_back(event);
  }

  // Something to compact: most of the objects around the cells go again.
  Task<void> scatter(Session& session) {
    std::vector<client::AllocItem> items(30, client::AllocItem{.bytes = kBytes});
    co_await session.async_alloc_many(items);
    std::vector<client::FreeItem> gone;
    for (const client::AllocItem& item : items) {
      if (item.result && random_.chance(0.85)) gone.push_back({.object = *item.result});
    }
    co_await session.async_free_many(gone);
  }

  // Whether it is certain that it happened.
  Task<bool> write(Session& session, Cell& cell) {
    const std::uint64_t number = ++last_number_;
    const std::vector<std::byte> value = pattern(kBytes, number);
    HistoryEvent event{
        .object = cell.name, .call = HistoryCall::kWrite, .begin_ns = now(), .fingerprint = number};
    const auto version = co_await session.async_write(cell.object, value);
    event.end_ns = now();
    if (!version && is_uncertain(version.error())) {
      event.end_ns = INT64_MAX;  // It may take effect later, or never.
      uncertain_writes_.push_back(event);
      co_return false;
    }
    finish(event, version);
    co_return version.has_value();
  }

  Task<void> read(Session& session, Cell& cell, std::uint64_t dice) {
    std::vector<std::byte> value(kBytes);
    HistoryEvent event{.object = cell.name, .call = HistoryCall::kRead, .begin_ns = now()};
    Result<ObjectVersion> version = ObjectVersion();
    if (dice < 55) {
      version = co_await session.async_read(cell.object, value);
    } else if (dice < 60) {
      version = co_await session.async_scan_read(cell.object, value);
    } else {
      version = co_await session.async_direct_read(cell.object, value);
    }
    event.end_ns = now();
    event.fingerprint = number_in(value);
    if (!version && version.error() != ErrorCode::kNoSuchObject) {
      note_error(version);
      co_return;
    }
    ++reads_;
    finish(event, version);
  }

  void finish(HistoryEvent event, const Result<ObjectVersion>& version) {
    if (version) {
      event.version = version->value();
    } else {
      EXPECT_EQ(version.error(), ErrorCode::kNoSuchObject);
      event.failed = true;
    }
    history_.push_back(event);
  }

  static bool is_uncertain(const Error& error) {
    static const std::set<ErrorCode> kCodes = {ErrorCode::kDeadlineExceeded, ErrorCode::kConnectionLost,
                                               ErrorCode::kReceiverNotReady, ErrorCode::kCancelled};
    return kCodes.contains(error.code());
  }
  template <typename T>
  bool note_error(const Result<T>& result) {
    if (result) return true;
    EXPECT_TRUE(is_uncertain(result.error())) << "O2: " << result.error();
    return false;
  }

  // A write of which we do not know whether it happened did happen if somebody saw it.
  void resolve_uncertain_writes() {
    std::map<std::uint64_t, std::uint64_t> seen;  // number → version
    for (const HistoryEvent& event : history_) {
      if (event.call == HistoryCall::kRead && !event.failed) seen[event.fingerprint] = event.version;
    }
    for (HistoryEvent& event : uncertain_writes_) {
      const auto found = seen.find(event.fingerprint);
      if (found == seen.end()) continue;
      event.version = found->second;
      history_.push_back(event);
    }
  }

  std::int64_t now() const { return world_.clock().now().ns(); }

  static constexpr Duration kTimeout = 20ms;

  Prng random_;
  fabric::sim::World world_;
  const Publication publication_;
  const node::Validator validator_;
  std::unique_ptr<fabric::CompletionQueue> queue_;
  std::vector<std::unique_ptr<fabric::CompletionQueue>> queues_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
  std::unique_ptr<node::Server> node_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::array<Cell, kCells> cells_;
  std::uint64_t last_name_ = 0;
  std::uint64_t last_number_ = 0;
  std::uint64_t reads_ = 0;
  std::uint32_t finished_ = 0;
  std::vector<HistoryEvent> history_;
  std::vector<HistoryEvent> uncertain_writes_;
};

class ObjectsInASimulatedCluster : public ::testing::TestWithParam<Publication> {};

TEST_P(ObjectsInASimulatedCluster, StayLinearizableWhateverGoesWrong) {
  std::uint64_t moved = 0;
  std::uint64_t reads = 0;
  std::uint64_t retries = 0;
  const std::uint64_t seeds = ::yonder::testing::scaled<std::uint64_t>(GetParam().seeds, 15);
  for (std::uint64_t i = 0; i < seeds * ::yonder::testing::test_effort() && !HasFailure(); ++i) {
    const std::uint64_t seed = ::yonder::testing::test_seed() + i;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Chaos chaos(seed, GetParam());
    chaos.run();
    moved += chaos.moved();
    reads += chaos.reads();
    retries += chaos.retries();
  }
  RecordProperty("objects_moved", std::to_string(moved));
  RecordProperty("reads", std::to_string(reads));
  RecordProperty("retries", std::to_string(retries));
  EXPECT_GT(moved, 0u) << "compaction had something to do";
  EXPECT_GT(retries, 0u) << "some copies were torn";
}

INSTANTIATE_TEST_SUITE_P(
    Remap, ObjectsInASimulatedCluster,
    ::testing::Values(Publication{.name = "table", .remap = node::Remap::kTable, .seeds = 1000},
                      Publication{.name = "odp_prefetch", .mapping = node::NicMapping::kOdpPrefetch},
                      Publication{.name = "odp", .mapping = node::NicMapping::kOdp},
                      Publication{.name = "rereg", .mapping = node::NicMapping::kRereg}),
    [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace yonder
