// Vectors, in every way they can travel.
#include "yonder/remote/vector_io.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/remote/suite/bed.h"
#include "yonder/testing/seed.h"

namespace yonder::remote::suite {
namespace {

constexpr Strategy kAll[] = {Strategy::kAuto, Strategy::kPack, Strategy::kDoorbell, Strategy::kGather,
                             Strategy::kSingle};

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  Prng random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Cuts local bytes into pieces of `length` that lie `stride` apart at the target.
std::vector<VectorPiece> cut(std::span<const std::byte> local, std::uint32_t length, RemoteAddress to,
                             std::uint64_t stride) {
  std::vector<VectorPiece> pieces;
  for (std::size_t offset = 0; offset + length <= local.size(); offset += length) {
    pieces.push_back({LocalPiece::of(local.subspan(offset, length)), to + pieces.size() * stride});
  }
  return pieces;
}

TEST_P(RemoteSuite, EveryStrategyMovesARunBothWays) {
  Client& client = connect();
  VectorIo io(client.port(), client.pool());
  std::uint64_t offset = 0;
  for (const Strategy strategy : kAll) {
    const auto sent = random_bytes(100 * 40, offset + 1);
    ASSERT_TRUE(io.write(cut(sent, 40, at(offset), 40), strategy)) << static_cast<int>(strategy);
    EXPECT_EQ(std::memcmp(memory().data() + offset, sent.data(), sent.size()), 0);
    std::vector<std::byte> got(sent.size());
    ASSERT_TRUE(io.read(cut(got, 40, at(offset), 40), strategy)) << static_cast<int>(strategy);
    EXPECT_EQ(got, sent) << static_cast<int>(strategy);
    offset += 8192;
  }
}

TEST_P(RemoteSuite, EveryStrategyMovesScatteredAndUnsortedPieces) {
  Client& client = connect();
  VectorIo io(client.port(), client.pool());
  Prng random(testing::test_seed());
  std::uint64_t base = 0;
  for (const Strategy strategy : kAll) {
    const auto sent = random_bytes(64 * 24, base + 7);
    auto pieces = cut(sent, 24, at(base), 24);
    // Runs of four with a hole behind each, in any order.
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].remote = at(base + i * 24 + i / 4 * 100);
    std::shuffle(pieces.begin(), pieces.end(), random);
    ASSERT_TRUE(io.write(pieces, strategy)) << static_cast<int>(strategy);
    for (const VectorPiece& piece : pieces) {
      ASSERT_EQ(std::memcmp(memory().data() + piece.remote.offset, piece.local.data, 24), 0);
    }
    std::vector<std::byte> got(sent.size());
    for (VectorPiece& piece : pieces) piece.local.data = got.data() + (piece.local.data - sent.data());
    ASSERT_TRUE(io.read(pieces, strategy));
    EXPECT_EQ(got, sent) << static_cast<int>(strategy);
    base += 16384;
  }
}

TEST_P(RemoteSuite, ARunLeavesInOneRequest) {
  Client& client = connect();
  VectorIo io(client.port(), client.pool());
  const auto sent = random_bytes(16 * 32, 3);
  const auto pieces = cut(sent, 32, at(0), 32);
  ASSERT_TRUE(io.write(pieces, Strategy::kPack));
  EXPECT_EQ(io.stats().requests, 1U);
  EXPECT_EQ(io.stats().packed, 1U);
  ASSERT_TRUE(io.write(pieces, Strategy::kGather));
  const std::uint32_t limit = client.endpoint().limits().max_pieces;
  EXPECT_EQ(io.stats().requests, 1 + (16 + limit - 1) / limit);
  const std::uint64_t before = io.stats().requests;
  ASSERT_TRUE(io.write(pieces, Strategy::kDoorbell));
  EXPECT_EQ(io.stats().requests, before + 16);
}

TEST_P(RemoteSuite, WritesThatOverlapTakeEffectInTheGivenOrder) {
  Client& client = connect();
  VectorIo io(client.port(), client.pool());
  for (const Strategy strategy : kAll) {
    const std::vector<std::byte> ones(64, std::byte{1});
    const std::vector<std::byte> twos(64, std::byte{2});
    const std::vector<std::byte> threes(64, std::byte{3});
    const std::vector<VectorPiece> pieces = {
        {LocalPiece::of(ones), at(512)}, {LocalPiece::of(twos), at(480)}, {LocalPiece::of(threes), at(544)}};
    ASSERT_TRUE(io.write(pieces, strategy));
    EXPECT_EQ(memory()[480], std::byte{2});
    EXPECT_EQ(memory()[543], std::byte{2}) << static_cast<int>(strategy);
    EXPECT_EQ(memory()[544], std::byte{3});
    EXPECT_EQ(memory()[607], std::byte{3});
  }
}

TEST_P(RemoteSuite, NothingIsSentForNothing) {
  Client& client = connect();
  VectorIo io(client.port(), client.pool());
  std::byte byte{5};
  for (const Strategy strategy : kAll) {
    EXPECT_TRUE(io.write({}, strategy));
    // Not even the place of an empty piece matters.
    const std::vector<VectorPiece> empty = {{LocalPiece{}, at(0)}, {LocalPiece{}, at(kRegionBytes * 2)}};
    EXPECT_TRUE(io.read(empty, strategy));
  }
  EXPECT_EQ(io.stats().requests, 0U);
  const std::vector<VectorPiece> one = {{LocalPiece{}, at(0)}, {LocalPiece{&byte, 1}, at(3)}};
  EXPECT_TRUE(io.write(one));
  EXPECT_EQ(io.stats().requests, 1U);
  EXPECT_EQ(memory()[3], std::byte{5});
}

TEST_P(RemoteSuite, WhatIsTooLongIsRefusedBeforeAnythingIsSent) {
  Client& client = connect();
  VectorIo io(client.port(), client.pool(), {.max_pieces = 3});
  std::byte byte{1};
  const LocalPiece good{&byte, 1};
  const LocalPiece huge{&byte, UINT32_MAX};
  for (const Strategy strategy : kAll) {
    const std::vector<VectorPiece> too_long = {{good, at(0)}, {huge, at(1)}};
    const Result<void> refused = io.write(too_long, strategy);
    EXPECT_EQ(refused.error(), ErrorCode::kLengthInvalid);
    EXPECT_EQ(refused.error().detail(), 1);
    const std::vector<VectorPiece> wraps = {{good, at(0)}, {good, at(UINT64_MAX)}};
    EXPECT_EQ(io.write(wraps, strategy).error(), ErrorCode::kOutOfBounds);
    const std::vector<VectorPiece> too_many(4, {good, at(0)});
    EXPECT_EQ(io.write(too_many, strategy).error(), ErrorCode::kLengthInvalid);
  }
  EXPECT_EQ(memory()[0], std::byte{0});
}

TEST_P(RemoteSuite, VectorsBeyondTheDepthGoInWindows) {
  Client& client = connect({.depth = 8});
  VectorIo io(client.port(), client.pool());
  const auto sent = random_bytes(1000 * 16, 11);
  for (const Strategy strategy : {Strategy::kDoorbell, Strategy::kGather, Strategy::kPack}) {
    const auto pieces = cut(sent, 16, at(0), 32);
    std::fill(memory().begin(), memory().end(), std::byte{0});
    ASSERT_TRUE(io.write(pieces, strategy));
    for (const VectorPiece& piece : pieces) {
      ASSERT_EQ(std::memcmp(memory().data() + piece.remote.offset, piece.local.data, 16), 0);
    }
  }
}

TEST_P(RemoteSuite, AFailureNamesItsFirstPiece) {
  Client& client = connect();
  VectorIo io(client.port(), client.pool());
  const auto sent = random_bytes(8 * 16, 5);
  for (const Strategy strategy : kAll) {
    auto pieces = cut(sent, 16, at(0), 100);
    pieces[5].remote = at(kRegionBytes - 8);  // Reaches out of the region.
    pieces[6].remote = at(kRegionBytes + 8);
    const Result<void> failed = io.write(pieces, strategy);
    ASSERT_FALSE(failed) << static_cast<int>(strategy);
    EXPECT_EQ(failed.error().detail(), 5) << static_cast<int>(strategy);
    // The endpoint serves on.
    pieces.resize(5);
    EXPECT_TRUE(io.write(pieces, strategy)) << static_cast<int>(strategy);
  }
}

TEST_P(RemoteSuite, APoolThatIsUsedUpTurnsPackingIntoGathering) {
  Client& client = connect();
  client.set_pool({.buffers = 1, .buffer_bytes = 1024});
  VectorIo io(client.port(), client.pool());
  const auto sent = random_bytes(200 * 32, 13);
  ASSERT_TRUE(io.write(cut(sent, 32, at(0), 32), Strategy::kPack));
  EXPECT_EQ(std::memcmp(memory().data(), sent.data(), sent.size()), 0);
  EXPECT_EQ(io.stats().packed, 1U);
  EXPECT_GT(io.stats().requests, 1U);
  EXPECT_EQ(client.pool().available(), 1U);
}

TEST_P(RemoteSuite, APieceLargerThanABufferGoesInPlace) {
  Client& client = connect();
  client.set_pool({.buffers = 4, .buffer_bytes = 1024});
  VectorIo io(client.port(), client.pool());
  const auto sent = random_bytes(16 + 5000 + 16, 17);
  const auto bytes = std::span<const std::byte>(sent);
  const std::vector<VectorPiece> pieces = {{LocalPiece::of(bytes.first(16)), at(0)},
                                           {LocalPiece::of(bytes.subspan(16, 5000)), at(16)},
                                           {LocalPiece::of(bytes.last(16)), at(5016)}};
  ASSERT_TRUE(io.write(pieces, Strategy::kPack));
  EXPECT_EQ(std::memcmp(memory().data(), sent.data(), sent.size()), 0);
  EXPECT_EQ(io.stats().packed, 0U);
}

Task<void> write_all(VectorIo& io, std::vector<VectorPiece> pieces, Strategy strategy, int& done) {
  const Result<void> written = co_await io.async_write(pieces, strategy);
  if (written) ++done;
}

TEST_P(RemoteSuite, CallsOfManyCoroutinesShareAFullEndpoint) {
  Client& client = connect({.depth = 4});
  VectorIo io(client.port(), client.pool());
  const auto sent = random_bytes(std::size_t{20} * 50 * 16, 19);
  int done = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    const auto part = std::span(sent).subspan(i * 50 * 16, 50 * 16);
    client.scheduler().spawn(
        write_all(io, cut(part, 16, at(i * 50 * 20), 20), kAll[i % std::size(kAll)], done));
  }
  ASSERT_TRUE(client.scheduler().run(client.port().deadline({})));
  EXPECT_EQ(done, 20);
  for (std::size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(std::memcmp(memory().data() + i * 20, sent.data() + i * 16, 16), 0);
  }
}

TEST_P(RemoteSuite, CostsCanBeMeasured) {
  Client& client = connect();
  const auto costs = measure_costs(client.port(), client.pool(), at(0), kRegionBytes);
  ASSERT_TRUE(costs) << costs.error();
  EXPECT_GE(costs->request_ns, 1.0);
  EXPECT_EQ(measure_costs(client.port(), client.pool(), at(0), 64).error(), ErrorCode::kLengthInvalid);
  EXPECT_FALSE(measure_costs(client.port(), client.pool(), at(kRegionBytes), kRegionBytes));
}

}  // namespace
}  // namespace yonder::remote::suite
