#include "yonder/node/protocol.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string_view>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::node::protocol {
namespace {

NodeDescription example() {
  NodeDescription out;
  out.node = NodeId(3);
  out.life = LifeTag(4);
  out.validator = Validator::kChecksum;
  out.max_data = 16384;
  out.superblock_bytes = 128 << 20;
  out.block_table = {.key = {77}, .length = 4096, .rights = fabric::Rights::kRead};
  out.classes = {{.slot_bytes = 16, .frame_bytes = 4096, .slots = 256},
                 {.slot_bytes = 24, .frame_bytes = 4096, .slots = 170}};
  out.superblock_count = 2;
  out.superblocks = {{.key = {78}, .length = 128 << 20, .rights = fabric::Rights::kRead},
                     {.key = {79}, .length = 128 << 20, .rights = fabric::Rights::kRead}};
  return out;
}

std::vector<std::byte> encoded(const auto& message) {
  std::vector<std::byte> bytes(std::remove_cvref_t<decltype(message)>::kMaxBytes);
  const auto length = rpc::encode_message(message, bytes);
  EXPECT_TRUE(length);
  bytes.resize(length.value_or(0));
  return bytes;
}

TEST(Protocol, ADescriptionComesBackAsItWas) {
  const NodeDescription sent = example();
  NodeDescription got;
  ASSERT_TRUE(rpc::decode_message(encoded(sent), got));
  EXPECT_EQ(got.node, sent.node);
  EXPECT_EQ(got.life, sent.life);
  EXPECT_EQ(got.validator, sent.validator);
  EXPECT_EQ(got.max_data, sent.max_data);
  EXPECT_EQ(got.superblock_bytes, sent.superblock_bytes);
  EXPECT_EQ(got.block_table, sent.block_table);
  ASSERT_EQ(got.classes.size(), 2u);
  EXPECT_EQ(got.classes[1].slots, 170u);
  EXPECT_EQ(got.superblocks, sent.superblocks);
}

TEST(Protocol, TheLargestDescriptionFits) {
  NodeDescription sent = example();
  sent.classes.assign(NodeDescription::kMaxClasses, sent.classes[0]);
  sent.superblocks.assign(kSuperblocksPerAnswer, sent.superblocks[0]);
  NodeDescription got;
  EXPECT_TRUE(rpc::decode_message(encoded(sent), got));
}

TEST(Protocol, ADescriptionThatMakesNoSenseIsRefused) {
  const auto refused = [](auto change) {
    NodeDescription sent = example();
    change(sent);
    NodeDescription got;
    return !rpc::decode_message(encoded(sent), got);
  };
  EXPECT_TRUE(refused([](NodeDescription& d) { d.classes[0].slots = 257; })) << "beyond its frame";
  EXPECT_TRUE(refused([](NodeDescription& d) { d.classes[0].slot_bytes = 0; }));
  EXPECT_TRUE(refused([](NodeDescription& d) { d.classes[0].slot_bytes = 20; })) << "headers are aligned";
  EXPECT_TRUE(refused([](NodeDescription& d) { d.classes[0].slots = 0; }));
  EXPECT_TRUE(refused([](NodeDescription& d) { d.classes[0].block_shift = 40; }));
  EXPECT_TRUE(refused([](NodeDescription& d) { d.superblock_bytes = 0; }));
  EXPECT_TRUE(refused([](NodeDescription& d) { d.superblock_bytes = 2048; }));
  EXPECT_TRUE(refused([](NodeDescription& d) { d.max_data = 0; }));
  EXPECT_TRUE(refused([](NodeDescription& d) { d.validator = static_cast<Validator>(3); }));
}

TEST(Protocol, ADescriptionOfViewsComesBackIfItMakesSense) {
  const auto decoded = [](Views views, NodeDescription& got) {
    NodeDescription sent = example();
    sent.views = views;
    return rpc::decode_message(encoded(sent), got);
  };
  const fabric::RegionToken region{.key = {80}, .length = 1 << 20, .rights = fabric::Rights::kRead};
  NodeDescription got;
  ASSERT_TRUE(decoded({.kind = ViewKind::kArena, .stride = 8192, .region = region}, got));
  EXPECT_EQ(got.views.kind, ViewKind::kArena);
  EXPECT_EQ(got.views.stride, 8192u);
  EXPECT_EQ(got.views.region, region);
  EXPECT_TRUE(decoded({.kind = ViewKind::kKeys, .stride = 4096, .region = region}, got));
  EXPECT_FALSE(decoded({.kind = ViewKind::kArena, .stride = 0, .region = region}, got));
  EXPECT_FALSE(decoded({.kind = ViewKind::kArena, .stride = 5000, .region = region}, got));
  EXPECT_FALSE(decoded({.kind = ViewKind::kArena, .stride = 1 << 30, .region = region}, got));
  EXPECT_FALSE(decoded({.kind = static_cast<ViewKind>(3), .stride = 4096, .region = region}, got));
}

TEST(Protocol, WritesAndPartsCarryViews) {
  const std::array<std::byte, 5> data{std::byte{1}, std::byte{2}, std::byte{3}};
  const std::vector<std::byte> bytes = [&] {
    std::vector<std::byte> out(100);
    const auto length = rpc::encode_message(
        WriteRequest{.object = ObjectPtr::from_words(5, 6), .conditional = true, .expected = 9, .data = data},
        out);
    out.resize(length.value());
    return out;
  }();
  EXPECT_EQ(bytes.size(), WriteRequest::kHeadBytes + data.size());
  WriteRequest got;
  ASSERT_TRUE(rpc::decode_message(bytes, got));
  EXPECT_EQ(got.object, ObjectPtr::from_words(5, 6));
  EXPECT_TRUE(got.conditional);
  EXPECT_EQ(got.expected, 9u);
  ASSERT_EQ(got.data.size(), data.size());
  EXPECT_EQ(got.data[2], std::byte{3});

  std::vector<std::byte> part(100);
  part.resize(rpc::encode_message(PutRequest{.ticket = 1, .offset = 2, .data = data}, part).value());
  EXPECT_EQ(part.size(), PutRequest::kHeadBytes + data.size());
  PutRequest put;
  ASSERT_TRUE(rpc::decode_message(part, put));
  EXPECT_EQ(put.offset, 2u);
  EXPECT_EQ(put.data.size(), data.size());
}

TEST(Protocol, RandomAndTruncatedBytesNeverGetThrough) {
  Prng random(::yonder::testing::test_seed());
  const std::vector<std::byte> good = encoded(example());
  for (std::size_t length = 0; length < good.size(); ++length) {
    NodeDescription got;
    EXPECT_FALSE(rpc::decode_message(std::span(good).first(length), got));
  }
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes = good;
    for (int flips = 0; flips < 8; ++flips) {
      bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1u << random.below(8));
    }
    NodeDescription got;
    if (!rpc::decode_message(bytes, got)) continue;
    // What got through can be computed with.
    for (const ClassShape& shape : got.classes) {
      EXPECT_LE(std::uint64_t{shape.slots} * shape.slot_bytes, shape.frame_bytes);
      EXPECT_LE(shape.frame_bytes, got.superblock_bytes);
    }
  }
}

TEST(Protocol, EveryMethodHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (std::uint16_t number = Describe::kMethod.value(); number <= DropExtent::kMethod.value(); ++number) {
    const std::string_view name = method_name(rpc::MethodId(number));
    EXPECT_FALSE(name.empty()) << number;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(method_name(rpc::MethodId(DropExtent::kMethod.value() + 1)), "");
}

}  // namespace
}  // namespace yonder::node::protocol
