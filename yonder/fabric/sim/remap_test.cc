// Remapping under a registration (CoRM, figure 8): pinned, re-registered, on demand.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "yonder/fabric/sim/internal/test_bed.h"

namespace yonder::fabric::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPage = 4096;

// Two pages of a memfd; the first is mapped at `memory`, and remap() puts the
// second there, as a compaction does.
class Pages {
 public:
  Pages() : fd_(::memfd_create("remap_test", 0)) {
    YONDER_CHECK(fd_ >= 0 && ::ftruncate(fd_, 2 * kPage) == 0, "a memfd of two pages");
    memory_ = static_cast<std::byte*>(::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
    YONDER_CHECK(::pwrite(fd_, "old page", 8, 0) == 8 && ::pwrite(fd_, "new page", 8, kPage) == 8,
                 "two texts");
  }
  ~Pages() {
    ::munmap(memory_, kPage);
    ::close(fd_);
  }
  void remap() {
    YONDER_CHECK(
        ::mmap(memory_, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, kPage) == memory_,
        "the second page");
  }
  std::span<std::byte> memory() const { return {memory_, kPage}; }
  Backing old_backing() const { return {.fd = fd_, .offset = 0}; }
  Backing new_backing() const { return {.fd = fd_, .offset = kPage}; }

 private:
  int fd_;
  std::byte* memory_;
};

struct Remap {
  explicit Remap(bool on_demand)
      : bed({.world = {.host = {.nics = {{.model = rdma100g()}}}},
             .region = {.memory = pages.memory(),
                        .rights = Rights::kAll,
                        .backing = pages.old_backing(),
                        .on_demand_paging = on_demand}}) {}

  std::string read() {
    char text[8] = {};
    const auto done =
        bed.client().read(LocalPiece::of(std::as_writable_bytes(std::span(text))), bed.token.at(0)).wait();
    return done ? std::string(text, 8) : std::string(error_name(done.error().code()));
  }
  Duration read_time() {
    const Instant begin = bed.now();
    (void)read();
    return bed.now() - begin;
  }

  Pages pages;
  TestBed bed;
};

TEST(Remap, APinnedRegionStillReachesTheOldPage) {
  Remap remap(false);
  EXPECT_EQ(remap.read(), "old page");
  remap.pages.remap();
  EXPECT_EQ(std::memcmp(remap.pages.memory().data(), "new page", 8), 0);
  EXPECT_EQ(remap.read(), "old page");
}

TEST(Remap, ReregistrationShowsTheNewPageUnderTheSameKey) {
  Remap remap(false);
  remap.pages.remap();
  const Instant begin = remap.bed.now();
  ASSERT_TRUE(remap.bed.region.rebind(remap.pages.memory(), remap.pages.new_backing()));
  EXPECT_EQ(remap.bed.now() - begin, 9us);
  EXPECT_EQ(remap.bed.region.token(), remap.bed.token);
  EXPECT_EQ(remap.read(), "new page");
}

TEST(Remap, AnAccessDuringReregistrationBreaksItsConnectionOnly) {
  Remap remap(false);
  TestBed& bed = remap.bed;
  TestClient bystander = bed.connect(1);
  char text[8] = {};
  const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(text)));
  const WorkRequest read{.op = Op::kRead, .user_data = 7, .local = {&piece, 1}, .remote = bed.token.at(0)};
  ASSERT_TRUE(bed.client().post({&read, 1}));
  remap.pages.remap();
  ASSERT_TRUE(bed.region.rebind(remap.pages.memory(), remap.pages.new_backing()));
  Completion done[1];
  ASSERT_EQ(bed.queue().poll(done), 1u);
  EXPECT_EQ(done[0].status, ErrorCode::kConnectionLost);
  EXPECT_EQ(bed.client().state(), EndpointState::kReconnecting);
  EXPECT_EQ(bystander.endpoint->state(), EndpointState::kOpen);
  // The endpoint comes back by itself, in milliseconds.
  EXPECT_GT(remap.read_time(), 5ms);
  EXPECT_EQ(remap.read(), "new page");
}

TEST(Remap, ACopyUnderWayIsNeverAMixture) {
  // The read is moving bytes when the region is bound elsewhere.
  std::vector<std::byte> before(256 * 1024, std::byte{1});
  std::vector<std::byte> after(256 * 1024, std::byte{2});
  TestBed bed({.region = {.memory = before, .rights = Rights::kAll}});
  std::vector<std::byte> got(before.size(), std::byte{0});
  const LocalPiece piece = LocalPiece::of(std::span(got));
  const WorkRequest read{.op = Op::kRead, .local = {&piece, 1}, .remote = bed.token.at(0)};
  ASSERT_TRUE(bed.client().post({&read, 1}));
  bed.world.run_for(10us);
  EXPECT_EQ(got[0], std::byte{1});
  EXPECT_EQ(got.back(), std::byte{0});
  ASSERT_TRUE(bed.region.rebind(after));
  Completion done[1];
  ASSERT_EQ(bed.queue().poll(done), 1u);
  EXPECT_EQ(done[0].status, ErrorCode::kConnectionLost);
  EXPECT_EQ(got.back(), std::byte{0});
}

TEST(Remap, OnDemandPagingFaultsOnceAndBreaksNothing) {
  Remap remap(true);
  EXPECT_EQ(remap.read(), "old page");
  const Duration usual = remap.read_time();
  remap.pages.remap();
  remap.bed.world.host(0).pages_remapped(remap.pages.memory());
  const Duration first = remap.read_time();
  EXPECT_NEAR(static_cast<double>((first - usual).count()), 63'000, 2);
  EXPECT_EQ(remap.read(), "new page");
  EXPECT_LE(remap.read_time(), usual + 1ns);  // Up to where the picoseconds fall.
  EXPECT_EQ(remap.bed.client().state(), EndpointState::kOpen);
}

TEST(Remap, PrefetchSparesTheFault) {
  Remap remap(true);
  (void)remap.read();
  const Duration usual = remap.read_time();
  remap.pages.remap();
  remap.bed.world.host(0).pages_remapped(remap.pages.memory());
  const Instant begin = remap.bed.now();
  ASSERT_TRUE(remap.bed.region.prefetch(0, kPage));
  EXPECT_EQ((remap.bed.now() - begin).count(), 4500);
  EXPECT_EQ(remap.read(), "new page");
  EXPECT_LE(remap.read_time(), usual + 1ns);  // Up to where the picoseconds fall.
}

TEST(Remap, TheRegionCanBeToldInsteadOfTheHost) {
  Remap remap(true);
  (void)remap.read();
  const Duration usual = remap.read_time();
  remap.pages.remap();
  remap.bed.region.pages_remapped(0, kPage);
  EXPECT_GT(remap.read_time(), usual + 60us);
  EXPECT_EQ(remap.read(), "new page");
  EXPECT_DEATH(remap.bed.region.pages_remapped(kPage, 1), "the region's");
}

TEST(Remap, PrefetchSaysWhatItCannotDo) {
  Remap pinned(false);
  const auto unsupported = pinned.bed.region.prefetch(0, kPage);
  ASSERT_FALSE(unsupported);
  EXPECT_EQ(unsupported.error(), ErrorCode::kUnsupported);
  Remap on_demand(true);
  const auto outside = on_demand.bed.region.prefetch(kPage, 1);
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error(), ErrorCode::kOutOfBounds);
  on_demand.bed.region.revoke();
  const auto gone = on_demand.bed.region.prefetch(0, kPage);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error(), ErrorCode::kClosed);
}

TEST(Remap, AnOldNicHasNoOnDemandPaging) {
  World world;
  std::vector<std::byte> memory(kPage);
  const auto region = world.host(0).fabric().register_memory({.memory = memory, .on_demand_paging = true});
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error(), ErrorCode::kUnsupported);
}

TEST(Remap, RevocationStopsACopyUnderWay) {
  TestBed bed({.bytes = 256 * 1024});
  std::vector<std::byte> sent(256 * 1024, std::byte{1});
  const LocalPiece piece = LocalPiece::of(std::span(sent));
  const WorkRequest write{.op = Op::kWrite, .local = {&piece, 1}, .remote = bed.token.at(0)};
  ASSERT_TRUE(bed.client().post({&write, 1}));
  bed.world.run_for(40us);
  EXPECT_EQ(bed.memory.front(), std::byte{1});
  bed.region.revoke();
  const std::vector<std::byte> at_revocation = bed.memory;
  EXPECT_EQ(at_revocation.back(), std::byte{0});
  ASSERT_TRUE(bed.queue().wait());
  Completion done[1];
  ASSERT_EQ(bed.queue().poll(done), 1u);
  EXPECT_EQ(done[0].status, ErrorCode::kRegionRevoked);
  EXPECT_EQ(bed.memory, at_revocation);
}

}  // namespace
}  // namespace yonder::fabric::sim
