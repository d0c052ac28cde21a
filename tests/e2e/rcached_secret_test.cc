// A cluster of rcached processes with a key: servers prove it to each other, and nobody else
// can pretend to be one; clients use what they are told to (nothing, passwords, TLS).

#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/cache_servers.h"

namespace yonder::e2e {
namespace {

constexpr const char* kKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
constexpr const char* kOtherKey = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

class ClusterKeyTest : public ::testing::Test {
 protected:
  std::string key_file(const std::string& name, const std::string& text) {
    const std::string path = directory_.file(name);
    std::ofstream(path) << text << '\n';
    EXPECT_EQ(::chmod(path.c_str(), 0600), 0);
    return path;
  }

  std::vector<std::string> arguments(bool first, std::vector<std::string> further) const {
    std::vector<std::string> out = {"--partitions=8", (first ? "--cluster=" : "--join=") + place_,
                                    "--agent=tcp://127.0.0.1:0"};
    out.insert(out.end(), further.begin(), further.end());
    return out;
  }

  // Two servers; the first has all partitions.
  void start(const std::vector<std::string>& further) {
    for (const bool first : {true, false}) {
      const int admin = free_port().port();
      std::vector<std::string> all = further;
      all.push_back("--admin=127.0.0.1:" + std::to_string(admin));
      servers_.push_back(std::make_unique<CacheServer>(RCACHED, free_port(), arguments(first, all)));
      admins_.push_back(std::make_unique<httplib::Client>("127.0.0.1", admin));
      admins_.back()->set_read_timeout(kPatience);
      ASSERT_TRUE(eventually([&] {
        const auto answer = admins_.back()->Get("/health");
        return answer && answer->status == 200;
      }));
    }
  }

  int migrate(int partition, std::size_t to) {
    const auto answer = admins_[0]->Post("/api/v1/migrate?partition=" + std::to_string(partition) +
                                         "&to=127.0.0.1:" + servers_[to]->port());
    return answer ? answer->status : -1;
  }

  // Keys of every partition, stored through one server and read through the other.
  void expect_all_keys_work(RawClient& writer, RawClient& reader, const std::string& value) {
    for (int i = 0; i < 64; ++i) {
      const std::string key = "key" + std::to_string(i);
      const std::string length = std::to_string(value.size());
      ASSERT_EQ(writer.ask("set " + key + " 0 0 " + length + "\r\n" + value + "\r\n"), "STORED\r\n");
      ASSERT_EQ(reader.ask("get " + key + "\r\n", "END\r\n"),
                "VALUE " + key + " 0 " + length + "\r\n" + value + "\r\nEND\r\n");
    }
  }

  const CacheDirectory directory_;
  const std::string place_ = "tcp://127.0.0.1:" + std::to_string(free_port().port());
  std::vector<std::unique_ptr<CacheServer>> servers_;
  std::vector<std::unique_ptr<httplib::Client>> admins_;
};

TEST_F(ClusterKeyTest, ServersForwardAndMovePartitionsUnderIt) {
  start({"--cluster-key=" + key_file("key", kKey)});
  RawClient first = servers_[0]->connect();
  RawClient second = servers_[1]->connect();
  expect_all_keys_work(second, first, "before");
  // Longer than a TLS record: an answer that comes in several.
  expect_all_keys_work(second, first, std::string(50'000, 'v'));
  for (int partition = 0; partition < 4; ++partition) EXPECT_EQ(migrate(partition, 1), 200);
  for (int i = 0; i < 64; ++i) {
    const std::string get = "get key" + std::to_string(i) + "\r\n";
    EXPECT_EQ(first.ask(get, "END\r\n").size(), second.ask(get, "END\r\n").size());
    EXPECT_GT(second.ask(get, "END\r\n").size(), 50'000u) << "lost in a move: " << get;
  }
  expect_all_keys_work(first, second, "after");
}

// Two hosts need not have the key at the same path.
TEST_F(ClusterKeyTest, ServersMayKeepItInDifferentFiles) {
  servers_.push_back(std::make_unique<CacheServer>(
      RCACHED, free_port(), arguments(true, {"--cluster-key=" + key_file("one", kKey)})));
  servers_.push_back(std::make_unique<CacheServer>(
      RCACHED, free_port(), arguments(false, {"--cluster-key=" + key_file("two", kKey)})));
  RawClient first = servers_[0]->connect();
  RawClient second = servers_[1]->connect();
  ASSERT_TRUE(eventually([&] { return second.ask("set a 0 0 1\r\nx\r\n") == "STORED\r\n"; }));
  expect_all_keys_work(second, first, "value");
}

TEST_F(ClusterKeyTest, WhoDoesNotHaveItCannotJoinNorSayThatItIsAServer) {
  start({"--cluster-key=" + key_file("key", kKey)});
  for (const std::string& further : {std::string("-v"), "--cluster-key=" + key_file("other", kOtherKey)}) {
    std::vector<std::string> argv = {RCACHED, "-l", "127.0.0.1", "-p", "-1", "-u", "root"};
    const std::vector<std::string> more = arguments(false, {further});
    argv.insert(argv.end(), more.begin(), more.end());
    const ProgramRun run = run_program(argv);
    EXPECT_EQ(run.status.value, 1) << run.output;
    EXPECT_EQ(run.output.find("ready"), std::string::npos) << run.output;
  }
  RawClient client = servers_[0]->connect();
  EXPECT_EQ(client.ask("yonder_peer\r\n"), "ERROR\r\n");
  EXPECT_EQ(client.ask("set a 0 0 1\r\nx\r\n"), "STORED\r\n") << "it is still a client";
  // A handshake without the key ends; the server does not.
  const ProgramRun shaken = run_program(
      {"sh", "-c", "echo version | openssl s_client -quiet -connect 127.0.0.1:" + servers_[0]->port()});
  EXPECT_EQ(shaken.output.find("VERSION"), std::string::npos) << shaken.output;
  EXPECT_EQ(servers_[0]->connect().ask("get a\r\n", "END\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
}

TEST_F(ClusterKeyTest, ServersNeedNoPasswordOfClients) {
  std::ofstream(directory_.file("users")) << "me:secret\n";
  start({"-Y", directory_.file("users"), "--cluster-key=" + key_file("key", kKey)});
  RawClient first = servers_[0]->connect();
  RawClient second = servers_[1]->connect();
  EXPECT_EQ(second.ask("get a\r\n"), "CLIENT_ERROR unauthenticated\r\n");
  for (RawClient* client : {&first, &second})
    EXPECT_EQ(client->ask("set x 0 0 9\r\nme secret\r\n"), "STORED\r\n");
  expect_all_keys_work(second, first, "value");
}

TEST_F(ClusterKeyTest, ServersNeedNoCertificateWhereClientsUseTls) {
  const auto [certificate, key] = make_certificate(directory_);
  start({"-Z", "-o", "ssl_chain_cert=" + certificate + ",ssl_key=" + key,
         "--cluster-key=" + key_file("key", kKey)});
  const auto talk = [&](std::size_t server, const std::string& commands) {
    return run_program({"sh", "-c",
                        "(printf '" + commands +
                            "quit\\r\\n'; sleep 2) | openssl s_client -quiet -connect "
                            "127.0.0.1:" +
                            servers_[server]->port() + " -CAfile " + certificate + " -verify_return_error"})
        .output;
  };
  std::string sets;
  std::string gets;
  std::string stored;
  for (int i = 0; i < 16; ++i) {
    sets += "set k" + std::to_string(i) + " 0 0 1\\r\\nx\\r\\n";
    gets += "mg k" + std::to_string(i) + " s\\r\\n";
    stored += "STORED\r\n";
  }
  const std::string said = talk(1, sets + gets);
  EXPECT_NE(said.find(stored + "HD s1\r\n"), std::string::npos) << said;
  // A client under TLS is a client still.
  EXPECT_NE(talk(0, "yonder_peer\\r\\n").find("ERROR\r\n"), std::string::npos);
}

TEST_F(ClusterKeyTest, IsAskedForAndLookedAt) {
  const auto run = [&](const std::vector<std::string>& further) {
    std::vector<std::string> argv = {RCACHED, "-l", "127.0.0.1", "-p", "-1", "-u", "root"};
    argv.insert(argv.end(), further.begin(), further.end());
    return run_program(argv);
  };
  std::ofstream(directory_.file("users")) << "me:secret\n";
  EXPECT_EQ(run(arguments(true, {"-Y", directory_.file("users")})).status.value, 64);
  EXPECT_EQ(run({"--cluster-key=" + key_file("key", kKey)}).status.value, 64) << "without a cluster";
  for (const std::string& wrong : {key_file("short", "0011"), key_file("text", std::string(64, 'x')),
                                   key_file("odd", std::string(kKey) + "1"), directory_.file("none")}) {
    EXPECT_EQ(run(arguments(true, {"--cluster-key=" + wrong})).status.value, 1) << wrong;
  }
  const std::string open = key_file("open", kKey);
  ASSERT_EQ(::chmod(open.c_str(), 0644), 0);
  const ProgramRun refused = run(arguments(true, {"--cluster-key=" + open}));
  EXPECT_EQ(refused.status.value, 1);
  EXPECT_NE(refused.output.find("every user may read"), std::string::npos) << refused.output;
}

}  // namespace
}  // namespace yonder::e2e
