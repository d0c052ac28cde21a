#include "yonder/cache/meta_protocol.h"

#include <gtest/gtest.h>

#include <string>

#include "yonder/cache/text_protocol.h"

namespace yonder::cache {
namespace {

std::string_view complaint(MetaKind kind, std::string_view line) {
  MetaLine meta;
  const auto parsed = parse_meta(kind, CommandLine(line), meta);
  return parsed ? "" : parsed.error().reply;
}

TEST(MetaProtocol, ReadsEveryFlag) {
  MetaLine meta;
  const CommandLine line("ms key 12 T30 F7 C99 MA q I b O1 k c");
  EXPECT_EQ(parse_meta(MetaKind::kSet, line, meta).error().reply, "CLIENT_ERROR error decoding key");
  MetaLine set;
  ASSERT_TRUE(parse_meta(MetaKind::kSet, CommandLine("ms YWJj 12 T30 F7 C99 MA q I b O1 k c"), set));
  EXPECT_EQ(set.key(), "abc");
  EXPECT_EQ(set.value_bytes, 12u);
  EXPECT_EQ(set.flags.ttl, 30);
  EXPECT_EQ(set.flags.client_flags, 7u);
  EXPECT_EQ(set.flags.cas, 99u);
  EXPECT_EQ(set.flags.mode, 'A');
  EXPECT_TRUE(set.flags.quiet && set.flags.invalidate && set.flags.binary_key && set.flags.has_cas);
  MetaLine arithmetic;
  ASSERT_TRUE(parse_meta(MetaKind::kArithmetic, CommandLine("ma n N60 J13 D5 v"), arithmetic));
  EXPECT_EQ(arithmetic.flags.initial, 13u);
  EXPECT_EQ(arithmetic.flags.delta, 5u);
  EXPECT_TRUE(arithmetic.flags.has_vivify && arithmetic.flags.value);
}

TEST(MetaProtocol, ComplainsAsMemcachedDoes) {
  EXPECT_EQ(complaint(MetaKind::kGet, "mg"), "ERROR");
  EXPECT_EQ(complaint(MetaKind::kGet, "mg k v v"), "CLIENT_ERROR duplicate flag");
  EXPECT_EQ(complaint(MetaKind::kGet, "mg k \xff"), "CLIENT_ERROR duplicate flag");
  EXPECT_EQ(complaint(MetaKind::kGet, "mg k z"), "CLIENT_ERROR invalid flag");
  EXPECT_EQ(complaint(MetaKind::kGet, "mg k Tx"), "CLIENT_ERROR bad token in command line format");
  EXPECT_EQ(complaint(MetaKind::kGet, "mg k Tx z"), "CLIENT_ERROR invalid flag") << "the later one counts";
  EXPECT_EQ(complaint(MetaKind::kGet, "mg " + std::string(251, 'k')), kBadFormat);
  EXPECT_EQ(complaint(MetaKind::kGet, "mg k 1 2 3 4 5 6 7 8 9 0 a b c d e f g h"),
            "CLIENT_ERROR options flags are too long");
  EXPECT_EQ(complaint(MetaKind::kDelete, "md k 1 2 3 4 5 6 7 8 9 0 a b c d e f g h"),
            "CLIENT_ERROR options flags too long");
  EXPECT_EQ(complaint(MetaKind::kDelete, "md k z"), "CLIENT_ERROR invalid or duplicate flag");
  EXPECT_EQ(complaint(MetaKind::kSet, "ms k"), kBadFormat);
  EXPECT_EQ(complaint(MetaKind::kSet, "ms k S5"), kBadFormat);
  EXPECT_EQ(complaint(MetaKind::kSet, "ms k -1"), kBadFormat);
  EXPECT_EQ(complaint(MetaKind::kSet, "ms k 2147483646"), kBadFormat);
  EXPECT_EQ(complaint(MetaKind::kSet, "ms k 1 Fx"), kBadFormat);
  EXPECT_EQ(complaint(MetaKind::kSet, "ms k 1 M"), "CLIENT_ERROR incorrect length for M token");
}

TEST(MetaProtocol, SaysHowMuchOfABadSetFollows) {
  MetaLine meta;
  EXPECT_EQ(parse_meta(MetaKind::kSet, CommandLine("ms k 10 z"), meta).error().swallow, 12u);
  MetaLine other;
  EXPECT_EQ(parse_meta(MetaKind::kSet, CommandLine("ms k x"), other).error().swallow, 0u);
}

TEST(MetaProtocol, TurnsModesIntoCommands) {
  EXPECT_EQ(*meta_store_mode({}), StoreMode::kSet);
  EXPECT_EQ(*meta_store_mode({.has_cas = true}), StoreMode::kCas);
  EXPECT_EQ(*meta_store_mode({.has_cas = true, .mode = 'R'}), StoreMode::kCas);
  EXPECT_EQ(*meta_store_mode({.mode = 'E'}), StoreMode::kAdd);
  EXPECT_EQ(*meta_store_mode({.mode = 'A'}), StoreMode::kAppend);
  EXPECT_EQ(*meta_store_mode({.mode = 'P'}), StoreMode::kPrepend);
  EXPECT_FALSE(meta_store_mode({.mode = 'X'}));
}

}  // namespace
}  // namespace yonder::cache
