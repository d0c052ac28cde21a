// A far heap whose memory is a real node's: over shm and tcp, with a node that is stalled, goes on,
// and is killed in the middle of the work; and children made by fork.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/e2e/daemon.h"
#include "yonder/base/prng.h"
#include "yonder/heap/heap.h"
#include "yonder/heap/unique_ptr.h"
#include "yonder/testing/seed.h"

namespace yonder::e2e {
namespace {

using namespace std::chrono_literals;

struct Item {
  explicit Item(std::uint64_t number) { words.fill(number); }
  bool is(std::uint64_t number) const {
    for (const std::uint64_t word : words)
      if (word != number) return false;
    return true;
  }
  std::array<std::uint64_t, 12> words;
};

class FarHeapTest : public ::testing::TestWithParam<const char*> {
 protected:
  FarHeapTest() : daemon_(start_daemon({.program = YONDERD, .flags = {"--extents", "64MiB"}})) {}

  std::unique_ptr<far::Heap> make_heap(far::HeapOptions options) {
    options.local = Bytes(100 * 4096);
    options.far = Bytes(32 << 20);
    options.node = daemon_.address(GetParam());
    auto heap = far::Heap::create(options);
    EXPECT_TRUE(heap) << heap.error().to_string();
    return std::move(*heap);
  }
  void fill(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) items_.push_back(far::make_unique<Item>(i));
  }

  Program daemon_;
  std::vector<far::unique_ptr<Item>> items_;
};

TEST_P(FarHeapTest, KeepsObjectsOnARealNode) {
  const auto heap = make_heap({});
  fill(20'000);
  Prng random(::yonder::testing::test_seed());
  for (int step = 0; step < 50'000; ++step) {
    const std::uint64_t i = random.below(items_.size());
    ASSERT_TRUE(items_[i].read()->is(i));
  }
  items_.clear();
}

// Over shm, reads need nothing of the node's process, and its memory outlives it.
class FarHeapOverTcpTest : public FarHeapTest {};

TEST_P(FarHeapOverTcpTest, AStalledNodeIsAnErrorInTimeAndThenGoesOn) {
  const auto heap = make_heap({.timeout = 300ms});
  fill(20'000);
  EXPECT_TRUE(daemon_.child().kill(SIGSTOP));
  std::uint64_t failed = 0;
  for (std::uint64_t i = 0; i < items_.size() && failed == 0; ++i) {
    const auto item = items_[i].try_read();
    if (item) {
      ASSERT_TRUE((*item)->is(i));
      continue;
    }
    ++failed;
    EXPECT_TRUE(item.error() == ErrorCode::kDeadlineExceeded || item.error() == ErrorCode::kConnectionLost)
        << item.error().to_string();
  }
  EXPECT_EQ(failed, 1u);
  EXPECT_TRUE(daemon_.child().kill(SIGCONT));
  for (std::uint64_t i = 0; i < items_.size(); ++i) {
    // The connection may have been given up: it comes back by itself.
    auto item = items_[i].try_read();
    for (int attempt = 0; attempt < 50 && !item; ++attempt) {
      std::this_thread::sleep_for(100ms);
      item = items_[i].try_read();
    }
    ASSERT_TRUE(item) << item.error().to_string();
    ASSERT_TRUE((*item)->is(i));
  }
  items_.clear();
}

// As configured: no error, however long it takes, and what comes then is right.
TEST_P(FarHeapOverTcpTest, AStalledNodeIsWaitedForIfThatIsWanted) {
  const auto heap = make_heap({.timeout = 100ms, .wait_for_node = true});
  fill(20'000);
  EXPECT_TRUE(daemon_.child().kill(SIGSTOP));
  std::atomic<std::uint64_t> read{0};
  std::atomic<std::uint64_t> errors{0};
  {
    const std::jthread reader([&] {
      for (std::uint64_t i = 0; i < items_.size(); ++i) {
        const auto item = items_[i].try_read();
        if (!item || !(*item)->is(i)) errors.fetch_add(1);
        read.fetch_add(1);
      }
    });
    std::this_thread::sleep_for(500ms);
    EXPECT_LT(read.load(), items_.size()) << "five timeouts have passed, and it still waits";
    EXPECT_TRUE(daemon_.child().kill(SIGCONT));
  }
  EXPECT_EQ(read.load(), items_.size());
  EXPECT_EQ(errors.load(), 0u);
  items_.clear();
}

struct Lost {
  ErrorCode code;
};

TEST_P(FarHeapOverTcpTest, WhoeverReadsWithoutAPlanIsSentToOnLost) {
  const auto heap =
      make_heap({.timeout = 200ms, .on_lost = [](const Error& error) { throw Lost{.code = error.code()}; }});
  fill(20'000);
  EXPECT_TRUE(daemon_.child().kill(SIGKILL));
  ErrorCode code = ErrorCode::kOk;
  try {
    for (std::uint64_t i = 0; i < items_.size(); ++i) ASSERT_TRUE(items_[i].read()->is(i));
  } catch (const Lost& lost) {
    code = lost.code;
  }
  EXPECT_TRUE(code == ErrorCode::kDeadlineExceeded || code == ErrorCode::kConnectionLost)
      << Error(code, "").to_string();
  items_.clear();
}

// A signal interrupts every system call on the way, and its handler runs on the thread's stack
// in the middle of dereferences.
TEST_P(FarHeapTest, SignalsChangeNothing) {
  const auto heap = make_heap({});
  fill(20'000);
  static std::atomic<int> signals;
  signals = 0;
  struct sigaction before{};
  struct sigaction counts{};
  counts.sa_handler = [](int) { signals.fetch_add(1, std::memory_order_relaxed); };  // Without SA_RESTART.
  ASSERT_EQ(::sigaction(SIGALRM, &counts, &before), 0);
  const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 500},
                        .it_value = {.tv_sec = 0, .tv_usec = 500}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  Prng random(::yonder::testing::test_seed());
  std::uint64_t wrong = 0;
  for (int step = 0; step < 1'000'000 && (step < 30'000 || signals < 100); ++step) {
    const std::uint64_t i = random.below(items_.size());
    const auto item = items_[i].try_read();
    if (!item || !(*item)->is(i)) ++wrong;
    if (step % 3 == 0) *items_[i].write() = Item(i);
  }
  const itimerval never{};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &never, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGALRM, &before, nullptr), 0);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GE(signals.load(), 100);
  items_.clear();
}

TEST_P(FarHeapOverTcpTest, AKilledNodeIsATypedErrorForEveryThread) {
  const auto heap = make_heap({.timeout = 300ms});
  fill(20'000);
  std::atomic<int> ended{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        Prng random(::yonder::testing::test_seed() + t);
        for (;;) {
          const std::uint64_t i = random.below(items_.size());
          const auto item = items_[i].try_read();
          if (!item) break;
          ASSERT_TRUE((*item)->is(i));
        }
        ended.fetch_add(1);
      });
    }
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(daemon_.child().kill(SIGKILL));
  }
  EXPECT_EQ(ended.load(), 3);
  // What is local is still right.
  for (std::uint64_t i = 0; i < items_.size(); ++i)
    if (const auto item = items_[i].try_read()) {
      ASSERT_TRUE((*item)->is(i));
    } else {
      break;  // Each costs the timeout.
    }
  items_.clear();
}

TEST_P(FarHeapTest, AChildMayExecButNotReachTheFarSide) {
  const auto heap = make_heap({});
  fill(20'000);
  const pid_t runs = ::fork();
  if (runs == 0) {
    ::execl("/bin/true", "true", nullptr);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(runs, &status, 0), runs);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const pid_t reaches = ::fork();
  if (reaches == 0) {
    ::signal(SIGABRT, SIG_DFL);
    for (std::uint64_t i = 0; i < items_.size(); ++i) (void)items_[i].read();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(reaches, &status, 0), reaches);
  EXPECT_TRUE(WIFSIGNALED(status)) << "a child read far memory of its parent";
  for (std::uint64_t i = 0; i < items_.size(); ++i) ASSERT_TRUE(items_[i].read()->is(i));
  items_.clear();
}

std::string provider_name(const ::testing::TestParamInfo<const char*>& test) { return test.param; }
INSTANTIATE_TEST_SUITE_P(Providers, FarHeapTest, ::testing::Values("shm", "tcp"), provider_name);
INSTANTIATE_TEST_SUITE_P(Providers, FarHeapOverTcpTest, ::testing::Values("tcp"), provider_name);

}  // namespace
}  // namespace yonder::e2e
