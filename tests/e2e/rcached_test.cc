// rcached as a process: its options, how it starts and how it ends.
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/e2e/cache_servers.h"

namespace yonder::e2e {
namespace {

TEST(Rcached, ServesOnAUnixSocketWithTheModeItWasTold) {
  const CacheDirectory directory;
  const std::string path = directory.file("cache.sock");
  const CacheServer server(RCACHED, path, {"-a", "750"});
  RawClient client = server.connect();
  EXPECT_EQ(client.ask("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0750u);
}

TEST(Rcached, SaysWhereItListensAndStopsOnSigterm) {
  CacheServer server(RCACHED, free_port());
  RawClient client = server.connect();
  EXPECT_EQ(client.ask("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
  ASSERT_TRUE(server.child().kill(SIGTERM));
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_TRUE(client.closed());
  EXPECT_TRUE(server.child().wait(within(kPatience)).value().success());
}

TEST(Rcached, AnswersWhatWasSentBeforeItWasStopped) {
  CacheServer server(RCACHED, free_port());
  RawClient client = server.connect();
  std::string commands;
  for (int i = 0; i < 2000; ++i) commands += "set k" + std::to_string(i) + " 0 0 1\r\nx\r\n";
  client.send(commands);
  EXPECT_EQ(client.read_until("STORED\r\n"), "STORED\r\n");
  ASSERT_TRUE(server.child().kill(SIGTERM));
  const std::string rest = client.read_to_end();
  EXPECT_EQ(rest.size() % std::string_view("STORED\r\n").size(), 0u) << "no reply is cut";
  EXPECT_TRUE(server.child().wait(within(kPatience)).value().success());
}

TEST(Rcached, StartsAgainAfterItWasKilled) {
  const CacheDirectory directory;
  const std::string path = directory.file("cache.sock");
  {
    CacheServer server(RCACHED, path);
    RawClient client = server.connect();
    EXPECT_EQ(client.ask("mn\r\n"), "MN\r\n");
    ASSERT_TRUE(server.child().kill(SIGKILL));
    ASSERT_TRUE(server.child().wait(within(kPatience)));
    client.read_to_end();
    EXPECT_TRUE(client.closed());
  }
  EXPECT_TRUE(std::filesystem::exists(path)) << "a killed server leaves its socket behind";
  const CacheServer again(RCACHED, path);
  EXPECT_EQ(again.connect().ask("get a\r\n"), "END\r\n");
}

TEST(Rcached, ShutsDownByCommandWhereThatIsAllowed) {
  CacheServer closed(RCACHED, free_port());
  EXPECT_EQ(closed.connect().ask("shutdown\r\n"), "ERROR: shutdown not enabled\r\n");
  for (const char* command : {"shutdown\r\n", "shutdown graceful\r\n"}) {
    CacheServer server(RCACHED, free_port(), {"-A"});
    RawClient client = server.connect();
    client.send(command);
    EXPECT_EQ(client.read_to_end(), "");
    EXPECT_TRUE(server.child().wait(within(kPatience)).value().success());
  }
}

TEST(Rcached, LimitsConnections) {
  const CacheServer server(RCACHED, free_port(), {"-c", "3"});
  // The test's own probe may still be counted.
  std::vector<RawClient> clients;
  std::string refusal;
  for (int i = 0; i < 20 && refusal.empty(); ++i) {
    clients.push_back(server.connect());
    clients.back().send("mn\r\n");
    const std::string reply = clients.back().read_until("\r\n");
    if (reply != "MN\r\n") refusal = reply;
  }
  EXPECT_EQ(refusal, "ERROR Too many open connections\r\n");
  EXPECT_LE(clients.size(), 4u);
}

TEST(Rcached, RefusesWritesInsteadOfEvictingIfToldSo) {
  const CacheServer server(RCACHED, free_port(), {"-M", "-m", "8", "-I", "512k"});
  RawClient client = server.connect();
  const std::string value(100000, 'v');
  std::string reply = "STORED\r\n";
  int stored = 0;
  for (; stored < 200 && reply == "STORED\r\n"; ++stored) {
    reply = client.ask("set k" + std::to_string(stored) + " 0 0 100000\r\n" + value + "\r\n");
  }
  EXPECT_EQ(reply, "SERVER_ERROR out of memory storing object\r\n");
  EXPECT_GT(stored, 20);
  EXPECT_NE(client.ask("get k0\r\n", "END\r\n"), "END\r\n");
}

TEST(Rcached, AsksForAPassword) {
  const CacheDirectory directory;
  std::ofstream(directory.file("users")) << "me:secret\n";
  const CacheServer server(RCACHED, free_port(), {"-Y", directory.file("users")});
  RawClient client = server.connect();
  EXPECT_EQ(client.ask("get a\r\n"), "CLIENT_ERROR unauthenticated\r\n");
  EXPECT_EQ(client.ask("set x 0 0 9\r\nme secret\r\n"), "STORED\r\n");
  EXPECT_EQ(client.ask("get a\r\n"), "END\r\n");
}

TEST(Rcached, SpeaksTlsWithWhomItTrusts) {
  const CacheDirectory directory;
  const auto [certificate, key] = make_certificate(directory);
  const os::SocketAddress port = free_port();
  const CacheServer server(RCACHED, port, {"-Z", "-o", "ssl_chain_cert=" + certificate + ",ssl_key=" + key});
  const auto talk = [&](const std::string& more) {
    return run_program({"sh", "-c",
                        "(printf 'set a 0 0 100000\\r\\n'; head -c 100000 /dev/zero | tr '\\0' v; "
                        "printf '\\r\\nmg a s\\r\\nrefresh_certs\\r\\nquit\\r\\n'; sleep 2) | openssl "
                        "s_client -quiet -connect 127.0.0.1:" +
                            server.port() + " -CAfile " + certificate + " -verify_return_error " + more});
  };
  EXPECT_NE(talk("-tls1_3").output.find("STORED\r\nHD s100000\r\nOK\r\n"), std::string::npos)
      << talk("-tls1_3").output;
  EXPECT_NE(talk("-tls1_2").output.find("STORED\r\nHD s100000\r\nOK\r\n"), std::string::npos);
  EXPECT_EQ(talk("-tls1_1").output.find("STORED"), std::string::npos) << "older versions are refused";
  // A client that does not speak TLS gets nothing.
  RawClient plain = server.connect();
  plain.send("version\r\n\r\n");
  EXPECT_EQ(plain.read_to_end().find("VERSION"), std::string::npos);
}

TEST(Rcached, HasAnAdminEndpoint) {
  const int port = free_port().port();
  const CacheServer server(RCACHED, free_port(), {"--admin", "127.0.0.1:" + std::to_string(port)});
  server.connect().ask("set a 0 0 1\r\nx\r\n");
  httplib::Client http("127.0.0.1", port);
  // It opens after the port of the clients, which is what the server was waited for.
  auto health = http.Get("/health");
  for (const Instant give_up = os::SteadyClock::read() + kPatience;
       !health && os::SteadyClock::read() < give_up;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    health = http.Get("/health");
  }
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 200);
  const auto metrics = http.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_NE(metrics->body.find("yonder_cache_items 1\n"), std::string::npos) << metrics->body;
  EXPECT_NE(metrics->body.find("yonder_cache_sets_total 1\n"), std::string::npos);
}

TEST(Rcached, RefusesOptionsItCannotKeep) {
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{{"-U", "11211"},
                                                                                     {"-B", "binary"},
                                                                                     {"-S"},
                                                                                     {"-e", "/x"},
                                                                                     {"-m", "x"},
                                                                                     {"-t", "0"},
                                                                                     {"-I", "2g"},
                                                                                     {"-Z"},
                                                                                     {"-p", "0"},
                                                                                     {"-o", "bogus=1"},
                                                                                     {"--bogus"},
                                                                                     {"extra"},
                                                                                     {"-c"},
                                                                                     {"--partitions", "100"},
                                                                                     {"-a", "9"}}) {
    std::vector<std::string> argv = {RCACHED};
    argv.insert(argv.end(), flags.begin(), flags.end());
    const ProgramRun run = run_program(argv);
    EXPECT_EQ(run.status.value, 64) << flags.front();
    EXPECT_TRUE(run.output.starts_with("rcached: ")) << run.output;
  }
  EXPECT_TRUE(run_program({RCACHED, "-h"}).status.success());
  EXPECT_TRUE(run_program({RCACHED, "-V"}).output.starts_with("rcached "));
}

TEST(Rcached, TakesMemcachedsOptions) {
  const CacheDirectory directory;
  const CacheServer server(RCACHED, free_port(),
                           {"-m",  "16",
                            "-t",  "2",
                            "-vv", "-U",
                            "0",   "-I",
                            "2m",  "-k",
                            "-f",  "1.5",
                            "-n",  "32",
                            "-R",  "50",
                            "-b",  "100",
                            "-B",  "ascii",
                            "-F",  "-X",
                            "-D",  "/",
                            "-P",  directory.file("pid"),
                            "-o",  "modern,hashpower=20,idle_timeout=600,no_lru_crawler"});
  RawClient client = server.connect();
  EXPECT_EQ(client.ask("flush_all\r\n"), "CLIENT_ERROR flush_all not allowed\r\n");
  EXPECT_EQ(client.ask("stats cachedump 1 1\r\n"), "CLIENT_ERROR stats cachedump not allowed\r\n");
  const std::string settings = client.ask("stats settings\r\n", "END\r\n");
  for (const char* line :
       {"STAT maxbytes 16777216\r\n", "STAT item_size_max 2097152\r\n", "STAT num_threads 2\r\n",
        "STAT idle_timeout 600\r\n", "STAT lru_crawler no\r\n", "STAT detail_enabled yes\r\n"}) {
    EXPECT_NE(settings.find(line), std::string::npos) << line;
  }
  std::string pid;
  std::getline(std::ifstream(directory.file("pid")) >> std::ws, pid);
  EXPECT_FALSE(pid.empty());
}

}  // namespace
}  // namespace yonder::e2e
