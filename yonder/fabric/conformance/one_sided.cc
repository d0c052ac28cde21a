// Reads, writes and atomics of the conformance suite.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "yonder/base/prng.h"
#include "yonder/fabric/conformance/bed.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::conformance {
namespace {

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>((i * 131 + seed * 7 + 1) & 0xff);
  return out;
}

std::uint64_t word(std::span<const std::byte> memory, std::size_t offset) {
  std::uint64_t value = 0;
  std::memcpy(&value, memory.data() + offset, 8);
  return value;
}

TEST_P(Conformance, ReadsWhatTheTargetWrote) {
  const auto expected = pattern(4096, 1);
  std::memcpy(memory_.bytes.data() + 512, expected.data(), expected.size());
  std::vector<std::byte> got(4096);
  const auto done = client_->read(LocalPiece::of(std::span(got)), token_.at(512), soon()).wait();
  ASSERT_TRUE(done) << done.error();
  EXPECT_EQ(done->length, 4096u);
  EXPECT_EQ(got, expected);
}

TEST_P(Conformance, WritesWhatTheTargetThenSees) {
  const auto sent = pattern(5000, 2);
  const auto done = client_->write(LocalPiece::of(std::span(sent)), token_.at(100), soon()).wait();
  ASSERT_TRUE(done) << done.error();
  EXPECT_EQ(std::memcmp(memory_.bytes.data() + 100, sent.data(), sent.size()), 0);
}

TEST_P(Conformance, WritesTouchNothingBesideTheirRange) {
  const auto sent = pattern(64, 3);
  ASSERT_TRUE(client_->write(LocalPiece::of(std::span(sent)), token_.at(64), soon()).wait());
  EXPECT_EQ(word(memory_.bytes, 56), 0u);
  EXPECT_EQ(word(memory_.bytes, 128), 0u);
}

TEST_P(Conformance, MovesEverySizeAndAlignment) {
  Prng random(::yonder::testing::test_seed());
  for (int round = 0; round < 60; ++round) {
    const std::size_t length = 1 + random.below(round % 10 == 0 ? 30000 : 300);
    const std::size_t offset = random.below(kBytes - length + 1);
    const auto sent = pattern(length, static_cast<unsigned>(round));
    std::vector<std::byte> got(length);
    ASSERT_TRUE(client_->write(LocalPiece::of(std::span(sent)), token_.at(offset), soon()).wait());
    ASSERT_TRUE(client_->read(LocalPiece::of(std::span(got)), token_.at(offset), soon()).wait());
    ASSERT_EQ(got, sent) << "length " << length << " offset " << offset;
  }
}

TEST_P(Conformance, MovesAMegabyteInOneRequest) {
  const Memory memory = bed_->allocate(1 << 20);
  Region region = register_region(memory, Rights::kRead | Rights::kWrite);
  const auto sent = pattern(1 << 20, 4);
  std::vector<std::byte> got(1 << 20);
  const auto written = client_->write(LocalPiece::of(std::span(sent)), region.token().at(0), soon()).wait();
  ASSERT_TRUE(written) << written.error();
  ASSERT_TRUE(client_->read(LocalPiece::of(std::span(got)), region.token().at(0), soon()).wait());
  EXPECT_EQ(got, sent);
}

TEST_P(Conformance, ScattersAReadOverManyPieces) {
  const auto expected = pattern(kMaxPieces * 24, 5);
  std::memcpy(memory_.bytes.data(), expected.data(), expected.size());
  std::vector<std::byte> got(expected.size() * 2);
  std::vector<LocalPiece> pieces;
  for (std::uint32_t i = 0; i < client_->limits().max_pieces; ++i) {
    pieces.push_back(LocalPiece::of(std::span(got).subspan(i * 48, 24)));
  }
  const auto done = client_->read(pieces, token_.at(0), soon()).wait();
  ASSERT_TRUE(done) << done.error();
  EXPECT_EQ(done->length, pieces.size() * 24);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(std::memcmp(pieces[i].data, expected.data() + i * 24, 24), 0) << "piece " << i;
    EXPECT_EQ(std::to_integer<int>(got[i * 48 + 24]), 0) << "beyond piece " << i;
  }
}

TEST_P(Conformance, GathersAWriteFromManyPieces) {
  const auto sent = pattern(400, 6);
  const LocalPiece pieces[] = {LocalPiece::of(std::span(sent).first(100)),
                               LocalPiece::of(std::span(sent).subspan(100, 1)),
                               LocalPiece::of(std::span(sent).subspan(101, 299))};
  ASSERT_TRUE(client_->write(pieces, token_.at(8), soon()).wait());
  EXPECT_EQ(std::memcmp(memory_.bytes.data() + 8, sent.data(), sent.size()), 0);
}

TEST_P(Conformance, FetchAddReturnsTheOldWord) {
  for (std::uint64_t i = 0; i < 10; ++i) {
    const auto done = client_->fetch_add(token_.at(16), 3, soon()).wait();
    ASSERT_TRUE(done) << done.error();
    EXPECT_EQ(done->value, i * 3);
  }
  EXPECT_EQ(load_word(memory_.bytes, 16), 30u);
}

TEST_P(Conformance, CompareSwapSwapsOnlyWhenEqual) {
  const auto first = client_->compare_swap(token_.at(24), 0, 77, soon()).wait();
  ASSERT_TRUE(first) << first.error();
  EXPECT_EQ(first->value, 0u);
  const auto second = client_->compare_swap(token_.at(24), 0, 88, soon()).wait();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->value, 77u);
  EXPECT_EQ(load_word(memory_.bytes, 24), 77u);
}

TEST_P(Conformance, SaysWhoDoesTheAtomics) {
  EXPECT_EQ(token_.atomics, bed_->target().capabilities().atomics);
}

// ---------------------------------------------------------------- batches

TEST_P(Conformance, CompletesABatchInPostOrder) {
  constexpr std::size_t kCount = 64;
  std::vector<std::byte> buffers(kCount * 8);
  std::vector<LocalPiece> pieces(kCount);
  std::vector<WorkRequest> batch(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint64_t value = i + 1000;
    std::memcpy(memory_.bytes.data() + i * 8, &value, 8);
    pieces[i] = LocalPiece::of(std::span(buffers).subspan(i * 8, 8));
    batch[i] = {.op = Op::kRead,
                .user_data = i,
                .local = {&pieces[i], 1},
                .remote = token_.at(i * 8),
                .deadline = soon()};
  }
  const auto posted = client_->post(batch);
  ASSERT_TRUE(posted) << posted.error();
  ASSERT_EQ(*posted, kCount);
  const auto done = collect(*client_queue_, kCount);
  ASSERT_EQ(done.size(), kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(done[i].user_data, i);
    EXPECT_TRUE(done[i].ok()) << done[i].status;
    EXPECT_EQ(done[i].endpoint, client_->id());
    EXPECT_EQ(word(buffers, i * 8), i + 1000);
  }
}

TEST_P(Conformance, ExecutesRequestsOfOneEndpointInOrder) {
  // Each write overwrites the last, and each read must see just the write before
  // it: any reordering shows.
  constexpr std::size_t kPairs = 30;
  std::vector<std::uint64_t> values(kPairs), seen(kPairs);
  std::iota(values.begin(), values.end(), 1);
  std::vector<LocalPiece> pieces(2 * kPairs);
  std::vector<WorkRequest> batch(2 * kPairs);
  for (std::size_t i = 0; i < kPairs; ++i) {
    pieces[2 * i] = LocalPiece::of(std::as_bytes(std::span(&values[i], 1)));
    pieces[2 * i + 1] = LocalPiece::of(std::as_writable_bytes(std::span(&seen[i], 1)));
    batch[2 * i] = {
        .op = Op::kWrite, .local = {&pieces[2 * i], 1}, .remote = token_.at(40), .deadline = soon()};
    batch[2 * i + 1] = {
        .op = Op::kRead, .local = {&pieces[2 * i + 1], 1}, .remote = token_.at(40), .deadline = soon()};
  }
  ASSERT_EQ(client_->post(batch).value_or(0), batch.size());
  ASSERT_EQ(collect(*client_queue_, batch.size()).size(), batch.size());
  EXPECT_EQ(seen, values);
}

TEST_P(Conformance, UnsignalledRequestsCompleteOnlyByTheirEffect) {
  std::vector<std::uint64_t> values(20);
  std::iota(values.begin(), values.end(), 1);
  std::vector<LocalPiece> pieces(values.size());
  std::vector<WorkRequest> batch(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    pieces[i] = LocalPiece::of(std::as_bytes(std::span(&values[i], 1)));
    batch[i] = {.op = Op::kWrite,
                .flags = RequestFlags::kUnsignalled,
                .user_data = i,
                .local = {&pieces[i], 1},
                .remote = token_.at(8 * i),
                .deadline = soon()};
  }
  batch.back().flags = RequestFlags::kNone;
  ASSERT_EQ(client_->post(batch).value_or(0), batch.size());
  const auto done = collect(*client_queue_, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].user_data, batch.size() - 1);
  EXPECT_EQ(std::memcmp(memory_.bytes.data(), values.data(), values.size() * 8), 0);
  EXPECT_TRUE(collect(*client_queue_, 1, std::chrono::milliseconds(5)).empty());
}

TEST_P(Conformance, UnsignalledFailuresStillComplete) {
  std::uint64_t value = 1;
  const LocalPiece piece = LocalPiece::of(std::as_bytes(std::span(&value, 1)));
  const WorkRequest request{.op = Op::kWrite,
                            .flags = RequestFlags::kUnsignalled,
                            .user_data = 9,
                            .local = {&piece, 1},
                            .remote = token_.at(kBytes),
                            .deadline = soon()};
  ASSERT_TRUE(client_->post({&request, 1}));
  const auto done = collect(*client_queue_, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].user_data, 9u);
  EXPECT_FALSE(done[0].ok());
}

TEST_P(Conformance, InlinePayloadsMayBeReusedAtOnce) {
  std::vector<std::byte> buffer = pattern(32, 7);
  const auto sent = buffer;
  const LocalPiece piece = LocalPiece::of(std::span(buffer));
  ASSERT_GE(client_->limits().max_inline, 32u);
  const WorkRequest request{.op = Op::kWrite,
                            .flags = RequestFlags::kInline,
                            .local = {&piece, 1},
                            .remote = token_.at(0),
                            .deadline = soon()};
  ASSERT_TRUE(client_->post({&request, 1}));
  std::ranges::fill(buffer, std::byte{0xee});
  ASSERT_EQ(collect(*client_queue_, 1).size(), 1u);
  EXPECT_EQ(std::memcmp(memory_.bytes.data(), sent.data(), sent.size()), 0);
}

TEST_P(Conformance, AcceptsNoMoreThanItsDepthAndTheRestLater) {
  const auto narrow = connect({.depth = 8});
  ASSERT_NE(narrow, nullptr);
  ASSERT_EQ(narrow->limits().depth, 8u);
  const auto peer = accept();
  std::vector<std::byte> buffer(8);
  const LocalPiece piece = LocalPiece::of(std::span(buffer));
  const WorkRequest request{
      .op = Op::kRead, .local = {&piece, 1}, .remote = token_.at(0), .deadline = soon()};
  const std::vector<WorkRequest> batch(20, request);
  std::size_t posted = 0;
  std::size_t completed = 0;
  bool was_cut = false;
  while (completed < batch.size()) {
    if (posted < batch.size()) {
      const auto count = narrow->post(std::span(batch).subspan(posted));
      if (count) {
        EXPECT_LE(*count, 8u);
        was_cut |= *count < batch.size() - posted;
        posted += *count;
      } else {
        EXPECT_EQ(count.error(), ErrorCode::kQueueFull);
      }
    }
    const auto done = collect(*client_queue_, 1);
    ASSERT_EQ(done.size(), 1u);
    ++completed;
  }
  EXPECT_TRUE(was_cut);
}

TEST_P(Conformance, KeepsRawCompletionsWhileABlockingCallPolls) {
  std::vector<std::byte> buffer(16);
  const LocalPiece piece = LocalPiece::of(std::span(buffer).first(8));
  const WorkRequest request{
      .op = Op::kRead, .user_data = 5, .local = {&piece, 1}, .remote = token_.at(0), .deadline = soon()};
  ASSERT_TRUE(client_->post({&request, 1}));
  ASSERT_TRUE(client_->read(LocalPiece::of(std::span(buffer).subspan(8)), token_.at(0), soon()).wait());
  const auto done = collect(*client_queue_, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].user_data, 5u);
}

}  // namespace
}  // namespace yonder::fabric::conformance
