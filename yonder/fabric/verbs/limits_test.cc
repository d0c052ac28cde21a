// What happens when something runs out on a real RDMA device: connections,
// objects of the device, descriptors, memory that may be locked.
//
// In every test a witness reads on a connection of its own, without pause: it must
// notice nothing. Afterwards the kernel's own counts of RDMA objects and this
// process's descriptors are what they were.
#include <dirent.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "yonder/fabric/verbs/device_test_support.h"
#include "yonder/testing/patience.h"

namespace yonder::fabric::verbs {
namespace {

using std::chrono::milliseconds;

// Without the right to lock more memory than RLIMIT_MEMLOCK allows. Before the
// device is opened: it serves no thread whose credentials changed since. (glibc has
// no wrapper for these calls.)
struct WithoutIpcLock {
  WithoutIpcLock() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, 2> sets{};
    ::syscall(SYS_capget, &header, sets.data());
    sets[0].effective &= ~(1U << CAP_IPC_LOCK);
    sets[0].permitted &= ~(1U << CAP_IPC_LOCK);
    ::syscall(SYS_capset, &header, sets.data());
  }
};
const WithoutIpcLock kUnprivileged;
const RequireDevice kDevice;

constexpr std::uint64_t kWord = 0x79616e646572'5345ULL;

// "0: rxe0: pd 2 cq 5 qp 3 cm_id 1 mr 4 ctx 2 srq 2", as the kernel counts them.
std::string device_objects() {
  FILE* pipe = ::popen("rdma resource show 2>/dev/null", "r");
  if (pipe == nullptr) return "popen failed";
  std::string text;
  std::array<char, 256> part;
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) text += part.data();
  ::pclose(pipe);
  return text;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

bool eventually(const auto& condition) {
  const auto give_up = std::chrono::steady_clock::now() + ::yonder::testing::kPatience;
  while (std::chrono::steady_clock::now() < give_up) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return condition();
}

// A soft limit of this process for the time of an object.
class TightLimit {
 public:
  TightLimit(int resource, rlim_t most) : resource_(resource) {
    ::getrlimit(resource_, &saved_);
    const rlimit tight{most, saved_.rlim_max};
    EXPECT_EQ(::setrlimit(resource_, &tight), 0);
  }
  ~TightLimit() { ::setrlimit(resource_, &saved_); }
  TightLimit(const TightLimit&) = delete;
  TightLimit& operator=(const TightLimit&) = delete;

 private:
  const int resource_;
  rlimit saved_{};
};

// A control group that lets this process make so many more objects on the device.
class ObjectLimit {
 public:
  explicit ObjectLimit(int objects) {
    char name[] = "/tmp/yonder-cgroup-XXXXXX";
    if (::mkdtemp(name) == nullptr) return;
    root_ = name;
    is_mounted_ = ::mount("none", name, "cgroup2", 0, nullptr) == 0;
    if (!is_mounted_) return;
    const std::filesystem::directory_iterator devices("/sys/class/infiniband");
    const std::string device = begin(devices)->path().filename();
    std::filesystem::create_directory(group());
    works_ = write(root_ + "/cgroup.subtree_control", "+rdma") &&
             write(group() + "/rdma.max", device + " hca_object=" + std::to_string(objects)) &&
             write(group() + "/cgroup.procs", std::to_string(::getpid()));
  }
  ~ObjectLimit() {
    if (is_mounted_) {
      write(root_ + "/cgroup.procs", std::to_string(::getpid()));
      ::rmdir(group().c_str());
      ::umount(root_.c_str());
    }
    ::rmdir(root_.c_str());
  }
  ObjectLimit(const ObjectLimit&) = delete;
  ObjectLimit& operator=(const ObjectLimit&) = delete;

  bool works() const { return works_; }

 private:
  std::string group() const { return root_ + "/limited"; }
  static bool write(const std::string& path, const std::string& text) {
    std::ofstream file(path);
    file << text << std::flush;
    return file.good();
  }

  std::string root_;
  bool is_mounted_ = false;
  bool works_ = false;
};

// Reads on a connection of its own until it is told to stop.
class Witness {
 public:
  Witness(Fabric& fabric, const std::string& address, RemoteAddress word) {
    queue_ = std::move(*fabric.create_completion_queue({}));
    endpoint_ = std::move(*fabric.connect({.address = address,
                                           .endpoint = {.default_timeout = ::yonder::testing::kPatience},
                                           .connect_timeout = ::yonder::testing::kPatience},
                                          *queue_));
    thread_ = std::thread([this, word] { run(word); });
  }
  ~Witness() {
    stop_ = true;
    thread_.join();
    EXPECT_EQ(failures_, 0) << first_failure_;
    EXPECT_GT(reads_, 0);
  }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

 private:
  void run(RemoteAddress word) {
    while (!stop_ || reads_ == 0) {
      std::uint64_t value = 0;
      const auto into = LocalPiece::of(std::as_bytes(std::span(&value, 1)));
      const auto done = endpoint_->read(into, word).wait();
      ++reads_;
      // Often, but not always: a witness that never rests takes a processor from what it watches.
      std::this_thread::sleep_for(milliseconds(1));
      if (done && value == kWord) continue;
      if (failures_++ == 0) first_failure_ = done ? "wrong bytes" : done.error().to_string();
    }
  }

  std::unique_ptr<CompletionQueue> queue_;
  std::unique_ptr<Endpoint> endpoint_;
  std::atomic<bool> stop_{false};
  int reads_ = 0;
  int failures_ = 0;
  std::string first_failure_;
  std::thread thread_;
};

class LimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto fabric = open();
    ASSERT_TRUE(fabric) << fabric.error();
    fabric_ = std::move(*fabric);
    words_.fill(kWord);
    auto region = fabric_->register_memory({.memory = std::as_writable_bytes(std::span(words_))});
    ASSERT_TRUE(region) << region.error();
    region_ = std::move(*region);
    auto queue = fabric_->create_completion_queue({.capacity = 8192});
    ASSERT_TRUE(queue) << queue.error();
    queue_ = std::move(*queue);
    auto listener = fabric_->listen({.address = "verbs://*:0", .passive = true});
    ASSERT_TRUE(listener) << listener.error();
    listener_ = std::move(*listener);
    objects_before_ = device_objects();
    descriptors_before_ = open_descriptors();
  }
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return listener_->connection_count() == 0; }));
    EXPECT_TRUE(eventually([&] { return device_objects() == objects_before_; }))
        << "before: " << objects_before_ << "after:  " << device_objects();
    EXPECT_EQ(open_descriptors(), descriptors_before_);
  }

  Result<std::unique_ptr<Endpoint>> connect() {
    return fabric_->connect(
        {.address = listener_->address(),
         .endpoint = {.depth = 2, .receive_depth = 1, .default_timeout = ::yonder::testing::kPatience},
         .connect_timeout = ::yonder::testing::kPatience},
        *queue_);
  }
  // Empty if it gives the right word.
  std::string read_fault(Endpoint& endpoint) {
    std::uint64_t value = 0;
    const auto done =
        endpoint.read(LocalPiece::of(std::as_bytes(std::span(&value, 1))), region_.token().at(0)).wait();
    if (!done) return done.error().to_string();
    return value == kWord ? "" : "wrong bytes";
  }

  std::array<std::uint64_t, 8> words_{};
  std::unique_ptr<Fabric> fabric_;
  Region region_;
  std::unique_ptr<CompletionQueue> queue_;
  std::unique_ptr<Listener> listener_;
  std::string objects_before_;
  std::size_t descriptors_before_ = 0;
};

TEST_F(LimitsTest, AThousandConnectionsServeAndLeaveNothing) {
  constexpr std::size_t kConnections = 1000;
  const Witness witness(*fabric_, listener_->address(), region_.token().at(8));
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  while (endpoints.size() < kConnections) {
    auto endpoint = connect();
    ASSERT_TRUE(endpoint) << endpoint.error() << " after " << endpoints.size();
    endpoints.push_back(std::move(*endpoint));
  }
  EXPECT_EQ(listener_->connection_count(), kConnections + 1);
  for (const auto& endpoint : endpoints) ASSERT_EQ(read_fault(*endpoint), "");
}

TEST_F(LimitsTest, ADeviceThatIsFullRefusesTheNextConnectionAlone) {
  const Witness witness(*fabric_, listener_->address(), region_.token().at(8));
  const ObjectLimit limit(40);
  if (!limit.works()) GTEST_SKIP() << "no rdma control group here";
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  Result<std::unique_ptr<Endpoint>> next = connect();
  for (; next && endpoints.size() < 40; next = connect()) endpoints.push_back(std::move(*next));
  ASSERT_FALSE(next) << "the limit was not reached";
  EXPECT_EQ(next.error(), ErrorCode::kResourceExhausted) << next.error();
  ASSERT_FALSE(endpoints.empty());
  for (const auto& endpoint : endpoints) EXPECT_EQ(read_fault(*endpoint), "");
  // Room for one is room for one; the peer's half goes a moment later.
  endpoints.pop_back();
  ASSERT_TRUE(eventually([&] {
    next = connect();
    return next.has_value();
  }));
  EXPECT_EQ(read_fault(**next), "");
}

TEST_F(LimitsTest, AQueueLargerThanTheDeviceTakesWhatThereIs) {
  constexpr std::uint32_t kWanted = 1U << 30;
  auto huge = fabric_->create_completion_queue({.capacity = kWanted});
  ASSERT_TRUE(huge) << huge.error();
  EXPECT_LT((*huge)->capacity(), kWanted);
  const std::uint32_t most = (*huge)->capacity();
  const auto fits = fabric_->connect(
      {.address = listener_->address(), .endpoint = {.depth = 2, .receive_depth = most - 2}}, **huge);
  EXPECT_TRUE(fits) << fits.error();
  const auto refused = fabric_->connect(
      {.address = listener_->address(), .endpoint = {.depth = 1, .receive_depth = 0}}, **huge);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), ErrorCode::kResourceExhausted) << refused.error();
}

TEST_F(LimitsTest, WithoutDescriptorsTheNextConnectionFailsAlone) {
  const Witness witness(*fabric_, listener_->address(), region_.token().at(8));
  auto first = connect();
  ASSERT_TRUE(first) << first.error();
  {
    const TightLimit none(RLIMIT_NOFILE, 3);
    const auto refused = connect();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), ErrorCode::kResourceExhausted) << refused.error();
    EXPECT_EQ(read_fault(**first), "");
  }
  auto second = connect();
  ASSERT_TRUE(second) << second.error();
  EXPECT_EQ(read_fault(**second), "");
}

TEST_F(LimitsTest, TooMuchLockedMemoryIsRefusedByNameAndHarmsNothingElse) {
  constexpr std::size_t kLockable = 8 << 20;
  std::vector<std::byte> large(2 * kLockable);
  std::vector<std::byte> small(kLockable / 16);
  const Witness witness(*fabric_, listener_->address(), region_.token().at(8));
  auto endpoint = connect();
  ASSERT_TRUE(endpoint) << endpoint.error();
  {
    const TightLimit locked(RLIMIT_MEMLOCK, kLockable);
    const auto refused = fabric_->register_memory({.memory = large});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), ErrorCode::kResourceExhausted) << refused.error();
    EXPECT_NE(refused.error().to_string().find("RLIMIT_MEMLOCK"), std::string::npos) << refused.error();
    // A transfer that would register its buffer for itself fails alone.
    const auto transfer = (*endpoint)->read(LocalPiece::of(large), region_.token().at(0)).wait();
    ASSERT_FALSE(transfer);
    EXPECT_EQ(transfer.error(), ErrorCode::kResourceExhausted) << transfer.error();
    EXPECT_EQ(read_fault(**endpoint), "");
    const auto fits = fabric_->register_memory({.memory = small});
    EXPECT_TRUE(fits) << fits.error();
  }
  {
    // Not even an endpoint's own few pages can be locked: another errno.
    const TightLimit locked(RLIMIT_MEMLOCK, 0);
    const auto refused = connect();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), ErrorCode::kPermissionDenied) << refused.error();
    EXPECT_NE(refused.error().to_string().find("RLIMIT_MEMLOCK"), std::string::npos) << refused.error();
    EXPECT_EQ(read_fault(**endpoint), "");
  }
  const auto granted = fabric_->register_memory({.memory = large});
  EXPECT_TRUE(granted) << granted.error();
}

}  // namespace
}  // namespace yonder::fabric::verbs
