#include "yonder/fabric/tcp/hostile_bytes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/base/prng.h"
#include "yonder/fabric/tcp/internal/initiator_stream.h"
#include "yonder/fabric/tcp/internal/parser.h"
#include "yonder/fabric/tcp/internal/target_stream.h"
#include "yonder/fabric/tcp/internal/test_transport.h"

namespace yonder::fabric::tcp {
namespace {

constexpr std::byte kCanary{0xc5};
constexpr std::size_t kMargin = 256;

// Memory with guarded neighbours.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : memory_(bytes + 2 * kMargin, kCanary) {}
  std::span<std::byte> middle() { return std::span(memory_).subspan(kMargin, memory_.size() - 2 * kMargin); }
  void check() const {
    const auto is_canary = [](std::byte b) { return b == kCanary; };
    const bool whole = std::all_of(memory_.begin(), memory_.begin() + kMargin, is_canary) &&
                       std::all_of(memory_.end() - kMargin, memory_.end(), is_canary);
    YONDER_CHECK(whole, "bytes outside the granted memory were changed");
  }

 private:
  std::vector<std::byte> memory_;
};

// A digest of what a parser says about a stream.
class Witness {
 public:
  // False after kMalformed.
  bool run(FrameParser& parser, std::span<const std::byte> input);
  std::uint64_t digest() const { return digest_; }

 private:
  void add(std::uint64_t value) { digest_ ^= value + 0x9e3779b97f4a7c15 + (digest_ << 6) + (digest_ >> 2); }
  std::uint64_t digest_ = 0;
};

bool Witness::run(FrameParser& parser, std::span<const std::byte> input) {
  for (;;) {
    switch (parser.next(input)) {
      case FrameParser::Event::kNeedMore:
        YONDER_CHECK(input.empty(), "a parser that wants more has used all it was given");
        return true;
      case FrameParser::Event::kHeader:
        YONDER_CHECK(parser.left() <= kMaxTransferBytes, "no frame is longer than a transfer");
        add(parser.left() + 1);
        break;
      case FrameParser::Event::kPayload: {
        const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(parser.ready(), input.size()));
        YONDER_CHECK(count != 0 && count <= parser.left(), "payload is never empty nor more than announced");
        for (const std::byte b : input.first(count)) add(std::to_integer<unsigned>(b));
        parser.take(count);
        input = input.subspan(count);
        break;
      }
      case FrameParser::Event::kAborted:
        YONDER_CHECK(parser.abort_status() != ErrorCode::kOk, "an abort has a reason");
        add(1000 + static_cast<unsigned>(parser.abort_status()));
        break;
      case FrameParser::Event::kMalformed:
        add(77);
        return false;
    }
  }
}

std::uint64_t parse(std::span<const std::byte> bytes, FrameParser::Kind kind, Prng* cuts) {
  FrameParser parser(kind);
  Witness witness;
  while (!bytes.empty()) {
    const std::size_t count =
        cuts == nullptr ? bytes.size() : std::min<std::size_t>(bytes.size(), 1 + cuts->below(97));
    if (!witness.run(parser, bytes.first(count))) break;
    bytes = bytes.subspan(count);
  }
  return witness.digest();
}

std::uint64_t seed_of(std::span<const std::byte>& bytes) {
  if (bytes.empty()) return 0;
  const auto seed = std::to_integer<std::uint64_t>(bytes.front());
  bytes = bytes.subspan(1);
  return seed;
}

void insert_key(std::vector<std::byte>& bytes, std::uint64_t key) {
  const std::byte* placeholder = reinterpret_cast<const std::byte*>(kKeyPlaceholder);
  for (auto at = bytes.begin();;) {
    at = std::search(at, bytes.end(), placeholder, placeholder + kKeyPlaceholderBytes);
    if (at == bytes.end()) return;
    std::memcpy(&*at, &key, sizeof key);
  }
}

void check_replies(std::span<const std::byte> sent) {
  FrameParser parser(FrameParser::Kind::kReplies);
  Witness witness;
  YONDER_CHECK(witness.run(parser, sent), "a target sent something that is no reply");
}

}  // namespace

void parse_hostile_bytes(std::span<const std::byte> bytes) {
  Prng cuts(seed_of(bytes));
  for (const auto kind : {FrameParser::Kind::kRequests, FrameParser::Kind::kReplies}) {
    YONDER_CHECK(parse(bytes, kind, nullptr) == parse(bytes, kind, &cuts),
                 "a stream means the same wherever it is cut");
  }
}

void serve_hostile_bytes(std::span<const std::byte> bytes) {
  Prng random(seed_of(bytes));
  Guarded memory(128 * 1024);
  RegionTable regions;
  Region region = regions.add({.memory = memory.middle(), .rights = Rights::kAll}).value();
  std::vector<std::byte> input(bytes.begin(), bytes.end());
  insert_key(input, region.token().key.value);
  const std::atomic<std::uint64_t> epoch{0};
  Account account;
  Arrivals arrivals(8);
  Guarded messages(4 * 64);
  const auto inbox = std::make_shared<Inbox>(Inbox::Options{.endpoint = EndpointId{1},
                                                            .account = &account,
                                                            .receive_depth = 4,
                                                            .max_message = 64,
                                                            .shared = nullptr,
                                                            .server = nullptr},
                                             arrivals);
  for (std::size_t i = 0; i < 4; ++i)
    inbox->post({.user_data = i, .buffer = LocalPiece::of(messages.middle().subspan(i * 64, 64))});
  Wire wire;
  wire.room = 0;
  {
    TargetStream stream(std::make_unique<TestTransport>(wire),
                        {.regions = regions, .epoch = epoch, .stall_timeout = std::chrono::seconds(1)},
                        TenantId{0}, random.chance(0.5) ? inbox : nullptr);
    Instant now = Instant::from_ns(1);
    for (std::size_t at = 0; at < input.size();) {
      const std::size_t count = std::min<std::size_t>(input.size() - at, 1 + random.below(300));
      wire.put(std::span(input).subspan(at, count));
      at += count;
      wire.room = random.below(4000);
      if (random.chance(0.01)) region.revoke();
      now = now + Duration(static_cast<std::int64_t>(random.below(1'000'000)));
      if (!stream.progress(now)) break;
    }
    wire.room = SIZE_MAX;
    for (int i = 0; i < 100 && stream.progress(now).value_or(false); ++i) {
    }
  }
  check_replies(wire.from_us);
  memory.check();
  messages.check();
}

void answer_with_hostile_bytes(std::span<const std::byte> bytes) {
  constexpr std::uint32_t kDepth = 8;
  constexpr std::size_t kBuffer = 100'000;
  Prng random(seed_of(bytes));
  Wire wire;
  Account account{.depth = kDepth};
  FinishedRing finished(kDepth);
  std::vector<Guarded> buffers(kDepth, Guarded(kBuffer));
  InitiatorStream stream({.endpoint = EndpointId{1},
                          .limits = {.depth = kDepth,
                                     .max_pieces = kMaxPieces,
                                     .max_inline = 64,
                                     .max_message = 64 * 1024,
                                     .max_transfer = kMaxTransferBytes},
                          .default_timeout = std::chrono::seconds(1)},
                         account, finished);
  stream.attach(std::make_unique<TestTransport>(wire));
  Instant now = Instant::from_ns(1);
  // Ids 0 to 7: reads of 8 bytes, then longer ones, then others.
  constexpr std::array<std::size_t, kDepth> kLengths = {8, 8, 8, kBuffer, 64, 0, 16, 0};
  constexpr std::array<Op, kDepth> kOps = {Op::kRead,  Op::kRead, Op::kRead,     Op::kRead,
                                           Op::kWrite, Op::kSend, Op::kWriteImm, Op::kFetchAdd};
  for (std::size_t i = 0; i < kDepth; ++i) {
    const LocalPiece piece = LocalPiece::of(buffers[i].middle().first(kLengths[i]));
    WorkRequest request{.op = kOps[i], .user_data = i};
    if (!is_atomic(kOps[i])) request.local = {&piece, 1};
    if (i == 4) request.flags = RequestFlags::kUnsignalled;
    YONDER_CHECK(stream.post({&request, 1}, now).count == 1, "the depth has room");
  }
  while (!bytes.empty()) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), 1 + random.below(5000));
    wire.put(bytes.first(count));
    bytes = bytes.subspan(count);
    now = now + Duration(static_cast<std::int64_t>(random.below(100'000'000)));
    if (!stream.progress()) break;
    (void)stream.expire(now);
  }
  stream.end_all(ErrorCode::kCancelled);
  std::array<int, kDepth> completed{};
  while (!finished.empty()) ++completed[finished.pop().completion.user_data];
  for (std::size_t i = 0; i < kDepth; ++i) {
    YONDER_CHECK(i == 4 ? completed[i] <= 1 : completed[i] == 1, "a request completes exactly once");
    buffers[i].check();
  }
}

}  // namespace yonder::fabric::tcp
