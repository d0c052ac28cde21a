// The daemon as users start it: a process of its own, real sockets, signals.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/daemon.h"

namespace yonder::e2e {
namespace {

using client::ObjectPtr;
using nlohmann::json;

// yonderd, with its admin endpoint.
class Daemon {
 public:
  explicit Daemon(std::vector<std::string> flags = {}, std::vector<std::string> environment = {})
      : program_(start_daemon(
            {.program = YONDERD, .flags = std::move(flags), .environment = std::move(environment)})) {}

  os::Child& child() { return program_.child(); }
  // By provider.
  const std::string& address(const std::string& provider) const { return program_.address(provider); }
  bool ready() const { return program_.ready(); }
  const std::string& admin() const { return program_.address("admin"); }

  httplib::Client http() const { return httplib::Client(admin()); }
  json get(const std::string& path) const {
    httplib::Client client = http();
    const auto answer = client.Get(path);
    EXPECT_TRUE(answer) << path;
    return answer ? json::parse(answer->body) : json();
  }

 private:
  Program program_;
};

TEST(Yonderd, ServesObjectsOverAllItsAddressesAndStopsInOrder) {
  Daemon daemon;
  ASSERT_TRUE(daemon.ready());
  const Connected near = connect(daemon.address("shm"));
  const Connected far = connect(daemon.address("tcp"));
  ObjectPtr object = near->alloc(1000).value();
  ASSERT_TRUE(near->write(object, bytes_of(1000, 7)));
  std::vector<std::byte> out(1000);
  for (const Connected* reader : {&near, &far}) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE((*reader)->direct_read(object, out));
    EXPECT_EQ(out, bytes_of(1000, 7));
    out.assign(1000, std::byte{0});
  }
  EXPECT_GT(near->stats().near_reads, 0u) << "the daemon's memory is mapped here";
  ASSERT_TRUE(far->write(object, bytes_of(1000, 8)));
  ASSERT_TRUE(near->direct_read(object, out));
  EXPECT_EQ(out, bytes_of(1000, 8));

  ASSERT_TRUE(daemon.child().kill(SIGTERM));
  const auto status = daemon.child().wait(soon());
  ASSERT_TRUE(status) << status.error();
  EXPECT_TRUE(status->success());
  EXPECT_FALSE(far->alloc(10, Deadline::after(kClock, std::chrono::milliseconds(200))));
}

// The value of one line of Prometheus text; -1 if there is none.
double value_of(const std::string& text, const std::string& metric) {
  const std::size_t at = text.find(metric + " ");
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + metric.size(), nullptr);
}

TEST(Yonderd, TellsMonitorsWhatItDoes) {
  Daemon daemon;
  ASSERT_TRUE(daemon.ready());
  const Connected session = connect(daemon.address("tcp"));
  std::vector<ObjectPtr> objects;
  for (int i = 0; i < 500; ++i) objects.push_back(session->alloc(200).value());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i % 5 == 0) continue;
    ASSERT_TRUE(session->free(objects[i])) << i;
  }
  EXPECT_EQ(daemon.get("/health")["status"], "serving");
  EXPECT_EQ(daemon.get("/api/v1/blocks")["live_objects"], 100);
  EXPECT_EQ(daemon.get("/api/v1/blocks")["limit_bytes"], 64 << 20);
  const json classes = daemon.get("/api/v1/classes");
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0]["allocated"], 500);
  EXPECT_EQ(classes[0]["freed"], 400);
  EXPECT_EQ(daemon.get("/api/v1/compaction")["policy"]["automatic"], true);

  httplib::Client http = daemon.http();
  const auto compacted = http.Post("/api/v1/compaction");
  ASSERT_TRUE(compacted);
  EXPECT_GT(json::parse(compacted->body)["bytes_freed"], 0);
  EXPECT_GT(daemon.get("/api/v1/compaction")["counters"]["objects_moved"], 0);
  std::vector<std::byte> out(200);
  for (std::size_t i = 0; i < objects.size(); i += 5) ASSERT_TRUE(session->direct_read(objects[i], out));

  ASSERT_FALSE(session->free(objects[1])) << "freed already";

  const auto metrics = http.Get("/metrics");
  ASSERT_TRUE(metrics);
  for (const char* line : {
           "yonder_node_operations_total{operation=\"alloc\"} 500\n",
           "yonder_rpc_calls_total{method=\"alloc\"} 500\n",
           "yonder_rpc_calls_total{method=\"free\"} 401\n",
           "yonder_rpc_errors_total{method=\"alloc\"} 0\n",
           "yonder_rpc_errors_total{method=\"free\"} 1\n",
           "yonder_rpc_calls_total{method=\"write\"} 0\n",
       }) {
    EXPECT_NE(metrics->body.find(line), std::string::npos) << line << metrics->body;
  }
  // One request in 61 is timed: of the first 500, all but a few are allocations.
  EXPECT_GE(value_of(metrics->body, "yonder_rpc_latency_seconds_count{method=\"alloc\"}"), 500 / 61 - 1);
  EXPECT_GT(value_of(metrics->body, "yonder_rpc_latency_seconds_sum{method=\"alloc\"}"), 0);
  EXPECT_EQ(http.Get("/nothing")->status, 404);
}

TEST(Yonderd, CompactsWhenTheCommandLineAsks) {
  Daemon daemon({"--compaction.automatic=false"});
  ASSERT_TRUE(daemon.ready());
  const Connected session = connect(daemon.address("shm"));
  std::vector<client::AllocItem> items(3000, client::AllocItem{.bytes = 300});
  session->alloc_many(items);
  std::vector<client::FreeItem> gone;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i % 4 != 0) gone.push_back({.object = items[i].result.value()});
  }
  session->free_many(gone);
  const std::string admin = daemon.admin().substr(std::string("http://").size());
  const auto run = [](std::vector<std::string> flags) {
    os::SpawnOptions spawn{.argv = {YONDER, "compact"}};
    spawn.argv.insert(spawn.argv.end(), flags.begin(), flags.end());
    os::Child child = os::Child::spawn(spawn).value();
    return child.wait(soon()).value().value;
  };
  EXPECT_EQ(run({"--admin", admin, "--dry-run"}), 0);
  EXPECT_EQ(daemon.get("/api/v1/compaction")["counters"]["runs"], 0) << "a dry run changes nothing";
  EXPECT_EQ(run({"--admin", admin}), 0);
  EXPECT_GT(daemon.get("/api/v1/compaction")["counters"]["bytes_freed"], 0);
  EXPECT_EQ(run({"--admin", "127.0.0.1:1"}), 1) << "nobody there";
}

TEST(Yonderd, ReadsItsConfigurationAgainOnHangup) {
  TemporaryDirectory directory;
  const std::string file = directory.file("yonder.toml");
  const auto write = [&](const char* threshold) {
    std::ofstream(file) << "[compaction]\nautomatic = false\nthreshold = " << threshold << "\n";
  };
  write("2.0");
  Daemon daemon({"--config", file});
  ASSERT_TRUE(daemon.ready());
  const auto threshold = [&] {
    return daemon.get("/api/v1/compaction")["policy"]["threshold"].get<double>();
  };
  EXPECT_EQ(threshold(), 2.0);
  const auto reloads_to = [&](double wanted) {
    EXPECT_TRUE(daemon.child().kill(SIGHUP));
    const Deadline deadline = soon();
    while (threshold() != wanted && !deadline.passed(kClock.now())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return threshold() == wanted;
  };
  write("3.5");
  EXPECT_TRUE(reloads_to(3.5));
  // A file with an error changes nothing, and the daemon goes on.
  write("\"nonsense\"");
  EXPECT_TRUE(daemon.child().kill(SIGHUP));
  write("4.5");
  EXPECT_TRUE(reloads_to(4.5));
}

TEST(Yonderd, TellsSystemdWhenItIsReadyAndWhenItStops) {
  TemporaryDirectory directory;
  const std::string path = directory.file("notify");
  const int notify = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(notify, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const auto next = [&] {
    std::array<char, 256> text{};
    if (!os::wait_ready(notify, os::Ready::kReadable, soon())) return std::string();
    const ssize_t length = ::read(notify, text.data(), text.size());
    return std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  };
  Daemon daemon({}, {"NOTIFY_SOCKET=" + path});
  EXPECT_EQ(next(), "READY=1");
  ASSERT_TRUE(daemon.child().kill(SIGHUP));
  EXPECT_TRUE(next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_EQ(next(), "READY=1");
  ASSERT_TRUE(daemon.child().kill(SIGTERM));
  EXPECT_EQ(next(), "STOPPING=1");
  EXPECT_TRUE(daemon.child().wait(soon())->success());
  ::close(notify);
}

TEST(Yonderd, RefusesWrongFlagsInOneSentence) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--nonsense"}, {"--memory", "much"}, {"--node.listen", ","}}) {
    os::SpawnOptions spawn{.argv = {YONDERD}};
    spawn.argv.insert(spawn.argv.end(), flags.begin(), flags.end());
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    spawn.stderr_fd = null;
    os::Child child = os::Child::spawn(spawn).value();
    const auto status = child.wait(soon());
    ::close(null);
    ASSERT_TRUE(status);
    EXPECT_FALSE(status->signalled);
    EXPECT_EQ(status->value, 2) << flags[0];
  }
}

// A flag given twice counts as given last.
TEST(Yonderd, RemapsItsBlocksIfToldAndRefusesReadersThatCouldNotFollow) {
  Daemon daemon({"--remap", "mmap", "--listen", "tcp://127.0.0.1:0", "--compaction.automatic=false"});
  ASSERT_TRUE(daemon.ready());
  Connected session = connect(daemon.address("tcp"));
  std::vector<ObjectPtr> objects;
  for (int i = 0; i < 2000; ++i) objects.push_back(session->alloc(100).value());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i % 8 == 0)
      ASSERT_TRUE(session->write(objects[i], bytes_of(100, static_cast<int>(i / 8 % 250))));
    else
      ASSERT_TRUE(session->free(objects[i]));
  }
  httplib::Client admin = daemon.http();
  ASSERT_TRUE(admin.Post("/api/v1/compaction"));
  for (std::size_t i = 0; i < objects.size(); i += 8) {
    std::vector<std::byte> out(100);
    ASSERT_TRUE(session->direct_read(objects[i], out));
    EXPECT_EQ(out, bytes_of(100, static_cast<int>(i / 8 % 250)));
  }

  Daemon refused({"--remap", "mmap"});  // With shm among its addresses.
  EXPECT_FALSE(refused.ready());
  EXPECT_FALSE(refused.child().wait(soon())->success());
}

// Two addresses are served by two threads, of which each owns half of the blocks.
TEST(Yonderd, FindsDisplacedObjectsByEveryCorrectionItIsToldToUse) {
  for (const std::string correction : {"scan", "index", "owner"}) {
    Daemon daemon({"--correction=" + correction, "--compaction.automatic=false"});
    ASSERT_TRUE(daemon.ready());
    Connected session = connect(daemon.address("shm"));
    std::vector<ObjectPtr> objects;
    for (int i = 0; i < 2000; ++i) objects.push_back(session->alloc(100).value());
    for (std::size_t i = 0; i < objects.size(); ++i) {
      if (i % 4 == 0)
        ASSERT_TRUE(session->write(objects[i], bytes_of(100, static_cast<int>(i / 4 % 250))));
      else
        ASSERT_TRUE(session->free(objects[i]));
    }
    httplib::Client admin = daemon.http();
    ASSERT_TRUE(admin.Post("/api/v1/compaction"));
    for (std::size_t i = 0; i < objects.size(); i += 4) {
      std::vector<std::byte> out(100);
      ASSERT_TRUE(session->read(objects[i], out)) << correction;
      EXPECT_EQ(out, bytes_of(100, static_cast<int>(i / 4 % 250)));
    }
    EXPECT_GT(daemon.get("/api/v1/blocks").at("corrections"), 0) << correction;
  }
}

// The client dies wherever it happens to be: between two operations, in the middle of
// a message, of a large write, of a one-sided read.
TEST(Yonderd, AKilledClientLeavesNothingLockedAndNothingHalfWritten) {
  Daemon daemon;
  ASSERT_TRUE(daemon.ready());
  for (const char* provider : {"shm", "tcp"}) {
    const std::string address = daemon.address(provider);
    Connected session = connect(address);
    ObjectPtr small = session->alloc(100).value();
    ObjectPtr large = session->alloc(500'000).value();
    ASSERT_TRUE(session->write(small, bytes_of(100, 1)));
    ASSERT_TRUE(session->write(large, bytes_of(500'000, 1)));
    for (int round = 0; round < 6; ++round) {
      os::SpawnOptions spawn{.argv = {VICTIM, address, fmt::format("{}:{}", small.low(), small.high()),
                                      fmt::format("{}:{}", large.low(), large.high())}};
      os::Child victim = os::Child::spawn(spawn).value();
      std::this_thread::sleep_for(std::chrono::milliseconds(30 + 7 * round));
      ASSERT_TRUE(victim.kill(SIGKILL));
      ASSERT_TRUE(victim.wait(soon()));
      for (ObjectPtr* object : {&small, &large}) {
        std::vector<std::byte> out(object->size());
        ASSERT_TRUE(session->read(*object, out)) << "locked";
        EXPECT_EQ(out, bytes_of(out.size(), static_cast<int>(out[0]))) << "half written";
        ASSERT_TRUE(session->direct_read(*object, out));
        EXPECT_EQ(out, bytes_of(out.size(), static_cast<int>(out[0])));
        ASSERT_TRUE(session->write(*object, bytes_of(out.size(), 9))) << "locked";
      }
    }
  }
  EXPECT_EQ(daemon.get("/health")["status"], "serving");
}

}  // namespace
}  // namespace yonder::e2e
