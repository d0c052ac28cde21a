#include "yonder/cache/conversation.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "yonder/base/prng.h"
#include "yonder/cache/internal/test_service.h"
#include "yonder/testing/allocation_counter.h"
#include "yonder/testing/seed.h"

namespace yonder::cache {
namespace {

TEST(Conversation, StoresAndReads) {
  TestService test;
  Talk talk(test.service);
  EXPECT_EQ(talk.say("set a 5 0 3\r\none\r\n"), "STORED\r\n");
  EXPECT_EQ(talk.say("get a b\r\n"), "VALUE a 5 3\r\none\r\nEND\r\n");
  EXPECT_EQ(talk.say("gets a\r\n"), "VALUE a 5 3 1\r\none\r\nEND\r\n");
  EXPECT_EQ(talk.say("delete a\r\n"), "DELETED\r\n");
  EXPECT_EQ(talk.say("get a\r\n"), "END\r\n");
}

TEST(Conversation, AnswersACommandHoweverItIsCut) {
  const std::string text =
      "set a 0 0 5\r\nhello\r\nget a\r\nms b 3 c\r\nxyz\r\nmg b v\r\nincr a 1\r\nset n 0 0 1 "
      "noreply\r\n7\r\nincr n 3\r\n"
      "gat 0 a b n\r\nbogus\r\nset big 0 0 9000\r\n" +
      std::string(9000, 'b') + "\r\nmg big s\r\n";
  TestService once;
  const std::string expected = Talk(once.service).say(text);
  Prng prng(testing::test_seed());
  for (int i = 0; i < 200; ++i) {
    TestService test;
    Talk talk(test.service);
    std::string replies;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = std::min<std::size_t>(text.size() - at, 1 + prng.below(i < 5 ? 2 : 400));
      replies += talk.say(std::string_view(text).substr(at, bytes));
      at += bytes;
    }
    ASSERT_EQ(replies, expected);
  }
}

TEST(Conversation, SaysNothingToNoreplyAndErrorsToNoSet) {
  TestService test;
  Talk talk(test.service);
  EXPECT_EQ(talk.say("set a 0 0 1 noreply\r\nx\r\n"), "");
  EXPECT_EQ(talk.say("set a 0 0 1 noreply\r\nxy\r\n"), "ERROR\r\n");  // "\r\n" is left over.
  EXPECT_EQ(talk.say("delete a noreply\r\n"), "");
  EXPECT_EQ(talk.say("mn\r\n"), "MN\r\n");
}

TEST(Conversation, SwallowsTheValueOfAnItemThatIsTooLarge) {
  TestService test;
  Talk talk(test.service);
  EXPECT_EQ(talk.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
  EXPECT_EQ(talk.say("set a 0 0 2000000\r\n"), "SERVER_ERROR object too large for cache\r\n");
  EXPECT_EQ(talk.say(std::string(1000000, 'y')), "");
  EXPECT_EQ(talk.say(std::string(1000000, 'y')), "");
  EXPECT_EQ(talk.say("\r\nget a\r\n"), "END\r\n") << "the old value must not stay";
}

TEST(Conversation, ClosesOnALineWithoutEnd) {
  TestService test;
  Talk talk(test.service);
  EXPECT_EQ(talk.say(std::string(2048, 'a')), "");
  EXPECT_FALSE(talk.conversation().closed());
  talk.say("a");
  EXPECT_TRUE(talk.conversation().closed());
  Talk many(test.service);
  many.say("get " + std::string(200, 'k') + std::string(3000, ' '));
  EXPECT_TRUE(many.conversation().wants_long_line());
  EXPECT_EQ(many.say("x\r\n"), "END\r\n");
  Talk endless(test.service);
  endless.say("get " + std::string(Conversation::kMaxKeysLine, ' '));
  EXPECT_TRUE(endless.conversation().closed());
}

TEST(Conversation, StopsWhileItsRepliesAreNotTaken) {
  TestService test({.partitions = 4, .memory_bytes = 32 << 20});
  Talk talk(test.service);
  const std::string value(100000, 'v');
  EXPECT_EQ(talk.say("set a 0 0 100000\r\n" + value + "\r\n"), "STORED\r\n");
  std::string keys = "get";
  for (int i = 0; i < 100; ++i) keys += " a";
  const std::string command = keys + "\r\nversion\r\n";
  std::size_t used = talk.conversation().consume(command, talk.now());
  EXPECT_TRUE(talk.conversation().blocked());
  EXPECT_LT(talk.conversation().output().size(), Conversation::kMaxOutput + 2 * value.size());
  std::size_t values = 0;
  std::string all;
  for (int i = 0; i < 100 && used < command.size(); ++i) {
    all += talk.replies();
    used += talk.conversation().consume(std::string_view(command).substr(used), talk.now());
  }
  all += talk.replies();
  for (std::size_t at = all.find("VALUE a"); at != std::string::npos; at = all.find("VALUE a", at + 1))
    ++values;
  EXPECT_EQ(values, 100u);
  EXPECT_TRUE(all.ends_with("END\r\nVERSION 1.6.18\r\n"));
}

TEST(Conversation, AsksForAPasswordFirst) {
  char path[] = "/tmp/rcached-auth-XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  std::ofstream(path) << "eve:secret\nbob:hunter2\n";
  TestService test;
  test.service.set_auth(std::make_unique<AuthTokens>(AuthTokens::read(path).value()));
  ::close(fd);
  ::unlink(path);
  Talk talk(test.service);
  EXPECT_EQ(talk.say("get a\r\n"), "CLIENT_ERROR unauthenticated\r\n");
  EXPECT_EQ(talk.say("set x 0 0 9\r\neve wrong\r\n"), "CLIENT_ERROR authentication failure\r\n");
  EXPECT_EQ(talk.say("set x 0 0 3\r\neve\r\n"), "CLIENT_ERROR bad authentication token format\r\n");
  EXPECT_EQ(talk.say("set x 0 0 3\r\nevexx"), "CLIENT_ERROR bad command line termination\r\n");
  EXPECT_EQ(talk.say("set x 0 0 11\r\nbob hun"), "");
  EXPECT_EQ(talk.say("ter2\r\n"), "STORED\r\n");
  EXPECT_EQ(talk.say("get x\r\n"), "END\r\n") << "the token is not an item";
}

TEST(Conversation, QuitsAndShutsDownOnlyIfAllowed) {
  TestService test;
  Talk talk(test.service);
  EXPECT_EQ(talk.say("shutdown\r\n"), "ERROR: shutdown not enabled\r\n");
  EXPECT_EQ(talk.say("quit\r\n"), "");
  EXPECT_TRUE(talk.conversation().closed());
  TestService open({.partitions = 4, .memory_bytes = 8 << 20}, {.allow_shutdown = true});
  int stops = 0;
  bool graceful = false;
  open.service.set_hooks({.stop = [&](bool how) {
    ++stops;
    graceful = how;
  }});
  Talk other(open.service);
  EXPECT_EQ(other.say("shutdown now\r\n"), "CLIENT_ERROR invalid shutdown mode\r\n");
  other.say("shutdown graceful\r\n");
  EXPECT_EQ(stops, 1);
  EXPECT_TRUE(graceful);
}

TEST(Conversation, ReportsWhatItHolds) {
  TestService test;
  Talk talk(test.service);
  talk.say("set a 0 0 1\r\nx\r\nget a b\r\n");
  const std::string stats = talk.say("stats\r\n");
  for (const char* line :
       {"STAT curr_items 1\r\n", "STAT get_hits 1\r\n", "STAT get_misses 1\r\n", "STAT cmd_set 1\r\n",
        "STAT limit_maxbytes 8388608\r\n", "STAT version 1.6.18\r\n"}) {
    EXPECT_NE(stats.find(line), std::string::npos) << line;
  }
  EXPECT_TRUE(stats.ends_with("END\r\n"));
  const std::string partitions = talk.say("stats partitions\r\n");
  EXPECT_NE(partitions.find("STAT 0:owner local\r\n"), std::string::npos);
  EXPECT_NE(partitions.find("STAT 3:items "), std::string::npos);
  EXPECT_NE(talk.say("stats settings\r\n").find("STAT item_size_max 1048576\r\n"), std::string::npos);
  EXPECT_NE(talk.say("stats items\r\n").find(":number 1\r\n"), std::string::npos);
  EXPECT_EQ(talk.say("stats sizes\r\n"), "STAT 64 1\r\nEND\r\n");
  EXPECT_NE(talk.say("lru_crawler metadump all\r\n").find("key=a exp=-1 "), std::string::npos);
  EXPECT_EQ(talk.say("stats cachedump 1 0\r\n"), "ITEM a [1 b; 0 s]\r\nEND\r\n");
  EXPECT_EQ(talk.say("stats cachedump 2 0\r\n"), "END\r\n");
  EXPECT_EQ(talk.say("stats reset\r\n"), "RESET\r\n");
  EXPECT_NE(talk.say("stats\r\n").find("STAT get_hits 0\r\n"), std::string::npos);
}

TEST(Conversation, CountsByPrefix) {
  TestService test;
  Talk talk(test.service);
  EXPECT_EQ(talk.say("stats detail on\r\n"), "OK\r\n");
  talk.say("set foo:1 0 0 1\r\nx\r\nget foo:1 foo:2 :x plain\r\ndelete foo:1\r\n");
  EXPECT_EQ(talk.say("stats detail dump\r\n"), "PREFIX foo get 2 hit 1 set 1 del 1\r\nEND\r\n");
}

TEST(Conversation, AllocatesNothingForShortCommands) {
  TestService test;
  Talk talk(test.service);
  const std::string commands =
      "set some-key 1 0 20\r\n01234567890123456789\r\nget some-key\r\nmg some-key v f t k\r\n";
  Conversation& conversation = talk.conversation();
  const auto once = [&] {
    EXPECT_EQ(conversation.consume(commands, talk.now()), commands.size());
    conversation.output().consume(conversation.output().size());
  };
  once();
  const std::uint64_t before = testing::allocations();
  for (int i = 0; i < 100; ++i) once();
  EXPECT_EQ(testing::allocations(), before);
}

// ---------------------------------------------------------------- other servers

class Recorder final : public Forwarder {
 public:
  void forward(Conversation&, const Request& request) override { commands.emplace_back(request.command); }
  std::vector<std::string> commands;
};

TEST(Conversation, HandsOnCommandsForKeysThatAreElsewhere) {
  TestService test({.partitions = 4, .memory_bytes = 8 << 20, .own_all = false});
  Recorder recorder;
  Talk talk(test.service, &recorder);
  EXPECT_EQ(talk.say("set a 0 0 1\r\nx\r\nversion\r\n"), "") << "replies stay in order";
  ASSERT_EQ(recorder.commands.size(), 1u);
  EXPECT_EQ(recorder.commands[0], "set a 0 0 1\r\nx\r\n");
  talk.conversation().resume(0, "STORED\r\n");
  EXPECT_EQ(talk.say(""), "STORED\r\nVERSION 1.6.18\r\n");
  EXPECT_EQ(talk.say("gets a\r\n"), "");
  EXPECT_EQ(recorder.commands.back(), "gets a\r\n");
  talk.conversation().resume(0, "VALUE a 0 1 9\r\nx\r\nEND\r\n");
  EXPECT_EQ(talk.say(""), "VALUE a 0 1 9\r\nx\r\nEND\r\n");
  talk.say("mg a v\r\n");
  talk.conversation().resume(0, std::nullopt);
  EXPECT_EQ(talk.say(""), "SERVER_ERROR the owner of the key does not answer\r\n");
}

// Which of four partitions, the owner of which is "zero" or "one", a key is in.
class TwoOwners : public ::testing::Test {
 protected:
  TwoOwners() {
    for (std::size_t i = 0; i < 4; ++i) test_.store->set_owner(i, i < 2 ? "zero" : "one");
  }
  // The n-th key of an owner.
  std::string key_of(bool one, int n) const {
    for (int i = 0;; ++i) {
      const std::string key = "k" + std::to_string(i);
      if ((test_.store->partition_of(Key(key)) >= 2) == one && n-- == 0) return key;
    }
  }

  TestService test_{{.partitions = 4, .memory_bytes = 8 << 20, .own_all = false}};
  Recorder recorder_;
  Talk talk_{test_.service, &recorder_};
};

TEST_F(TwoOwners, AreAskedAtOnceForAllTheirKeysAndAnsweredInTheOrderOfTheLine) {
  const std::string a = key_of(false, 0), b = key_of(true, 0), c = key_of(false, 1), d = key_of(true, 1);
  EXPECT_EQ(talk_.say("get " + a + " " + b + " " + c + " " + d + "\r\n"), "");
  ASSERT_EQ(recorder_.commands.size(), 2u);
  EXPECT_EQ(recorder_.commands[0], "get " + a + " " + c + "\r\n");
  EXPECT_EQ(recorder_.commands[1], "get " + b + " " + d + "\r\n");
  const auto block = [](const std::string& key) { return "VALUE " + key + " 0 5\r\nEND\r\n\r\n"; };
  talk_.conversation().resume(1, block(d) + "END\r\n");  // b is not there.
  EXPECT_EQ(talk_.say(""), "");
  talk_.conversation().resume(0, block(a) + block(c) + "END\r\n");
  EXPECT_EQ(talk_.say(""), block(a) + block(c) + block(d) + "END\r\n");
}

TEST_F(TwoOwners, OfWhomOneDoesNotAnswerLeaveTheValuesBeforeItsKeys) {
  const std::string a = key_of(false, 0), b = key_of(true, 0), c = key_of(false, 1);
  talk_.say("gets " + a + " " + b + " " + c + "\r\nmn\r\n");
  talk_.conversation().resume(1, std::nullopt);
  talk_.conversation().resume(0, "VALUE " + a + " 0 1 7\r\nx\r\nVALUE " + c + " 0 1 8\r\ny\r\nEND\r\n");
  EXPECT_EQ(talk_.say(""),
            "VALUE " + a + " 0 1 7\r\nx\r\nSERVER_ERROR the owner of the key does not answer\r\nMN\r\n");
}

TEST_F(TwoOwners, AreAskedKeyByKeyWhenTheMapHasChanged) {
  const std::string a = key_of(false, 0), b = key_of(false, 1);
  talk_.say("gat 100 " + a + " " + b + "\r\n");
  ASSERT_EQ(recorder_.commands.size(), 1u);
  talk_.conversation().resume_here(0, recorder_.commands[0]);
  ASSERT_EQ(recorder_.commands.size(), 3u);
  EXPECT_EQ(recorder_.commands[1], "gat 100 " + a + "\r\n");
  EXPECT_EQ(recorder_.commands[2], "gat 100 " + b + "\r\n");
  talk_.conversation().resume(2, "VALUE " + b + " 0 1\r\ny\r\nEND\r\n");
  talk_.conversation().resume(1, "END\r\n");
  EXPECT_EQ(talk_.say(""), "VALUE " + b + " 0 1\r\ny\r\nEND\r\n");
}

TEST_F(TwoOwners, GetNoLongerLinesThanAnyCommandMayHave) {
  std::string line = "gat 5";
  for (int i = 0; i < 9; ++i) line += " " + std::string(200, 'x') + std::to_string(i);
  talk_.say(line + "\r\n");
  EXPECT_GE(recorder_.commands.size(), 2u);
  for (const std::string& command : recorder_.commands) EXPECT_LE(command.size(), Conversation::kMaxLine);
}

TEST(Conversation, NeverHandsOnWhatAServerHandedToIt) {
  TestService test({.partitions = 4, .memory_bytes = 8 << 20, .own_all = false});
  Recorder recorder;
  Talk talk(test.service, &recorder);
  EXPECT_EQ(talk.say("yonder_peer\r\n"), "OK\r\n");
  EXPECT_EQ(talk.say("get a\r\nset a 0 0 1\r\nx\r\nmn\r\n"),
            "SERVER_ERROR not owner\r\nSERVER_ERROR not owner\r\nMN\r\n");
  EXPECT_TRUE(recorder.commands.empty());
}

}  // namespace
}  // namespace yonder::cache
