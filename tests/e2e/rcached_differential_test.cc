// rcached answers as Debian's memcached does: the same random stream of commands, good and
// bad, goes to both, and every byte of the replies is compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "tests/e2e/cache_commands.h"
#include "tests/e2e/cache_servers.h"
#include "yonder/base/prng.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::e2e {
namespace {

std::string printable(std::string_view bytes) {
  std::string out;
  for (const char c : bytes.substr(0, 300)) {
    if (c >= ' ' && c < '\x7f') {
      out += c;
    } else {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(c));
      out += hex;
    }
  }
  return out;
}

// Both servers, and one client of each.
class Twins {
 public:
  // `flags` are for both.
  explicit Twins(const std::vector<std::string>& flags = {})
      // Without the threads that look after memcached's lists: while they hold an item, incr and
      // decr replace it instead of padding the number with spaces.
      : memcached_("memcached", directory_.file("memcached.sock"),
                   joined({"-t", "1", "-o", "no_lru_maintainer,no_lru_crawler"}, flags)),
        rcached_(RCACHED, directory_.file("rcached.sock"), joined({"-t", "1"}, flags)),
        first_(memcached_.connect()),
        second_(rcached_.connect()) {}

  // Sends the command to both and compares. False: they differ.
  bool compare(const TwinCommand& command) {
    // Bytes that a damaged command may take for its value, whatever it was.
    std::string padding;
    if (command.padded) {
      for (int i = 0; i < 40; ++i) padding += "mn\r\n";
    }
    const std::string name = "!mark" + std::to_string(++marks_);
    const std::string mark = padding + "mg " + name + " k\r\n";
    const std::string end = "EN k" + name + "\r\n";
    first_.send(command.first + mark);
    second_.send(command.second + mark);
    const Duration patience = command.padded ? std::chrono::milliseconds(1500) : kPatience;
    std::string a = first_.read_until(end, patience);
    std::string b = second_.read_until(end, patience);
    const bool whole = a.ends_with(end) && b.ends_with(end);
    if (!whole && !a.ends_with(end) && !b.ends_with(end) && !first_.closed()) {
      // Both wait for the rest of a value. memcached holds back what it says until it has that.
      a.resize(std::min(a.size(), b.size()));
      b.resize(a.size());
    }
    std::string why;
    const bool same = same_reply(command.key, a, b, cas_, why) && first_.closed() == second_.closed();
    if (!same) {
      ADD_FAILURE() << "command: " << printable(command.first) << "\n  " << printable(why) << "\n  memcached "
                    << (first_.closed() ? "closed: " : "said: ") << printable(a) << "\n  rcached   "
                    << (second_.closed() ? "closed: " : "said: ") << printable(b);
    }
    // Somebody waits for the rest of a value that will not come, or has hung up.
    if (!whole) reconnect();
    return same;
  }
  const CasTwins& cas() const { return cas_; }
  RawClient& memcached() { return first_; }
  RawClient& rcached() { return second_; }

 private:
  void reconnect() {
    first_ = memcached_.connect();
    second_ = rcached_.connect();
  }

  static std::vector<std::string> joined(std::vector<std::string> first,
                                         const std::vector<std::string>& then) {
    first.insert(first.end(), then.begin(), then.end());
    return first;
  }

  CacheDirectory directory_;
  CacheServer memcached_;
  CacheServer rcached_;
  RawClient first_;
  RawClient second_;
  CasTwins cas_;
  std::uint64_t marks_ = 0;
};

TEST(RcachedDifferential, AnswersRandomCommandsAsMemcachedDoes) {
  Twins twins;
  CommandSource source(testing::test_seed(), twins.cas());
  const std::uint64_t commands = testing::scaled(6000) * testing::test_effort();
  for (std::uint64_t i = 0; i < commands; ++i) {
    ASSERT_TRUE(twins.compare(i % 10 == 0 ? source.batch() : source.next())) << "after " << i << " commands";
  }
}

TEST(RcachedDifferential, AnswersCommandsThatComeInPieces) {
  Twins twins;
  Prng prng(testing::test_seed());
  CommandSource source(prng(), twins.cas());
  for (std::uint64_t i = 0; i < testing::scaled(300u); ++i) {
    const TwinCommand whole = source.batch();
    std::string_view rest = whole.first;
    while (!rest.empty()) {
      const std::size_t bytes = std::min<std::size_t>(rest.size(), 1 + prng.below(200));
      twins.memcached().send(rest.substr(0, bytes));
      twins.rcached().send(rest.substr(0, bytes));
      rest.remove_prefix(bytes);
    }
    ASSERT_TRUE(twins.compare({.key = whole.key}));
  }
}

TEST(RcachedDifferential, HidesCasNumbersAsMemcachedDoes) {
  Twins twins({"-C"});
  const auto both = [&](const std::string& text) {
    return twins.compare({.first = text, .second = text, .key = "k"});
  };
  for (const char* text :
       {"set k 0 0 1\r\n1\r\n", "gets k\r\n", "cas k 0 0 1 1\r\n2\r\n", "cas k 0 0 1 0\r\n2\r\n",
        "cas none 0 0 1 1\r\n2\r\n", "mg k c v\r\n", "ms k 1 c\r\n3\r\n", "ms k 1 C5\r\n4\r\n",
        "ms k 1 I C5\r\n4\r\n", "ms k 1 MA C5\r\n4\r\n", "ma k c\r\n", "ma k C7\r\n", "md k C3\r\n",
        "md k C0\r\n", "get k\r\n", "md none C3\r\n"}) {
    EXPECT_TRUE(both(text)) << text;
  }
  EXPECT_EQ(twins.rcached().ask("set k 0 0 1\r\n1\r\n"), "STORED\r\n");
  EXPECT_EQ(twins.rcached().ask("gets k\r\n", "END\r\n"), "VALUE k 0 1 0\r\n1\r\nEND\r\n");
  EXPECT_EQ(twins.rcached().ask("flush_all\r\n"), "OK\r\n");
  EXPECT_EQ(twins.rcached().ask("get k\r\n"), "END\r\n");
}

// The lines "STAT name value" of a report.
std::map<std::string, std::string> report(RawClient& client, const std::string& name) {
  std::map<std::string, std::string> values;
  std::istringstream lines(client.ask("stats" + name + "\r\n", "END\r\n"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string stat;
    std::string key;
    std::string value;
    if (words >> stat >> key >> value && stat == "STAT") values[key] = value;
  }
  return values;
}

TEST(RcachedDifferential, ReportsWhatMemcachedReports) {
  Twins twins;
  for (RawClient* client : {&twins.memcached(), &twins.rcached()})
    ASSERT_EQ(client->ask("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
  // What describes things that are not here.
  const std::map<std::string, std::vector<std::string>> without = {
      {"", {"libevent"}},
      {" items", {}},
      {" slabs",
       {"1:chunk_size", "1:chunks_per_page", "1:total_pages", "1:total_chunks", "1:free_chunks",
        "1:free_chunks_end"}},
      {" settings",
       {"oldest",
        "growth_factor",
        "chunk_size",
        "num_threads_per_udp",
        "reqs_per_event",
        "hashpower_init",
        "slab_automove_ratio",
        "slab_automove_window",
        "slab_chunk_max",
        "temporary_ttl",
        "watcher_logbuf_size",
        "worker_logbuf_size",
        "memory_file",
        "num_napi_ids",
        "ssl_keyformat",
        "ssl_wbuf_size",
        "ssl_kernel_tls",
        "ssl_chain_cert",
        "ssl_key",
        "ssl_verify_mode",
        "ssl_ciphers",
        "ssl_ca_cert",
        "ssl_session_cache",
        "ssl_min_version",
        "read_buf_mem_limit",
        "slab_automove_freeratio",
        "ext_item_size",
        "ext_item_age",
        "ext_low_ttl",
        "ext_recache_rate",
        "ext_wbuf_size",
        "ext_compact_under",
        "ext_drop_under",
        "ext_max_sleep",
        "ext_max_frag",
        "ext_drop_unread"}}};
  for (const auto& [name, missing] : without) {
    const auto ours = report(twins.rcached(), name);
    for (const auto& [key, value] : report(twins.memcached(), name)) {
      const bool expected = std::ranges::find(missing, key) == missing.end();
      EXPECT_EQ(ours.contains(key), expected) << "stats" << name << ": " << key;
    }
  }
}

TEST(RcachedDifferential, CountsAsMemcachedDoes) {
  Twins twins;
  const auto both = [&](const std::string& text) {
    return twins.compare({.first = text, .second = text, .key = "k"});
  };
  for (const char* text : {"set short 0 1 1\r\nx\r\n",
                           "set flushed 0 0 1\r\nx\r\n",
                           "flush_all\r\n",
                           "get flushed\r\n",
                           "set k 0 0 1\r\n5\r\n",
                           "set gone 0 -1 1\r\nx\r\n",
                           "get gone k\r\n",
                           "mg k v\r\n",
                           "mg none v\r\n",
                           "mg k T30\r\n",
                           "incr k 2\r\n",
                           "decr k 1\r\n",
                           "incr none 1\r\n",
                           "decr none 1\r\n",
                           "touch k 30\r\n",
                           "touch none 1\r\n",
                           "gat 30 k none\r\n",
                           "cas k 0 0 1 999999\r\n1\r\n",
                           "cas none 0 0 1 9\r\n1\r\n",
                           "append k 0 0 1\r\n1\r\n",
                           "add k 0 0 1\r\n1\r\n",
                           "delete k\r\n",
                           "delete k\r\n",
                           "md k\r\n",
                           "me k\r\n",
                           "ms m 1\r\n7\r\n",
                           "ma m\r\n",
                           "ma none\r\n",
                           "md m q\r\n",
                           "delete none noreply\r\n"}) {
    EXPECT_TRUE(both(text)) << text;
  }
  const auto first = report(twins.memcached(), "");
  const auto second = report(twins.rcached(), "");
  for (const char* key : {"cmd_get",     "cmd_set",        "cmd_flush",       "cmd_touch",
                          "cmd_meta",    "get_hits",       "get_misses",      "get_expired",
                          "get_flushed", "delete_hits",    "delete_misses",   "incr_hits",
                          "incr_misses", "decr_hits",      "decr_misses",     "cas_hits",
                          "cas_misses",  "cas_badval",     "touch_hits",      "touch_misses",
                          "total_items", "evictions",      "accepting_conns", "rejected_connections",
                          "threads",     "max_connections"}) {
    EXPECT_EQ(second.at(key), first.at(key)) << key;
  }
}

TEST(RcachedDifferential, RefusesWhatIsTooLargeAsMemcachedDoes) {
  Twins twins;
  const auto both = [&](const std::string& text) {
    return twins.compare({.first = text, .second = text, .key = "big"});
  };
  // 1 MiB less what memcached adds: header 48, CAS 8, key 3 + 1, line end 2.
  constexpr std::size_t kLargest = (1 << 20) - 48 - 8 - 4 - 2;
  for (const std::size_t bytes : {kLargest, kLargest + 1, std::size_t{1} << 20, std::size_t{3} << 20}) {
    const std::string data(bytes, 'd');
    EXPECT_TRUE(both("set big 0 0 " + std::to_string(bytes) + "\r\n" + data + "\r\n"));
    EXPECT_TRUE(both("get big\r\n"));
    EXPECT_TRUE(both("ms big " + std::to_string(bytes) + " c\r\n" + data + "\r\n"));
    EXPECT_TRUE(both("mg big s v\r\n"));
    EXPECT_TRUE(both("append big 0 0 1\r\nx\r\n"));
    EXPECT_TRUE(both("add other 0 0 " + std::to_string(bytes) + " noreply\r\n" + data + "\r\n"));
    EXPECT_TRUE(both("incr big 1\r\n"));
  }
}

TEST(RcachedDifferential, ClosesOnEndlessLinesAsMemcachedDoes) {
  struct Line {
    std::size_t spaces;
    std::string_view command;
    std::size_t letters;
  };
  for (const Line& shape :
       {Line{0, "", 2048}, Line{0, "", 2049}, Line{0, "get ", 3000}, Line{0, "gets ", 3000},
        Line{0, "gat 1 ", 3000}, Line{0, "mg ", 3000}, Line{100, "get ", 3000}, Line{101, "get ", 3000}}) {
    std::string line(shape.spaces, ' ');
    line.append(shape.command).append(shape.letters, 'a');
    Twins twins;
    twins.memcached().send(line);
    twins.rcached().send(line);
    twins.memcached().read_to_end(std::chrono::milliseconds(200));
    twins.rcached().read_to_end(std::chrono::milliseconds(200));
    EXPECT_EQ(twins.memcached().closed(), twins.rcached().closed()) << printable(line);
  }
}

TEST(RcachedDifferential, ManyKeysInOneLine) {
  Twins twins;
  std::string line = "get";
  for (int i = 0; i < 5000; ++i) line += " key" + std::to_string(i % 300);
  for (int i = 0; i < 300; i += 3) {
    const std::string text = "set key" + std::to_string(i) + " 0 0 2\r\nab\r\n";
    ASSERT_TRUE(twins.compare({.first = text, .second = text}));
  }
  line += "\r\n";
  EXPECT_TRUE(twins.compare({.first = line, .second = line}));
  const std::string bad = "get key0 " + std::string(251, 'x') + " key3\r\n";
  EXPECT_TRUE(twins.compare({.first = bad, .second = bad}));
}

// What expires, and what a delayed flush_all takes, at the same second give or take one.
TEST(RcachedDifferential, TimeTakesTheSameItems) {
  Twins twins;
  const auto both = [&](const std::string& text) {
    return twins.compare({.first = text, .second = text, .key = "k"});
  };
  EXPECT_TRUE(both("set short 0 1 1\r\nx\r\n"));
  EXPECT_TRUE(both("set long 0 100 1\r\nx\r\n"));
  EXPECT_TRUE(both("mg viv N1 v\r\n"));
  std::this_thread::sleep_for(std::chrono::milliseconds(2600));
  EXPECT_TRUE(both("get short long viv\r\n"));
  EXPECT_TRUE(both("add short 0 0 1\r\ny\r\n"));
  EXPECT_TRUE(both("flush_all 2\r\n"));
  EXPECT_TRUE(both("get short long\r\n"));
  std::this_thread::sleep_for(std::chrono::milliseconds(3600));
  EXPECT_TRUE(both("get short long\r\n"));
  EXPECT_TRUE(both("set short 0 0 1\r\nz\r\n"));
  EXPECT_TRUE(both("get short long\r\n"));
}

}  // namespace
}  // namespace yonder::e2e
