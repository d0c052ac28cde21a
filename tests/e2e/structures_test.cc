// Log, hash table and lock in the memory of a real node, used by real processes that are
// killed at random moments: those that live go on, and nothing acknowledged is lost. And a
// node that is killed while they work.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/daemon.h"
#include "tests/e2e/promises.h"
#include "yonder/base/prng.h"
#include "yonder/client/extent_session.h"
#include "yonder/os/mapping.h"
#include "yonder/remote/lock.h"
#include "yonder/structures/hash_table.h"
#include "yonder/structures/log.h"
#include "yonder/testing/pattern.h"
#include "yonder/testing/seed.h"

namespace yonder::e2e {
namespace {

using namespace std::chrono_literals;
using ::yonder::testing::number_in;

constexpr int kDeaths = 8;
constexpr std::uint64_t kWorkers = 3;  // at a time

// A worker process and what it was promised. The promises outlive it.
class Worker {
 public:
  Worker(TemporaryDirectory& directory, std::string mode, std::string address, std::uint64_t number)
      : mode_(std::move(mode)),
        address_(std::move(address)),
        number_(number),
        file_(directory.file(fmt::format("{}-{}", mode_, number))) {
    std::ofstream(file_) << std::string(sizeof(Promises), '\0');
    const os::Fd fd = os::Fd::open(file_.c_str(), O_RDWR).value();
    mapping_ = os::Mapping::of_file(fd, {.bytes = sizeof(Promises), .protection = os::Protection::kReadWrite})
                   .value();
    start();
  }

  void start() {
    child_.emplace(
        os::Child::spawn({.argv = {WORKER, mode_, address_, file_, std::to_string(number_)}}).value());
  }
  std::uint64_t number() const { return number_; }
  Promises& promises() { return *reinterpret_cast<Promises*>(mapping_.data()); }
  bool runs() { return !child_->wait(Deadline::after(kClock, Duration(0))); }
  os::ExitStatus end(int signal) {
    EXPECT_TRUE(child_->kill(signal));
    return wait();
  }
  os::ExitStatus wait() { return child_->wait(soon()).value(); }

 private:
  const std::string mode_;
  const std::string address_;
  const std::uint64_t number_;
  const std::string file_;
  os::Mapping mapping_;
  std::optional<os::Child> child_;
};

class StructuresTest : public ::testing::TestWithParam<const char*> {
 protected:
  StructuresTest()
      : random_(::yonder::testing::test_seed()),
        daemon_(start_daemon({.program = YONDERD, .flags = {"--extents", "64MiB"}})) {
    address_ = daemon_.address(GetParam());
    fabric_ = fabric::open(address_).value();
    session_ = client::ExtentSession::connect(*fabric_, {.address = address_}).value();
  }

  remote::Port port() { return {session_->endpoint(), session_->scheduler()}; }

  Worker& add_worker(const std::string& mode) {
    workers_.push_back(std::make_unique<Worker>(directory_, mode, address_, workers_.size() + 1));
    return *workers_.back();
  }

  // Until it has done so much more; `meanwhile` is done all the time.
  template <typename Meanwhile>
  void wait_for(Worker& worker, std::uint64_t operations, Meanwhile meanwhile) {
    const std::uint64_t wanted = worker.promises().operations + operations;
    const Deadline deadline = soon();
    while (worker.promises().operations < wanted) {
      ASSERT_TRUE(worker.runs()) << "worker " << worker.number() << " ended";
      ASSERT_FALSE(deadline.passed(kClock.now()));
      meanwhile();
    }
  }

  // A moment that nobody has chosen.
  void let_pass() { std::this_thread::sleep_for(std::chrono::microseconds(random_.below(3000))); }

  // Of those that run.
  void end_all() {
    for (const auto& worker : workers_) {
      if (!worker->runs()) continue;
      EXPECT_TRUE(worker->end(SIGTERM).success()) << "worker " << worker->number();
    }
  }

  Prng random_;
  TemporaryDirectory directory_;
  Program daemon_;
  std::string address_;
  std::unique_ptr<fabric::Fabric> fabric_;
  std::unique_ptr<client::ExtentSession> session_;
  std::vector<std::unique_ptr<Worker>> workers_;
};
INSTANTIATE_TEST_SUITE_P(Real, StructuresTest, ::testing::Values("shm", "tcp"),
                         [](const auto& of) { return std::string(of.param); });

void rest() { std::this_thread::sleep_for(200us); }

// ---------------------------------------------------------------- log

// Reads a log to its end, trims what it has read, and counts what every worker wrote.
class Tail {
 public:
  explicit Tail(structures::Log& log) : log_(log), reader_(log.reader({})) {}

  void read_some() {
    const auto records = reader_->next(Deadline::after(kClock, 1ms));
    if (!records) {
      EXPECT_EQ(records.error(), ErrorCode::kDeadlineExceeded) << records.error();
      return;
    }
    for (const structures::LogRecord& record : *records) take(record);
    const auto trimmed = log_.trim(reader_->position());
    EXPECT_TRUE(trimmed) << trimmed.error();
  }
  void read_to_the_end() {
    const Deadline deadline = soon();
    while (reader_->position().slot < log_.bounds().value().end.slot) {
      ASSERT_FALSE(deadline.passed(kClock.now())) << "a hole that nobody seals";
      read_some();
    }
  }
  // Records of a worker, which were its first ones, each once and in order (checked).
  std::uint64_t count(std::uint64_t worker) const {
    const auto found = counts_.find(worker);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  void take(const structures::LogRecord& record) {
    ASSERT_GE(record.bytes.size(), 8u);
    const std::uint64_t number = number_in(record.bytes);
    ASSERT_NE(number, ~std::uint64_t{0}) << "half a record";
    EXPECT_EQ(record.bytes.size(), 8 + count_in(number) % 300);
    EXPECT_EQ(count_in(number), ++counts_[worker_in(number)]) << "worker " << worker_in(number);
  }

  structures::Log& log_;
  const std::unique_ptr<structures::LogReader> reader_;
  std::map<std::uint64_t, std::uint64_t> counts_;
};

constexpr structures::LogOptions kLog{.slots = 1 << 13, .lease = 100ms};

Deadline half_a_second() { return Deadline::after(kClock, 500ms); }

TEST_P(StructuresTest, ALogOutlivesItsWriters) {
  const auto token = session_->create(kLogExtent, structures::Log::bytes_for(kLog)).value();
  ASSERT_TRUE(structures::Log::create(port(), token, kLog));
  const auto log = structures::Log::open(*fabric_, port(), token).value();
  Tail tail(*log);
  for (std::uint64_t i = 0; i < kWorkers; ++i) add_worker("log");
  for (int death = 0; death < kDeaths && !HasFailure(); ++death) {
    Worker& victim = *workers_[workers_.size() - kWorkers];
    wait_for(victim, 50, [&] { tail.read_some(); });
    let_pass();
    EXPECT_TRUE(victim.end(SIGKILL).signalled);
    wait_for(add_worker("log"), 20, [&] { tail.read_some(); });
  }
  Worker& hole = add_worker("hole");
  EXPECT_TRUE(hole.wait().signalled);
  // Behind the hole, from all that live.
  for (std::size_t i = workers_.size() - kWorkers; i < workers_.size() - 1; ++i) {
    wait_for(*workers_[i], 20, [&] { tail.read_some(); });
  }
  // Full, it makes writers wait: somebody reads until they have ended.
  for (const auto& worker : workers_) {
    if (!worker->runs()) continue;
    (void)worker->end(SIGTERM);
  }
  tail.read_to_the_end();
  EXPECT_GE(log->stats().sealed, 1u) << "the hole";
  for (const auto& worker : workers_) {
    const Promise& promise = worker->promises().keys[0];
    EXPECT_GE(tail.count(worker->number()), promise.acknowledged) << "worker " << worker->number();
    EXPECT_LE(tail.count(worker->number()), promise.attempted) << "worker " << worker->number();
  }
}

TEST_P(StructuresTest, ANodeThatIsKilledMidAppendIsATypedErrorForAll) {
  const auto token = session_->create(kLogExtent, structures::Log::bytes_for(kLog)).value();
  ASSERT_TRUE(structures::Log::create(port(), token, kLog));
  const auto log = structures::Log::open(*fabric_, port(), token).value();
  Tail tail(*log);
  for (std::uint64_t i = 0; i < kWorkers; ++i) add_worker("log");
  for (const auto& worker : workers_) wait_for(*worker, 50, [&] { tail.read_some(); });
  let_pass();
  EXPECT_TRUE(daemon_.end(SIGKILL).signalled);
  for (const auto& worker : workers_) {
    const os::ExitStatus status = worker->wait();
    EXPECT_FALSE(status.signalled);
    EXPECT_EQ(status.value, kLost) << "worker " << worker->number();
  }
  // Who asks later waits for a node that may come back, and no longer than its deadline. (On
  // shm the first appends may still go into memory that was the node's, until it is full.)
  const std::string record = "late";
  const Deadline patience = soon();
  std::optional<Error> error;
  while ((!error || *error == ErrorCode::kResourceExhausted) && !patience.passed(kClock.now())) {
    const auto appended = log->append(std::as_bytes(std::span(record)), half_a_second());
    if (!appended) error = appended.error();
  }
  ASSERT_TRUE(error);
  EXPECT_TRUE(*error == ErrorCode::kConnectionLost || *error == ErrorCode::kDeadlineExceeded) << *error;
}

// ---------------------------------------------------------------- hash table

void expect_promises(structures::HashTable& table, Worker& worker) {
  for (std::uint64_t key = 0; key < Promises::kKeys; ++key) {
    const std::uint64_t name = key_name(worker.number(), key);
    std::vector<std::byte> value;
    const auto found = table.find(std::as_bytes(std::span(&name, 1)), value);
    if (!found) {
      ASSERT_EQ(found.error(), ErrorCode::kNotFound) << found.error();
    }
    const std::uint64_t number = found ? number_in(value) : 0;
    const Promise& promise = worker.promises().keys[key];
    EXPECT_TRUE(number == promise.acknowledged || number == promise.attempted)
        << "worker " << worker.number() << ", key " << key << ": " << number << ", acknowledged "
        << promise.acknowledged << ", attempted " << promise.attempted;
  }
}

TEST_P(StructuresTest, AHashTableOutlivesItsFrontEnds) {
  const auto token = session_->create(kTableExtent, 32 << 20).value();
  // Few buckets, many keys in each: they meet, and the table grows while they die.
  ASSERT_TRUE(structures::HashTable::create(port(), token, {.log2_buckets = 4}));
  const auto table = structures::HashTable::open(*fabric_, port(), token).value();
  for (std::uint64_t i = 0; i < kWorkers; ++i) add_worker("table");
  for (int death = 0; death < kDeaths && !HasFailure(); ++death) {
    Worker& victim = *workers_[random_.below(kWorkers)];
    wait_for(victim, 100, rest);
    let_pass();
    EXPECT_TRUE(victim.end(SIGKILL).signalled);
    expect_promises(*table, victim);
    victim.start();  // Goes on with what the dead one has left.
    for (const auto& worker : workers_) wait_for(*worker, 20, rest);
  }
  end_all();
  for (const auto& worker : workers_) expect_promises(*table, *worker);
}

// ---------------------------------------------------------------- lock

TEST_P(StructuresTest, ALockIsTakenOverFromTheDead) {
  const auto token = session_->create(kLockExtent, 4096).value();
  for (std::uint64_t i = 0; i < kWorkers; ++i) add_worker("lock");
  for (int death = 0; death < kDeaths && !HasFailure(); ++death) {
    Worker& victim = *workers_[workers_.size() - kWorkers];
    wait_for(victim, 3, rest);
    let_pass();
    EXPECT_TRUE(victim.end(SIGKILL).signalled);
    wait_for(add_worker("lock"), 3, rest);
  }
  end_all();
  Worker& holder = add_worker("holder");
  EXPECT_TRUE(holder.wait().signalled);
  remote::Lock lock(port(), token.at(kLockWord), {.seed = 99});
  auto lease = lock.lock(soon());
  ASSERT_TRUE(lease) << lease.error();
  EXPECT_EQ(lock.stats().takeovers, 1u);
  const std::uint64_t counted = lock.fence(*lease, token.at(kCountWord)).value();
  std::uint64_t acknowledged = 0;
  std::uint64_t attempted = 0;
  for (const auto& worker : workers_) {
    acknowledged += worker->promises().keys[0].acknowledged;
    attempted += worker->promises().keys[0].attempted;
  }
  EXPECT_GE(counted, acknowledged) << "none is lost";
  EXPECT_LE(counted, attempted) << "none is counted twice";
}

}  // namespace
}  // namespace yonder::e2e
