#include "yonder/rpc/codec.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "yonder/rpc/message.h"

namespace yonder::rpc {
namespace {

struct NodeIdTag;
using NodeId = StrongId<NodeIdTag, std::uint32_t>;
enum class Colour : std::uint8_t { kRed = 1, kGreen = 2 };

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Codec, EveryScalarComesBack) {
  std::array<std::byte, 64> memory;
  Writer out(memory);
  out.put(std::uint8_t{200});
  out.put(std::int16_t{-2});
  out.put(std::uint64_t{0x0102030405060708});
  out.put(true);
  out.put(Colour::kGreen);
  out.put(NodeId{77});
  out.put(Bytes{4096});
  out.put(Duration(-5));
  ASSERT_TRUE(out.ok());
  Reader in{std::span<const std::byte>(memory).first(out.size())};
  EXPECT_EQ(in.get<std::uint8_t>(), 200);
  EXPECT_EQ(in.get<std::int16_t>(), -2);
  EXPECT_EQ(in.get<std::uint64_t>(), 0x0102030405060708u);
  EXPECT_TRUE(in.get<bool>());
  EXPECT_EQ(in.get<Colour>(), Colour::kGreen);
  EXPECT_EQ(in.get<NodeId>(), NodeId{77});
  EXPECT_EQ(in.get<Bytes>(), Bytes{4096});
  EXPECT_EQ(in.get<Duration>(), Duration(-5));
  EXPECT_TRUE(in.finished());
}

TEST(Codec, IntegersAreLittleEndian) {
  std::array<std::byte, 4> memory;
  Writer out(memory);
  out.put(std::uint32_t{0x01020304});
  EXPECT_EQ(memory[0], std::byte{4});
  EXPECT_EQ(memory[3], std::byte{1});
}

TEST(Codec, AWriterStopsAtTheEndOfItsRoom) {
  std::array<std::byte, 6> memory{};
  Writer out(memory);
  out.put(std::uint32_t{1});
  out.put(std::uint32_t{2});
  EXPECT_FALSE(out.ok());
  out.put(std::uint8_t{3});
  EXPECT_FALSE(out.ok()) << "errors are sticky";
  EXPECT_EQ(memory[4], std::byte{0}) << "nothing is written after an error";
}

TEST(Codec, AWriterKeepsToTheLimitOfAField) {
  std::array<std::byte, 64> memory;
  Writer out(memory);
  out.string("hello", 4);
  EXPECT_FALSE(out.ok());
}

TEST(Codec, StringsAndBytesComeBackAsViews) {
  std::array<std::byte, 64> memory;
  Writer out(memory);
  out.string("hello", 10);
  out.bytes(bytes_of("xyz"), 3);
  out.string("", 0);
  Reader in{std::span<const std::byte>(memory).first(out.size())};
  const std::string_view text = in.string(10);
  EXPECT_EQ(text, "hello");
  EXPECT_EQ(reinterpret_cast<const std::byte*>(text.data()), memory.data() + 4) << "no copy";
  EXPECT_EQ(in.bytes(3).size(), 3u);
  EXPECT_EQ(in.string(0), "");
  EXPECT_TRUE(in.finished());
}

TEST(Codec, AReaderDoesNotBelieveALength) {
  std::array<std::byte, 8> memory{};
  Writer out(memory);
  out.put(std::uint32_t{0xffffffff});
  Reader over_the_limit(memory);
  EXPECT_TRUE(over_the_limit.bytes(100).empty());
  EXPECT_FALSE(over_the_limit.ok());
  Reader over_the_end(memory);
  EXPECT_TRUE(over_the_end.bytes(SIZE_MAX).empty());
  EXPECT_FALSE(over_the_end.ok());
}

TEST(Codec, AnArrayThatCannotBeThereIsRefusedBeforeItIsMade) {
  std::array<std::byte, 4 + 24> memory{};
  Writer out(memory);
  out.count(4, 100);
  Reader too_short(memory);
  EXPECT_EQ(too_short.count(100, 8), 0u) << "4 elements of 8 bytes do not fit 24";
  EXPECT_FALSE(too_short.ok());
  Reader fits(memory);
  EXPECT_EQ(fits.count(100, 6), 4u);
  Reader limited(memory);
  EXPECT_EQ(limited.count(3, 1), 0u);
  EXPECT_FALSE(limited.ok());
}

TEST(Codec, AReaderReturnsZerosAfterAnError) {
  const std::array<std::byte, 3> memory{std::byte{1}, std::byte{2}, std::byte{3}};
  Reader in(memory);
  EXPECT_EQ(in.get<std::uint32_t>(), 0u);
  EXPECT_EQ(in.get<std::uint8_t>(), 0u) << "although one byte would be there";
  EXPECT_FALSE(in.ok());
  EXPECT_FALSE(in.finished());
}

TEST(Codec, BoolsAndEnumsTakeOnlyTheirValues) {
  const std::array<std::byte, 1> two{std::byte{2}};
  Reader not_a_bool(two);
  EXPECT_FALSE(not_a_bool.get<bool>());
  EXPECT_FALSE(not_a_bool.ok());
  Reader a_colour(two);
  EXPECT_EQ(a_colour.get_enum(Colour::kRed, Colour::kGreen), Colour::kGreen);
  EXPECT_TRUE(a_colour.finished());
  const std::array<std::byte, 1> three{std::byte{3}};
  Reader no_colour(three);
  EXPECT_EQ(no_colour.get_enum(Colour::kRed, Colour::kGreen), Colour::kRed);
  EXPECT_FALSE(no_colour.ok());
}

struct Plain {
  static constexpr bool kPlain = true;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};
struct Coded {
  static constexpr std::size_t kMaxBytes = 4 + 8 + 2;
  std::string name;
  std::uint16_t number = 0;
  void encode(Writer& out) const {
    out.string(name, 8);
    out.put(number);
  }
  void decode(Reader& in) {
    name = in.string(8);
    number = in.get<std::uint16_t>();
  }
};
struct Padded {
  static constexpr bool kPlain = true;
  std::uint8_t a = 0;
  std::uint32_t b = 0;
};
static_assert(PlainMessage<Plain> && !PlainMessage<Padded>, "padding would leak memory onto the wire");
static_assert(CodedMessage<Coded> && Message<Empty>);

TEST(Message, APlainOneIsItsBytes) {
  std::array<std::byte, 8> memory;
  ASSERT_EQ(encode_message(Plain{.a = 1, .b = 2}, memory), 8u);
  Plain back;
  ASSERT_TRUE(decode_message(memory, back));
  EXPECT_EQ(back.b, 2u);
  EXPECT_FALSE(decode_message(std::span<const std::byte>(memory).first(7), back));
  EXPECT_EQ(encode_message(Plain{}, std::span(memory).first(7)), std::nullopt);
}

TEST(Message, ACodedOneComesBack) {
  std::array<std::byte, 64> memory;
  const auto size = encode_message(Coded{.name = "node", .number = 7}, memory);
  ASSERT_EQ(size, 4u + 4 + 2);
  Coded back;
  ASSERT_TRUE(decode_message(std::span<const std::byte>(memory).first(*size), back));
  EXPECT_EQ(back.name, "node");
  EXPECT_EQ(back.number, 7);
}

TEST(Message, EveryTruncationAndExtensionIsRefused) {
  std::array<std::byte, 64> memory{};
  const std::size_t size = *encode_message(Coded{.name = "node", .number = 7}, memory);
  for (std::size_t length = 0; length < memory.size(); ++length) {
    Coded back;
    EXPECT_EQ(decode_message(std::span<const std::byte>(memory).first(length), back), length == size)
        << length;
  }
}

TEST(Message, OneThatBreaksItsOwnBoundIsNotEncoded) {
  std::array<std::byte, 64> memory;
  EXPECT_EQ(encode_message(Coded{.name = "a name that is too long"}, memory), std::nullopt);
}

TEST(Message, AnEmptyOneHasNoBytes) {
  EXPECT_EQ(encode_message(Empty{}, {}), 0u);
  Empty back;
  EXPECT_TRUE(decode_message({}, back));
  const std::array<std::byte, 1> one{};
  EXPECT_FALSE(decode_message(one, back));
}

}  // namespace
}  // namespace yonder::rpc
