#include "yonder/fabric/tcp/internal/parser.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::tcp {
namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
void append(Bytes& out, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

void append_payload(Bytes& out, std::size_t count, unsigned seed) {
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<std::byte>((i * 7 + seed) & 0xff));
}

RequestHeader request(Op op, std::uint32_t length, std::uint32_t id) {
  return {.op = static_cast<std::uint8_t>(op), .id = id, .length = length};
}

// Everything a parser said about a stream, in a form that does not depend on how
// the bytes were cut: payloads are joined.
struct Log {
  std::vector<std::string> lines;
  void payload(std::span<const std::byte> bytes) {
    if (lines.empty() || lines.back()[0] != 'p') lines.emplace_back("p");
    for (const std::byte b : bytes) lines.back() += static_cast<char>('a' + std::to_integer<int>(b) % 16);
  }
};

void run(FrameParser& parser, std::span<const std::byte> input, Log& log) {
  for (;;) {
    switch (parser.next(input)) {
      case FrameParser::Event::kNeedMore:
        ASSERT_TRUE(input.empty());
        return;
      case FrameParser::Event::kHeader:
        log.lines.push_back("header " + std::to_string(parser.request().id));
        break;
      case FrameParser::Event::kPayload: {
        const std::size_t count = std::min<std::size_t>(parser.ready(), input.size());
        ASSERT_GT(count, 0u);
        log.payload(input.first(count));
        parser.take(static_cast<std::uint32_t>(count));
        input = input.subspan(count);
        break;
      }
      case FrameParser::Event::kAborted:
        log.lines.push_back("aborted " + std::to_string(static_cast<int>(parser.abort_status())));
        break;
      case FrameParser::Event::kMalformed:
        log.lines.emplace_back("malformed");
        return;
    }
  }
}

Bytes small_stream() {
  Bytes stream;
  append(stream, request(Op::kRead, 100, 1));
  append(stream, request(Op::kWrite, 13, 2));
  append_payload(stream, 13, 5);
  append(stream, request(Op::kFetchAdd, 0, 3));
  append(stream, request(Op::kSend, 0, 4));
  append(stream, request(Op::kSend, 3, 5));
  append_payload(stream, 3, 9);
  return stream;
}

// A chunked write, one that is given up after its first chunk, and a read.
Bytes chunked_stream() {
  Bytes stream;
  append(stream, request(Op::kWrite, kChunkBytes + 10, 1));
  append(stream, ChunkHeader{.length = kChunkBytes});
  append_payload(stream, kChunkBytes, 1);
  append(stream, ChunkHeader{.length = 10});
  append_payload(stream, 10, 2);
  append(stream, request(Op::kWrite, 3 * kChunkBytes, 2));
  append(stream, ChunkHeader{.length = 7});
  append_payload(stream, 7, 3);
  append(stream, ChunkHeader{.status = 2});
  append(stream, request(Op::kRead, 8, 3));
  return stream;
}

Log parse_whole(const Bytes& stream) {
  FrameParser parser(FrameParser::Kind::kRequests);
  Log log;
  run(parser, stream, log);
  EXPECT_FALSE(parser.mid_frame());
  return log;
}

TEST(FrameParser, SaysTheSameWhereverAStreamIsCut) {
  const Bytes stream = small_stream();
  const Log expected = parse_whole(stream);
  ASSERT_EQ(expected.lines.size(), 7u);
  for (std::size_t first = 0; first <= stream.size(); ++first) {
    for (std::size_t second = first; second <= stream.size(); ++second) {
      FrameParser parser(FrameParser::Kind::kRequests);
      Log log;
      const std::span<const std::byte> all(stream);
      run(parser, all.first(first), log);
      run(parser, all.subspan(first, second - first), log);
      run(parser, all.subspan(second), log);
      ASSERT_EQ(log.lines, expected.lines) << "cut at " << first << " and " << second;
    }
  }
}

TEST(FrameParser, SaysTheSameForEveryByteAlone) {
  for (const Bytes& stream : {small_stream(), chunked_stream()}) {
    const Log expected = parse_whole(stream);
    FrameParser parser(FrameParser::Kind::kRequests);
    Log log;
    for (const std::byte& b : stream) run(parser, {&b, 1}, log);
    EXPECT_EQ(log.lines, expected.lines);
  }
}

TEST(FrameParser, JoinsChunksHoweverTheyArrive) {
  const Bytes stream = chunked_stream();
  const Log expected = parse_whole(stream);
  ASSERT_EQ(expected.lines.size(), 6u);
  EXPECT_EQ(expected.lines[4], "aborted 2");
  Prng random(::yonder::testing::test_seed());
  for (int round = 0; round < 50; ++round) {
    FrameParser parser(FrameParser::Kind::kRequests);
    Log log;
    for (std::span<const std::byte> rest(stream); !rest.empty();) {
      const std::size_t count =
          std::min<std::size_t>(rest.size(), 1 + random.below(round % 2 == 0 ? 30000 : 90));
      run(parser, rest.first(count), log);
      rest = rest.subspan(count);
    }
    ASSERT_EQ(log.lines, expected.lines);
  }
}

struct Bad {
  const char* name;
  RequestHeader header;
};

TEST(FrameParser, RefusesEveryHeaderThatCannotBeARequest) {
  const Bad bad[] = {
      {"magic", {.magic = 0x4547, .op = 1, .length = 1}},
      {"version", {.version = 2, .op = 1, .length = 1}},
      {"no operation", {.op = 0, .length = 1}},
      {"a receive", {.op = 7, .length = 1}},
      {"a reply", {.op = 0x81, .length = 1}},
      {"unknown flags", {.op = 1, .flags = 2, .length = 1}},
      {"not zero", {.op = 1, .zero = 1, .length = 1}},
      {"an empty read", {.op = 1, .length = 0}},
      {"an empty write", {.op = 2, .length = 0}},
      {"a huge read", {.op = 1, .length = (1u << 30) + 1}},
      {"a huge send", {.op = 4, .length = (1u << 30) + 1}},
      {"an atomic with a length", {.op = 6, .length = 8}},
  };
  for (const Bad& entry : bad) {
    FrameParser parser(FrameParser::Kind::kRequests);
    Log log;
    Bytes stream;
    append(stream, entry.header);
    run(parser, stream, log);
    EXPECT_EQ(log.lines, std::vector<std::string>{"malformed"}) << entry.name;
    // For ever: nothing after it is looked at.
    log.lines.clear();
    run(parser, small_stream(), log);
    EXPECT_EQ(log.lines, std::vector<std::string>{"malformed"}) << entry.name;
  }
}

TEST(FrameParser, RefusesChunksThatDoNotFit) {
  for (const ChunkHeader& bad :
       {ChunkHeader{.length = 0}, ChunkHeader{.length = kChunkBytes + 1},
        ChunkHeader{.magic = 1, .length = 5}, ChunkHeader{.status = 3, .length = 1}}) {
    Bytes stream;
    append(stream, request(Op::kWrite, kChunkBytes + 1, 1));
    append(stream, bad);
    FrameParser parser(FrameParser::Kind::kRequests);
    Log log;
    run(parser, stream, log);
    EXPECT_EQ(log.lines.back(), "malformed");
  }
  // More in the second chunk than the frame has left.
  Bytes stream;
  append(stream, request(Op::kWrite, kChunkBytes + 1, 1));
  append(stream, ChunkHeader{.length = kChunkBytes});
  append_payload(stream, kChunkBytes, 0);
  append(stream, ChunkHeader{.length = 2});
  FrameParser parser(FrameParser::Kind::kRequests);
  Log log;
  run(parser, stream, log);
  EXPECT_EQ(log.lines.back(), "malformed");
}

TEST(FrameParser, RefusesRepliesThatCannotBe) {
  const ReplyHeader bad[] = {
      {.op = 1, .length = 8},                  // A request's operation.
      {.op = 0x81, .length = 0},               // A read without bytes.
      {.op = 0x81, .status = 5, .length = 8},  // A failure with bytes.
      {.op = 0x82, .length = 8},               // A write with bytes.
      {.op = 0x87},                            // A receive.
      {.op = 0x81, .length = (1u << 30) + 1},
      {.magic = 0, .op = 0x82},
  };
  for (const ReplyHeader& header : bad) {
    FrameParser parser(FrameParser::Kind::kReplies);
    Bytes stream;
    append(stream, header);
    std::span<const std::byte> input(stream);
    EXPECT_EQ(parser.next(input), FrameParser::Event::kMalformed) << int{header.op};
  }
}

TEST(EncodeReply, WritesTheHeaderAsItLies) {
  const ReplyHeader header{.op = 0x86, .status = 107, .id = 77, .length = 5, .value = 0x0102030405060708};
  std::byte encoded[sizeof header];
  encode_reply(encoded, {.op = 6,
                         .status = ErrorCode::kConnectionLost,
                         .id = header.id,
                         .length = header.length,
                         .value = header.value});
  EXPECT_EQ(std::memcmp(encoded, &header, sizeof header), 0);
}

}  // namespace
}  // namespace yonder::fabric::tcp
