// Other people's clients talk to rcached and notice nothing.
#include <gtest/gtest.h>

#include "tests/e2e/cache_servers.h"
#include "yonder/testing/sanitizer.h"

namespace yonder::e2e {
namespace {

TEST(RcachedClients, MemccapableFindsEveryAsciiCommandInOrder) {
  const CacheServer server(RCACHED, free_port());
  const ProgramRun run = run_program({"memccapable", "-h", "127.0.0.1", "-p", server.port(), "-a"});
  EXPECT_TRUE(run.status.success()) << run.output;
  EXPECT_NE(run.output.find("All tests passed"), std::string::npos) << run.output;
}

TEST(RcachedClients, LibmemcachedProgram) {
  const CacheServer server(RCACHED, free_port());
  const ProgramRun run = run_program({LIBMEMCACHED_CLIENT, "127.0.0.1", server.port()});
  EXPECT_EQ(run.output, "ok\n");
}

TEST(RcachedClients, PymemcacheProgram) {
  const CacheServer server(RCACHED, free_port());
  const ProgramRun run = run_program({"/usr/bin/python3", PYMEMCACHE_CLIENT, "127.0.0.1", server.port()});
  EXPECT_EQ(run.output, "ok\n");
}

TEST(RcachedClients, MemcslapLoad) {
  const CacheServer server(RCACHED, free_port());
  for (const char* test : {"--test=set", "--test=get", "--test=mget"}) {
    const ProgramRun run = run_program({"memcslap", "--servers=127.0.0.1:" + server.port(), "--concurrency=4",
                                        "--execute-number=" + std::to_string(testing::scaled(2000)),
                                        "--initial-load=2000", test});
    EXPECT_TRUE(run.status.success()) << run.output;
  }
}

// Checks what it reads against what it wrote (-v), over several connections.
TEST(RcachedClients, MemcaslapLoadFindsNoWrongValue) {
  const CacheServer server(RCACHED, free_port());
  const ProgramRun run = run_program({"memcaslap", "-s", "127.0.0.1:" + server.port(), "-T", "2", "-c", "16",
                                      "-x", std::to_string(testing::scaled(60000)), "-v", "0.5"});
  EXPECT_TRUE(run.status.success()) << run.output;
  EXPECT_NE(run.output.find("verify_failed: 0"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("verify_misses: 0"), std::string::npos) << run.output;
}

}  // namespace
}  // namespace yonder::e2e
