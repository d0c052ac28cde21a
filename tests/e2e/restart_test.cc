// The daemon over its own end: upgraded, killed, started twice; with our keeper and
// with systemd's protocol.
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/e2e/daemon.h"
#include "tests/e2e/ledger.h"
#include "yonder/os/eventfd.h"
#include "yonder/os/fd_passing.h"
#include "yonder/os/mapping.h"
#include "yonder/testing/pattern.h"

namespace yonder::e2e {
namespace {

using client::ObjectPtr;
using ::yonder::testing::number_in;
using ::yonder::testing::pattern;

constexpr std::array<std::uint32_t, 4> kSizes = {20, 300, 4000, 300'000};

Program start_keeper(const std::string& path) { return Program({.argv = {KEEPER, "--listen", path}}); }

// A client process and what it knows.
class Worker {
 public:
  Worker(TemporaryDirectory& directory, const std::string& name, const Connected& session,
         const std::string& address)
      : file_(directory.file(name)) {
    std::ofstream(file_) << std::string(sizeof(Ledger), '\0');
    const os::Fd fd = os::Fd::open(file_.c_str(), O_RDWR).value();
    mapping_ =
        os::Mapping::of_file(fd, {.bytes = sizeof(Ledger), .protection = os::Protection::kReadWrite}).value();
    for (std::size_t i = 0; i < Ledger::kCells; ++i) {
      const ObjectPtr object = session->alloc(kSizes[i % kSizes.size()]).value();
      ledger().cells[i].low = object.low();
      ledger().cells[i].high = object.high();
    }
    child_.emplace(os::Child::spawn({.argv = {WORKER, address, file_}}).value());
  }
  Ledger& ledger() { return *reinterpret_cast<Ledger*>(mapping_.data()); }
  bool runs() { return !child_->wait(Deadline::after(kClock, Duration(0))); }
  // It has done so much more.
  bool gets_on(std::uint64_t operations) {
    const std::uint64_t wanted = ledger().operations + operations;
    const Deadline deadline = soon();
    while (ledger().operations < wanted && runs() && !deadline.passed(kClock.now())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return ledger().operations >= wanted;
  }
  os::ExitStatus end() {
    EXPECT_TRUE(child_->kill(SIGTERM));
    return child_->wait(soon()).value();
  }
  void expect_all_values(const Connected& session) {
    for (LedgerCell& cell : ledger().cells) {
      ObjectPtr object = cell.object();
      std::vector<std::byte> out(object.size());
      const auto read = session->read(object, out);
      ASSERT_TRUE(read) << read.error();
      const std::uint64_t number = number_in(out);
      EXPECT_TRUE(number == cell.acknowledged || number == cell.attempted) << number;
    }
  }

 private:
  std::string file_;
  os::Mapping mapping_;
  std::optional<os::Child> child_;
};

class RestartTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Signals, RestartTest, ::testing::Values(SIGTERM, SIGKILL),
                         [](const auto& of) { return of.param == SIGTERM ? "upgraded" : "killed"; });

TEST_P(RestartTest, LosesNothingUnderLoad) {
  TemporaryDirectory directory;
  const std::string path = directory.file("keeper");
  Program keeper = start_keeper(path);
  ASSERT_TRUE(keeper.ready());
  const DaemonOptions fresh{.program = YONDERD, .flags = {"--keeper", path}};
  std::optional<Program> daemon(start_daemon(fresh));
  ASSERT_TRUE(daemon->ready());
  const std::string near = daemon->address("shm");
  const std::string far = daemon->address("tcp");
  std::optional<Worker> workers[2];
  {
    const Connected session = connect(far);
    workers[0].emplace(directory, "near", session, near);
    workers[1].emplace(directory, "far", session, far);
    // Something to compact, so that the end meets moves too.
    std::vector<client::AllocItem> items(4000, client::AllocItem{.bytes = 300});
    session->alloc_many(items);
    std::vector<client::FreeItem> gone;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i % 4 != 0) gone.push_back({.object = items[i].result.value()});
    }
    session->free_many(gone);
  }
  const DaemonOptions again{.program = YONDERD,
                            .listen = near + "," + far,
                            .flags = {"--keeper", path, "--compaction.min_waste", "1KiB"}};
  for (int round = 0; round < 3; ++round) {
    for (auto& worker : workers) ASSERT_TRUE(worker->gets_on(200)) << round;
    const os::ExitStatus status = daemon->end(GetParam());
    EXPECT_EQ(status.signalled, GetParam() == SIGKILL);
    daemon.reset();
    daemon.emplace(start_daemon(again));
    ASSERT_TRUE(daemon->ready()) << round;
  }
  for (auto& worker : workers) {
    EXPECT_TRUE(worker->gets_on(200));
    const os::ExitStatus status = worker->end();
    EXPECT_TRUE(status.success()) << status.value;
    EXPECT_GT(worker->ledger().losses, 0u) << "it noticed";
  }
  for (const std::string& address : {near, far}) {
    const Connected session = connect(address);
    for (auto& worker : workers) worker->expect_all_values(session);
  }
}

TEST(Restart, ASecondDaemonIsRefusedWhileTheFirstLives) {
  TemporaryDirectory directory;
  const std::string path = directory.file("keeper");
  Program keeper = start_keeper(path);
  ASSERT_TRUE(keeper.ready());
  const DaemonOptions options{.program = YONDERD, .flags = {"--keeper", path}};
  std::optional<Program> first(start_daemon(options));
  ASSERT_TRUE(first->ready());
  Program second = start_daemon(options);
  EXPECT_FALSE(second.ready());
  EXPECT_EQ(second.child().wait(soon()).value().value, 1);
  DaemonOptions other = options;
  other.flags.insert(other.flags.end(), {"--node.id", "2"});
  EXPECT_TRUE(start_daemon(other).ready()) << "another node";
  const Connected session = connect(first->address("shm"));
  ASSERT_TRUE(session->alloc(10));
  first->end(SIGKILL);
  EXPECT_TRUE(start_daemon(options).ready());
}

TEST(Restart, ADaemonWithOtherOptionsIsRefusedAndChangesNothing) {
  TemporaryDirectory directory;
  const std::string path = directory.file("keeper");
  Program keeper = start_keeper(path);
  DaemonOptions options{.program = YONDERD, .flags = {"--keeper", path, "--node.validator", "checksum"}};
  ObjectPtr object;
  {
    Program first = start_daemon(options);
    ASSERT_TRUE(first.ready());
    const Connected session = connect(first.address("tcp"));
    object = session->alloc(100).value();
    ASSERT_TRUE(session->write(object, pattern(100, 9)));
    EXPECT_TRUE(first.end(SIGTERM).success());
  }
  DaemonOptions wrong = options;
  wrong.flags = {"--keeper", path, "--node.validator", "checksum", "--node.superblock", "100MiB"};
  EXPECT_FALSE(start_daemon(wrong).ready());
  Program next = start_daemon(options);
  ASSERT_TRUE(next.ready());
  const Connected session = connect(next.address("tcp"));
  std::vector<std::byte> out(100);
  ASSERT_TRUE(session->direct_read(object, out));
  EXPECT_EQ(number_in(out), 9u);
}

// Whether the admin endpoint says soon that a keeper has the memory, or has not.
bool says_soon(const Program& daemon, bool kept) {
  const Deadline deadline = soon();
  while (!deadline.passed(kClock.now())) {
    httplib::Client client(daemon.address("admin"));
    const auto answer = client.Get("/api/v1/blocks");
    if (answer && nlohmann::json::parse(answer->body)["kept"] == kept) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// The keeper is away for a while, and the daemon hands everything over again.
TEST(Restart, AKeeperCanBeReplacedWhileTheDaemonRuns) {
  TemporaryDirectory directory;
  const std::string path = directory.file("keeper");
  std::optional<Program> keeper(start_keeper(path));
  const DaemonOptions options{.program = YONDERD, .flags = {"--keeper", path}};
  std::optional<Program> daemon(start_daemon(options));
  ASSERT_TRUE(daemon->ready());
  ObjectPtr object;
  {
    const Connected session = connect(daemon->address("tcp"));
    object = session->alloc(100).value();
    ASSERT_TRUE(session->write(object, pattern(100, 4)));
  }
  ASSERT_TRUE(says_soon(*daemon, true));
  keeper->end(SIGKILL);
  ASSERT_TRUE(says_soon(*daemon, false));
  keeper.emplace(start_keeper(path));
  ASSERT_TRUE(keeper->ready());
  // A daemon that is killed before it has noticed loses its memory.
  ASSERT_TRUE(says_soon(*daemon, true));
  std::vector<std::byte> out(100);
  daemon->end(SIGKILL);
  daemon.emplace(start_daemon(options));
  ASSERT_TRUE(daemon->ready());
  const Connected session = connect(daemon->address("tcp"));
  ASSERT_TRUE(session->read(object, out));
  EXPECT_EQ(number_in(out), 4u);
}

// ---------------------------------------------------------------- systemd

// The part of systemd's protocol that a service uses: descriptors come with
// notifications, and go with the next start (sd_notify(3), sd_listen_fds(3)).
class FakeSystemd {
 public:
  explicit FakeSystemd(const std::string& path) : path_(path) {
    socket_ = os::Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }

  ~FakeSystemd() {
    if (thread_.joinable()) rest();
  }

  // Starts the service with what is stored.
  Program start(const std::vector<std::string>& argv) {
    // Nothing but the exec is left to the child: a thread of ours may hold any lock.
    std::vector<std::string> environment = {"NOTIFY_SOCKET=" + path_};
    if (!stored_.empty()) {
      std::string names;
      for (const auto& [name, file] : stored_) names += (names.empty() ? "" : ":") + name;
      environment.push_back("LISTEN_FDNAMES=" + names);
      environment.push_back(fmt::format("LISTEN_FDS={}", stored_.size()));
      environment.emplace_back("LISTEN_PID=");  // Only the child knows it.
    }
    return Program(
        [&](int output) { return os::Child::fork([&] { return exec(argv, environment, output); }).value(); });
  }
  void listen() {
    thread_ = std::thread([this] {
      while (!stop_) take_one();
    });
  }
  void rest() {
    stop_ = true;
    thread_.join();
    stop_ = false;
  }
  const std::vector<std::pair<std::string, os::Fd>>& stored() const { return stored_; }

 private:
  void take_one() {
    if (!os::wait_ready(socket_.get(), os::Ready::kReadable,
                        Deadline::after(kClock, std::chrono::milliseconds(10)))) {
      return;
    }
    std::array<char, 512> text{};
    std::array<char, 256> control{};
    iovec part{.iov_base = text.data(), .iov_len = text.size() - 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC) <= 0) return;
    os::Fd file;
    if (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr && head->cmsg_type == SCM_RIGHTS) {
      int raw = -1;
      std::memcpy(&raw, CMSG_DATA(head), sizeof raw);
      file = os::Fd(raw);
    }
    apply(text.data(), std::move(file));
  }
  void apply(const std::string& text, os::Fd file) {
    const std::size_t at = text.find("FDNAME=");
    const std::string name = at == std::string::npos ? "" : text.substr(at + 7);
    if (text.starts_with("FDSTORE=1") && file.valid()) stored_.emplace_back(name, std::move(file));
    if (text.starts_with("FDSTOREREMOVE=1"))
      std::erase_if(stored_, [&](const auto& one) { return one.first == name; });
    // BARRIER=1: the descriptor is closed, which is the answer.
  }

  // In the child: descriptors 3, 4 … are what is stored.
  int exec(const std::vector<std::string>& argv, std::vector<std::string>& environment, int output) const {
    constexpr int kFirst = 3;
    constexpr int kOutOfTheWay = 100;
    const auto count = static_cast<int>(stored_.size());
    std::array<int, 64> copies{};
    for (int i = 0; i < count; ++i) {
      copies[static_cast<std::size_t>(i)] =
          ::fcntl(stored_[static_cast<std::size_t>(i)].second.get(), F_DUPFD, kOutOfTheWay);
    }
    ::dup2(output, STDOUT_FILENO);
    for (int i = 0; i < count; ++i) ::dup2(copies[static_cast<std::size_t>(i)], kFirst + i);
    if (count != 0) environment.back() = fmt::format("LISTEN_PID={}", ::getpid());
    for (std::string& entry : environment) ::putenv(entry.data());
    std::vector<char*> words;
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execv(words[0], words.data());
    return 127;
  }

  const std::string path_;
  os::Fd socket_;
  std::vector<std::pair<std::string, os::Fd>> stored_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(Restart, SystemdKeepsTheMemoryToo) {
  TemporaryDirectory directory;
  FakeSystemd systemd(directory.file("notify"));
  const std::vector<std::string> argv = {YONDERD,   "--listen",    "tcp://127.0.0.1:0",
                                         "--admin", "127.0.0.1:0", "--memory",
                                         "64MiB",   "--keeper",    "systemd"};
  ObjectPtr object;
  std::vector<std::byte> out(100);
  for (int round = 0; round < 3; ++round) {
    systemd.listen();
    Program daemon = systemd.start(argv);
    ASSERT_TRUE(daemon.ready()) << round;
    {
      const Connected session = connect(daemon.address("tcp"));
      if (round == 0) object = session->alloc(100).value();
      if (round > 0) {
        ASSERT_TRUE(session->direct_read(object, out));
        EXPECT_EQ(number_in(out), static_cast<std::uint64_t>(round));
      }
      ASSERT_TRUE(session->write(object, pattern(100, static_cast<std::uint64_t>(round) + 1)));
    }
    daemon.end(round == 0 ? SIGTERM : SIGKILL);
    systemd.rest();
    std::vector<std::string> names;
    for (const auto& [name, file] : systemd.stored()) names.push_back(name);
    std::ranges::sort(names);
    EXPECT_EQ(names, (std::vector<std::string>{"yonder.blocks", "yonder.journal", "yonder.record",
                                               "yonder.super.0"}));
  }
}

TEST(Restart, SystemdThatTakesNothingIsSaidSo) {
  Program daemon =
      start_daemon({.program = YONDERD, .flags = {"--keeper", "systemd"}, .environment = {"NOTIFY_SOCKET="}});
  EXPECT_FALSE(daemon.ready());
  EXPECT_EQ(daemon.child().wait(soon()).value().value, 1);
}

}  // namespace
}  // namespace yonder::e2e
