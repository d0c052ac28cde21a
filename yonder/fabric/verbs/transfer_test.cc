// Local memory of every kind, floods and allocations, on a real RDMA device.
#include <gtest/gtest.h>

#include <cstring>

#include "yonder/base/prng.h"
#include "yonder/fabric/verbs/device_test_support.h"
#include "yonder/testing/allocation_counter.h"
#include "yonder/testing/patience.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::verbs {
namespace {

const RequireDevice kDevice;

class Transfer : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 4 << 20;

  void SetUp() override { open_with({}); }

  void open_with(const Options& options) {
    auto fabric = open(options);
    ASSERT_TRUE(fabric) << fabric.error();
    fabric_ = std::move(*fabric);
    Prng random(::yonder::testing::test_seed());
    for (std::byte& byte : memory_) byte = static_cast<std::byte>(random());
    auto region = fabric_->register_memory({.memory = memory_, .rights = Rights::kAll});
    ASSERT_TRUE(region) << region.error();
    region_ = std::move(*region);
    auto queue = fabric_->create_completion_queue({});
    ASSERT_TRUE(queue) << queue.error();
    queue_ = std::move(*queue);
    auto listener = fabric_->listen({.address = "verbs://*:0", .passive = true});
    ASSERT_TRUE(listener) << listener.error();
    listener_ = std::move(*listener);
    auto endpoint = fabric_->connect(
        {.address = listener_->address(), .connect_timeout = ::yonder::testing::kPatience}, *queue_);
    ASSERT_TRUE(endpoint) << endpoint.error();
    endpoint_ = std::move(*endpoint);
  }
  void close_all() {
    endpoint_.reset();
    listener_.reset();
    queue_.reset();
    region_ = Region();
    fabric_.reset();
  }
  Deadline soon() const { return Deadline::after(fabric_->clock(), ::yonder::testing::kPatience); }
  std::size_t collect(std::size_t count) {
    const Deadline deadline = soon();
    std::size_t ok = 0;
    for (std::size_t got = 0; got < count && !deadline.passed(fabric_->clock().now());) {
      Completion batch[32];
      const std::size_t more = queue_->poll(std::span(batch).first(std::min<std::size_t>(32, count - got)));
      for (std::size_t i = 0; i < more; ++i) ok += batch[i].ok();
      got += more;
      if (more == 0) (void)queue_->wait(deadline);
    }
    return ok;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
  std::unique_ptr<Fabric> fabric_;
  Region region_;
  std::unique_ptr<CompletionQueue> queue_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Endpoint> endpoint_;
};

TEST_F(Transfer, ReadsIntoRegisteredUnregisteredAndMixedPieces) {
  std::vector<std::byte> own(300000), foreign(300000);
  // Not at a page's start: the NIC's addresses of a region count from there.
  const std::span<std::byte> inside = std::span(own).subspan(12345, 200000);
  auto local = fabric_->register_memory({.memory = inside});
  ASSERT_TRUE(local) << local.error();
  for (const std::uint32_t length : {1u, 8u, 256u, 257u, 5000u, 66000u, 150000u}) {
    const LocalPiece registered{inside.data() + 77, length, local->local_key()};
    const LocalPiece unregistered = LocalPiece::of(std::span(foreign).first(length));
    const LocalPiece empty{};
    const LocalPiece lists[][3] = {
        {registered, empty, empty}, {unregistered, empty, empty}, {registered, empty, unregistered}};
    for (const auto& list : lists) {
      std::ranges::fill(own, std::byte{0});
      std::ranges::fill(foreign, std::byte{0});
      const auto done = endpoint_->read(list, region_.token().at(4099), soon()).wait();
      ASSERT_TRUE(done) << done.error() << " length " << length;
      const std::byte* expected = memory_.data() + 4099;
      for (const LocalPiece& piece : list) {
        if (piece.length == 0) continue;
        ASSERT_EQ(std::memcmp(piece.data, expected, piece.length), 0) << "length " << length;
        expected += piece.length;
      }
      EXPECT_EQ(own[12345 + 76], std::byte{0});
      EXPECT_EQ(own[12345 + 77 + length], std::byte{0});
    }
  }
}

TEST_F(Transfer, WritesFromARegisteredAndALongUnregisteredBuffer) {
  constexpr std::size_t kLong = 3 << 20;  // Over 1 MiB: registered for the transfer.
  std::vector<std::byte> source(kLong);
  Prng random(::yonder::testing::test_seed());
  for (std::byte& byte : source) byte = static_cast<std::byte>(random());
  const auto written =
      endpoint_->write(LocalPiece::of(std::span(source)), region_.token().at(11), soon()).wait();
  ASSERT_TRUE(written) << written.error();
  EXPECT_EQ(std::memcmp(memory_.data() + 11, source.data(), kLong), 0);
  std::vector<std::byte> back(kLong);
  const auto read = endpoint_->read(LocalPiece::of(std::span(back)), region_.token().at(11), soon()).wait();
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(back, source);
}

TEST_F(Transfer, AnExhaustedBouncePoolFailsTheRequestAlone) {
  close_all();
  open_with({.bounce_bytes = std::size_t{1} << 20});
  std::vector<std::byte> first(1 << 20), second(1 << 20), small(8);
  const LocalPiece pieces[] = {LocalPiece::of(std::span(first)), LocalPiece::of(std::span(second)),
                               LocalPiece::of(std::span(small))};
  WorkRequest batch[3];
  for (std::size_t i = 0; i < 3; ++i) {
    batch[i] = {
        .user_data = i, .local = {&pieces[i], 1}, .remote = region_.token().at(0), .deadline = soon()};
  }
  ASSERT_EQ(endpoint_->post(batch).value_or(0), 3u);
  std::vector<Completion> done;
  while (done.size() < 3) {
    Completion completion;
    if (queue_->poll({&completion, 1}) == 1) done.push_back(completion);
  }
  EXPECT_TRUE(done[0].ok());
  EXPECT_EQ(done[1].status, ErrorCode::kResourceExhausted);
  EXPECT_EQ(done[1].user_data, 1u);
  EXPECT_TRUE(done[2].ok());
  // The block is back: now there is room.
  EXPECT_TRUE(endpoint_->read(pieces[1], region_.token().at(0), soon()).wait());
}

TEST_F(Transfer, AFloodOfUnsignalledWritesReclaimsItsOwnSlots) {
  constexpr std::uint64_t kWrites = 3000;
  const Deadline deadline = soon();
  for (std::uint64_t i = 1; i <= kWrites;) {
    const LocalPiece piece = LocalPiece::of(std::as_bytes(std::span(&i, 1)));
    const WorkRequest write{.op = Op::kWrite,
                            .flags = RequestFlags::kUnsignalled | RequestFlags::kInline,
                            .local = {&piece, 1},
                            .remote = region_.token().at(i % 64 * 8),
                            .deadline = deadline};
    if (endpoint_->post({&write, 1})) {
      ++i;
    } else {
      ASSERT_FALSE(deadline.passed(fabric_->clock().now())) << "stuck at " << i;
      Completion none;
      ASSERT_EQ(queue_->poll({&none, 1}), 0u);
    }
  }
  std::uint64_t last = 0;
  const LocalPiece piece = LocalPiece::of(std::as_bytes(std::span(&last, 1)));
  ASSERT_TRUE(endpoint_->read(piece, region_.token().at(kWrites % 64 * 8), soon()).wait());
  EXPECT_EQ(last, kWrites);
}

TEST_F(Transfer, TheSteadyStateAllocatesNothing) {
  std::vector<std::byte> buffer(8192);
  auto local = fabric_->register_memory({.memory = buffer});
  ASSERT_TRUE(local) << local.error();
  const LocalPiece registered = LocalPiece::of(std::span(buffer), local->local_key());
  const LocalPiece bounced = LocalPiece::of(std::span(buffer));
  const LocalPiece small = LocalPiece::of(std::span(buffer).first(64));
  const auto round = [&] {
    const RemoteAddress at = region_.token().at(0);
    const WorkRequest batch[] = {
        {.local = {&registered, 1}, .remote = at, .deadline = soon()},
        {.local = {&bounced, 1}, .remote = at, .deadline = soon()},
        {.op = Op::kWrite, .local = {&small, 1}, .remote = at, .deadline = soon()},
        {.op = Op::kFetchAdd, .remote = at, .operand = 1, .deadline = soon()},
    };
    EXPECT_EQ(endpoint_->post(batch).value_or(0), 4u);
    EXPECT_EQ(collect(4), 4u);
  };
  for (int i = 0; i < 10; ++i) round();
  const std::uint64_t before = ::yonder::testing::allocations();
  for (int i = 0; i < 100; ++i) round();
  EXPECT_EQ(::yonder::testing::allocations(), before);
}

TEST_F(Transfer, RefusesAtomicsOnMemoryThatStartsAtAnOddAddress) {
  const auto region =
      fabric_->register_memory({.memory = std::span(memory_).subspan(4), .rights = Rights::kAtomic});
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error(), ErrorCode::kMisaligned);
}

TEST_F(Transfer, SaysPlainlyWhatTheDeviceLacks) {
  auto region = fabric_->register_memory({.memory = memory_, .on_demand_paging = true});
  if (fabric_->capabilities().on_demand_paging) {
    EXPECT_TRUE(region);
    return;
  }
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error(), ErrorCode::kUnsupported);
  const auto prefetched = region_.prefetch(0, 4096);
  ASSERT_FALSE(prefetched);
  EXPECT_EQ(prefetched.error(), ErrorCode::kUnsupported);
  const auto tenant = fabric_->register_memory({.memory = memory_, .tenant = TenantId{7}});
  ASSERT_FALSE(tenant);
  EXPECT_EQ(tenant.error(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace yonder::fabric::verbs
