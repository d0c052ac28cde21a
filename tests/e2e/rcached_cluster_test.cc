// A cluster of rcached processes whose partitions move while plain clients use them: no
// request fails, no value is lost, doubled or stale; and servers that are killed.

#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/cache_servers.h"
#include "yonder/base/prng.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::e2e {
namespace {

using Json = nlohmann::json;

constexpr int kPartitions = 16;

class ClusterTest : public ::testing::TestWithParam<std::string> {
 protected:
  struct Member {
    std::unique_ptr<CacheServer> server;
    std::unique_ptr<httplib::Client> admin;
    std::string place;        // where it serves clients
    std::string admin_place;  // and where it is administered
  };

  void start(int servers) {
    const std::string directory = GetParam() == "shm"
                                      ? "shm:rcached-cluster-" + std::to_string(::getpid())
                                      : "tcp://127.0.0.1:" + std::to_string(free_port().port());
    for (int i = 0; i < servers; ++i) {
      const int admin = free_port().port();
      const std::string agent = GetParam() == "shm" ? "shm:" : "tcp://127.0.0.1:0";
      Member member;
      member.server = std::make_unique<CacheServer>(
          RCACHED, free_port(),
          with_further({"--partitions=" + std::to_string(partitions_),
                        (i == 0 ? "--cluster=" : "--join=") + directory, "--agent=" + agent,
                        "--admin=127.0.0.1:" + std::to_string(admin)}));
      member.admin = std::make_unique<httplib::Client>("127.0.0.1", admin);
      member.admin->set_read_timeout(std::chrono::seconds(30));
      member.admin_place = "127.0.0.1:" + std::to_string(admin);
      member.place = "127.0.0.1:" + member.server->port();
      ASSERT_TRUE(eventually([&] {
        const auto answer = member.admin->Get("/health");
        return answer && answer->status == 200;
      }));
      members_.push_back(std::move(member));
    }
  }

  // The answer's status; 200: done.
  int migrate(std::size_t from, int partition, std::size_t to) {
    const auto answer = members_[from].admin->Post("/api/v1/migrate?partition=" + std::to_string(partition) +
                                                   "&to=" + members_[to].place);
    return answer ? answer->status : -1;
  }
  // Where the first server believes the partition is.
  std::size_t owner_of(int partition) {
    RawClient client = members_[0].server->connect();
    const std::string report = client.ask("stats partitions\r\n", "END\r\n");
    const std::string key = "STAT " + std::to_string(partition) + ":owner ";
    const std::size_t begin = report.find(key) + key.size();
    const std::string owner = report.substr(begin, report.find("\r\n", begin) - begin);
    for (std::size_t i = 1; i < members_.size(); ++i) {
      if (members_[i].place == owner) return i;
    }
    return 0;
  }

  std::vector<std::string> with_further(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), further_.begin(), further_.end());
    return arguments;
  }

  std::vector<Member> members_;
  int partitions_ = kPartitions;
  std::vector<std::string> further_;  // arguments of every server
};

// Sets and gets keys of its own: every get must give what was set last.
class Checker {
 public:
  Checker(const CacheServer& server, std::string prefix, std::uint64_t seed)
      : client_(server.connect()), prefix_(std::move(prefix)), prng_(seed), values_(kKeys) {}

  void run(const std::atomic<bool>& stop) {
    while (!stop.load(std::memory_order_relaxed)) step();
  }
  void step() {
    const std::size_t i = prng_.below(kKeys);
    const std::string key = prefix_ + std::to_string(i);
    ++requests_;
    if (values_[i] == 0 || prng_.below(3) == 0) {
      const std::string value = std::to_string(values_[i] + 1);
      const std::string reply =
          client_.ask("set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n");
      if (reply == "STORED\r\n") {
        ++values_[i];
      } else {
        fail("set", reply);
      }
    } else {
      const std::string expected = std::to_string(values_[i]);
      const std::string reply = client_.ask("get " + key + "\r\n", "END\r\n");
      if (reply !=
          "VALUE " + key + " 0 " + std::to_string(expected.size()) + "\r\n" + expected + "\r\nEND\r\n")
        fail("get", reply);
    }
  }
  std::uint64_t requests() const { return requests_; }
  std::uint64_t failures() const { return failures_; }
  const std::string& first_failure() const { return first_failure_; }

 private:
  static constexpr std::size_t kKeys = 400;
  void fail(const char* what, const std::string& reply) {
    if (failures_++ == 0) first_failure_ = what + (" got " + reply);
  }

  RawClient client_;
  const std::string prefix_;
  Prng prng_;
  std::vector<std::uint64_t> values_;
  std::uint64_t requests_ = 0;
  std::uint64_t failures_ = 0;
  std::string first_failure_;
};

TEST_P(ClusterTest, MovesPartitionsUnderLoadWithoutAFailedRequest) {
  start(3);
  std::atomic<bool> stop{false};
  std::vector<std::unique_ptr<Checker>> checkers;
  for (std::size_t i = 0; i < 3; ++i)
    checkers.push_back(std::make_unique<Checker>(*members_[i].server, "c" + std::to_string(i) + "-",
                                                 testing::test_seed() + i));
  std::vector<std::thread> threads;
  for (const auto& checker : checkers) threads.emplace_back([&stop, c = checker.get()] { c->run(stop); });
  Prng prng(testing::test_seed());
  int moved = 0;
  for (int i = 0; i < testing::scaled(60); ++i) {
    const int partition = static_cast<int>(prng.below(kPartitions));
    const std::size_t from = owner_of(partition);
    const std::size_t to = (from + 1 + prng.below(2)) % 3;
    // 409: its pages are still arriving, or its old server does not know yet.
    const int status = migrate(from, partition, to);
    EXPECT_TRUE(status == 200 || status == 409) << status;
    if (status == 200) {
      ++moved;
      EXPECT_TRUE(eventually([&] { return owner_of(partition) == to; }));
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(moved, 0);
  for (const auto& checker : checkers) {
    EXPECT_GT(checker->requests(), 100u);
    EXPECT_EQ(checker->failures(), 0u) << checker->first_failure();
  }
}

TEST_P(ClusterTest, DrainsAServerAndForgetsNothing) {
  start(2);
  std::vector<std::unique_ptr<Checker>> checkers;
  checkers.push_back(std::make_unique<Checker>(*members_[0].server, "d-", testing::test_seed()));
  Checker& checker = *checkers.front();
  for (int i = 0; i < 1500; ++i) checker.step();
  for (int partition = 0; partition < kPartitions; partition += 2) ASSERT_EQ(migrate(0, partition, 1), 200);
  for (int i = 0; i < 500; ++i) checker.step();
  const ProgramRun drained = run_program({YONDER, "drain", "--admin", members_[1].admin_place});
  EXPECT_TRUE(drained.status.success()) << drained.output;
  ASSERT_TRUE(members_[1].server->child().kill(SIGTERM));
  EXPECT_TRUE(members_[1].server->child().wait(within(kPatience)).value().success());
  for (int i = 0; i < 1500; ++i) checker.step();
  EXPECT_EQ(checker.failures(), 0u) << checker.first_failure();
}

TEST_P(ClusterTest, GivesThePartitionsOfAKilledServerNewLifeAndNothingStale) {
  start(2);
  RawClient client = members_[0].server->connect();
  for (int i = 0; i < 200; ++i)
    ASSERT_EQ(client.ask("set k" + std::to_string(i) + " 0 0 3\r\nold\r\n"), "STORED\r\n");
  for (int partition = 0; partition < kPartitions; partition += 2) ASSERT_EQ(migrate(0, partition, 1), 200);
  for (int i = 0; i < 200; ++i)
    ASSERT_EQ(client.ask("set k" + std::to_string(i) + " 0 0 3\r\nnew\r\n"), "STORED\r\n");
  ASSERT_TRUE(members_[1].server->child().kill(SIGKILL));
  // Until the lease has passed the owner of half the keys is unknown; then they are empty.
  EXPECT_TRUE(eventually([&] {
    bool all = true;
    for (int i = 0; i < 200 && all; ++i) {
      const std::string reply = client.ask("set p" + std::to_string(i) + " 0 0 1\r\nx\r\n");
      all = reply == "STORED\r\n";
    }
    return all;
  }));
  int hits = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "k" + std::to_string(i);
    const std::string reply = client.ask("get " + key + "\r\n", "END\r\n");
    const bool hit = reply == "VALUE " + key + " 0 3\r\nnew\r\nEND\r\n";
    EXPECT_TRUE(hit || reply == "END\r\n") << reply;
    hits += hit ? 1 : 0;
  }
  EXPECT_GT(hits, 20);   // What the living server has.
  EXPECT_LT(hits, 180);  // And nothing of what was the dead one's.
}

TEST_P(ClusterTest, LosesNothingWithAServerThatIsKilledWhileItsPartitionLeaves) {
  partitions_ = 1;
  further_ = {"--keep-until-complete", "-m", "256"};
  start(3);
  constexpr int kValues = 200;
  const auto value_of = [](int i) {
    return std::string(std::size_t{256} << 10, static_cast<char>('a' + i % 26));
  };
  RawClient client = members_[0].server->connect();
  for (int i = 0; i < kValues; ++i) {
    const std::string value = value_of(i);
    ASSERT_EQ(client.ask("set k" + std::to_string(i) + " 0 0 " + std::to_string(value.size()) + "\r\n" +
                         value + "\r\n"),
              "STORED\r\n");
  }
  const auto has_all = [&](std::size_t server) {
    const auto answer = members_[server].admin->Get("/api/v1/partitions");
    return answer && answer->body.find("\"moving\":[]") != std::string::npos;
  };
  ASSERT_EQ(migrate(0, 0, 1), 200);
  ASSERT_TRUE(eventually([&] { return owner_of(0) == 1 && has_all(1); }));
  // Killed the moment its partition is the third server's, when most of it has not arrived.
  RawClient third = members_[2].server->connect();
  ASSERT_EQ(members_[0].admin->Post("/api/v1/migrate?partition=0&wait=0&to=" + members_[2].place)->status,
            200);
  ASSERT_TRUE(eventually([&] {
    return third.ask("stats partitions\r\n", "END\r\n").find("0:owner local") != std::string::npos;
  }));
  ASSERT_TRUE(members_[1].server->child().kill(SIGKILL));
  for (int i = 0; i < kValues; ++i) {
    const std::string key = "k" + std::to_string(i);
    const std::string value = value_of(i);
    const std::string expected =
        "VALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nEND\r\n";
    const std::string reply = client.ask("get " + key + "\r\n", "END\r\n");
    ASSERT_TRUE(reply == expected) << key << ": " << reply.substr(0, 80);
  }
  EXPECT_TRUE(eventually([&] { return has_all(2); }));
}

TEST_P(ClusterTest, ListsJobsPausesCancelsAndRollsBack) {
  start(2);
  httplib::Client& admin = *members_[1].admin;  // Any server will do.
  ASSERT_EQ(admin.Post("/api/v1/pause")->status, 200);
  const std::string move = "/api/v1/migrate?wait=0&to=" + members_[1].place + "&partition=";
  EXPECT_EQ(admin.Post(move + "3")->body, "{\"job\":1}\n");
  EXPECT_EQ(admin.Post(move + "4")->body, "{\"job\":2}\n");
  EXPECT_EQ(admin.Post(move + "4")->status, 409);
  EXPECT_EQ(admin.Post("/api/v1/jobs/1/cancel")->status, 200);
  EXPECT_EQ(admin.Post("/api/v1/jobs/77/cancel")->status, 404);
  EXPECT_NE(admin.Post("/api/v1/jobs/1/cancel")->body.find("job 1 has begun or ended"), std::string::npos);
  EXPECT_EQ(admin.Post("/api/v1/jobs/2/rollback")->status, 409);
  EXPECT_EQ(owner_of(4), 0u);
  ASSERT_EQ(admin.Post("/api/v1/resume")->status, 200);
  EXPECT_TRUE(eventually([&] { return owner_of(4) == 1; }));
  EXPECT_EQ(owner_of(3), 0u);
  EXPECT_TRUE(eventually(
      [&] { return admin.Get("/api/v1/jobs")->body.find("\"state\":\"done\"") != std::string::npos; }));
  EXPECT_EQ(admin.Post("/api/v1/jobs/2/rollback")->body, "{\"job\":3}\n");
  EXPECT_TRUE(eventually([&] { return owner_of(4) == 0; }));
}

TEST_P(ClusterTest, ShowsHowManyBytesOfAJobAreLeft) {
  partitions_ = 1;
  further_ = {"--pull-limit=16", "-m", "256"};
  start(2);
  RawClient client = members_[0].server->connect();
  constexpr std::uint64_t kValueBytes = 512 << 10;
  constexpr std::uint64_t kBytes = 32 * kValueBytes;  // A second's worth.
  const std::string value(kValueBytes, 'v');
  for (std::uint64_t i = 0; i * kValueBytes < kBytes; ++i) {
    ASSERT_EQ(client.ask("set k" + std::to_string(i) + " 0 0 " + std::to_string(kValueBytes) + "\r\n" +
                         value + "\r\n"),
              "STORED\r\n");
  }
  const auto job = [&](std::size_t server) {
    const Json body = Json::parse(members_[server].admin->Get("/api/v1/jobs")->body);
    return body["jobs"].at(0);
  };
  ASSERT_EQ(members_[0].admin->Post("/api/v1/pause")->status, 200);
  ASSERT_EQ(members_[0].admin->Post("/api/v1/migrate?wait=0&partition=0&to=" + members_[1].place)->status,
            200);
  EXPECT_EQ(job(0)["state"], "paused");
  // What the partition holds is reported once a second.
  std::uint64_t estimate = 0;
  EXPECT_TRUE(eventually([&] {
    estimate = job(0)["bytes_left"].get<std::uint64_t>();
    return estimate >= kBytes;
  }));
  ASSERT_EQ(members_[0].admin->Post("/api/v1/resume")->status, 200);
  std::vector<std::uint64_t> seen;
  ASSERT_TRUE(eventually([&] {
    const Json now = job(1);
    if (now["state"] == "arriving") seen.push_back(now["bytes_left"].get<std::uint64_t>());
    return now["state"] == "done";
  }));
  // It falls, from about all of it, and ends at nothing.
  std::erase(seen, estimate);  // Until the target has said something.
  ASSERT_GT(seen.size(), 5u);
  EXPECT_LE(seen.front(), kBytes * 5 / 4);
  EXPECT_TRUE(std::ranges::is_sorted(seen, std::ranges::greater())) << ::testing::PrintToString(seen);
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_GE(seen.size(), 4u);
  EXPECT_LT(seen.back(), kBytes / 2);
  EXPECT_EQ(job(0)["bytes_left"], 0u);
  const ProgramRun listed = run_program({YONDER, "jobs", "--admin", members_[1].admin_place});
  EXPECT_NE(listed.output.find("done"), std::string::npos) << listed.output;
  EXPECT_EQ(client.ask("get k0\r\n", "END\r\n").size(),
            value.size() + std::string("VALUE k0 0 524288\r\n\r\nEND\r\n").size());
}

TEST_P(ClusterTest, FailsAJobWhoseServerDiesAndLetsThePartitionMoveAgain) {
  start(2);
  ASSERT_EQ(migrate(0, 4, 1), 200);
  ASSERT_TRUE(eventually([&] { return owner_of(4) == 1; }));
  httplib::Client& admin = *members_[0].admin;
  ASSERT_EQ(admin.Post("/api/v1/pause")->status, 200);
  ASSERT_EQ(admin.Post("/api/v1/migrate?wait=0&partition=4&to=" + members_[0].place)->status, 200);
  ASSERT_TRUE(members_[1].server->child().kill(SIGKILL));
  EXPECT_TRUE(eventually(
      [&] { return Json::parse(admin.Get("/api/v1/jobs")->body)["jobs"].at(1)["state"] == "failed"; }));
}

TEST_P(ClusterTest, RebalancesAfterAServerJoinedAndThenLeavesItAtThat) {
  start(2);
  RawClient client = members_[0].server->connect();
  for (int i = 0; i < 400; ++i) {
    ASSERT_EQ(client.ask("set k" + std::to_string(i) + " 0 0 3\r\nabc\r\n"), "STORED\r\n");
    client.ask("get k" + std::to_string(i) + "\r\n", "END\r\n");
  }
  httplib::Client& admin = *members_[0].admin;
  // Loads are reported once a second.
  EXPECT_TRUE(eventually(
      [&] { return admin.Get("/api/v1/rebalance")->body.find("\"partition\"") != std::string::npos; }));
  EXPECT_EQ(admin.Get("/api/v1/jobs")->body, "{\"jobs\":[]}\n");  // That was a dry run.
  const auto count = [&] {
    int there = 0;
    for (int partition = 0; partition < kPartitions; ++partition) there += owner_of(partition) == 1 ? 1 : 0;
    return there;
  };
  // Four at a time, until there is nothing to gain.
  EXPECT_TRUE(eventually([&] {
    const std::string body = admin.Post("/api/v1/rebalance")->body;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return body == "{\"jobs\":[]}\n";
  }));
  EXPECT_GE(count(), 4);
  EXPECT_LE(count(), 12);
  for (int i = 0; i < 400; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_EQ(client.ask("get " + key + "\r\n", "END\r\n"), "VALUE " + key + " 0 3\r\nabc\r\nEND\r\n");
  }
}

TEST_P(ClusterTest, IsMovedByTheCommandLine) {
  start(2);
  const std::string& admin = members_[1].admin_place;
  const ProgramRun moved =
      run_program({YONDER, "migrate", "partition", "5", "--to", members_[1].place, "--admin", admin});
  EXPECT_TRUE(moved.status.success()) << moved.output;
  EXPECT_TRUE(eventually([&] { return owner_of(5) == 1; }));
  // The target has said so within the next 50 ms.
  std::string listed;
  EXPECT_TRUE(eventually([&] {
    listed = run_program({YONDER, "jobs", "--admin", admin}).output;
    return listed.find("partition 5 ") != std::string::npos && listed.find("done") != std::string::npos;
  })) << listed;
  EXPECT_TRUE(run_program({YONDER, "rebalance", "--admin", admin}).status.success());
  const auto refusal = [&](const std::string& partition, const std::string& to, const std::string& place) {
    const ProgramRun refused =
        run_program({YONDER, "migrate", "partition", partition, "--to", to, "--admin", place});
    EXPECT_FALSE(refused.status.success());
    return refused.output;
  };
  EXPECT_NE(refusal("5", "1.2.3.4:5", admin).find(members_[0].place), std::string::npos)
      << "says who there is";
  EXPECT_NE(refusal("99", members_[1].place, admin).find("from 0 to 15"), std::string::npos);
  EXPECT_NE(refusal("5", members_[1].place, admin).find("is at " + members_[1].place + " already"),
            std::string::npos);
  EXPECT_NE(refusal("5", members_[1].place, "127.0.0.1:1").find("--admin"), std::string::npos);
}

TEST_P(ClusterTest, RefusesWhatMakesNoSense) {
  start(2);
  EXPECT_EQ(migrate(0, 9999, 1), 409);
  EXPECT_EQ(migrate(1, 0, 0), 409);  // It is there.
  const auto nowhere = members_[0].admin->Post("/api/v1/migrate?partition=0&to=10.9.9.9:1");
  ASSERT_TRUE(nowhere);
  EXPECT_EQ(nowhere->status, 404);
  const auto empty = members_[0].admin->Post("/api/v1/migrate");
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->status, 400);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ClusterTest, ::testing::Values("shm", "tcp"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace yonder::e2e
