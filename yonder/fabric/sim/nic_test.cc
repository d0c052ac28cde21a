// The model of the hardware: near the figures of paper 002, and moving in the
// right direction when something changes.
#include "yonder/fabric/sim/nic_model.h"

#include <gtest/gtest.h>

#include "yonder/base/prng.h"
#include "yonder/fabric/sim/internal/test_bed.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::sim {
namespace {

WorldOptions two_hosts(const NicModel& model = connectx3_40g()) {
  return {.seed = 1, .hosts = 2, .host = {.nics = {{.model = model}}}};
}

class Local {
 public:
  explicit Local(std::size_t bytes) : bytes_(bytes) {}
  LocalPiece piece(std::size_t length) { return LocalPiece::of(std::span(bytes_).first(length)); }
  WorkRequest request(Op op, RemoteAddress remote, std::size_t length,
                      RequestFlags flags = RequestFlags::kNone) {
    piece_ = piece(length);
    return {.op = op, .flags = flags, .local = {&piece_, 1}, .remote = remote};
  }

 private:
  std::vector<std::byte> bytes_;
  LocalPiece piece_;
};

double write_ns(TestBed& bed, Local& local, std::size_t bytes, RequestFlags flags = RequestFlags::kNone) {
  return bed.time_ns(
      [&] { return bed.client().perform(local.request(Op::kWrite, bed.token.at(0), bytes, flags)); });
}
double read_ns(TestBed& bed, Local& local, std::size_t bytes) {
  return bed.time_ns([&] { return bed.client().read(local.piece(bytes), bed.token.at(0)); });
}

TEST(NicModel, SmallRequestsTakeAsLongAsInThePaper) {
  TestBed bed({.world = two_hosts()});
  Local local(4096);
  write_ns(bed, local, 32);  // Fills the caches of both NICs.
  EXPECT_NEAR(write_ns(bed, local, 32, RequestFlags::kInline), 1160, 60);
  EXPECT_NEAR(read_ns(bed, local, 32), 2000, 100);
  EXPECT_NEAR(write_ns(bed, local, 256), 1790, 120);
  EXPECT_NEAR(read_ns(bed, local, 256), 2220, 150);
}

TEST(NicModel, OneNicSustainsThePapersMessageRate) {
  TestBed bed({.world = two_hosts()});
  Local local(4096);
  const double writes = bed.mops(20'000, 64, [&](std::size_t i) {
    return local.request(Op::kWrite, bed.token.at(i % 512 * 64), 32, RequestFlags::kInline);
  });
  const double reads = bed.mops(
      20'000, 64, [&](std::size_t i) { return local.request(Op::kRead, bed.token.at(i % 512 * 64), 32); });
  EXPECT_NEAR(writes, 4.7, 0.35);
  EXPECT_NEAR(reads, 4.2, 0.35);
}

TEST(NicModel, AtomicsAreSerialisedByTheTargetsNic) {
  TestBed bed({.world = two_hosts()});
  const double rate = bed.mops(20'000, 64, [&](std::size_t) {
    return WorkRequest{.op = Op::kFetchAdd, .remote = bed.token.at(0), .operand = 1};
  });
  EXPECT_GT(rate, 2.2);
  EXPECT_LT(rate, 2.6);
}

TEST(NicModel, LargeTransfersReachTheLinkAndNotMore) {
  TestBed bed({.world = two_hosts(), .bytes = 1 << 20});
  Local local(1 << 20);
  for (const Op op : {Op::kWrite, Op::kRead}) {
    const double mops =
        bed.mops(400, 8, [&](std::size_t) { return local.request(op, bed.token.at(0), 256 * 1024); });
    const double gigabits = mops * 1e6 * 256 * 1024 * 8 / 1e9;
    EXPECT_LT(gigabits, 40.0);
    EXPECT_GT(gigabits, 35.0) << static_cast<int>(op);
  }
}

TEST(NicModel, MoreBytesTakeLonger) {
  TestBed bed({.world = two_hosts(), .bytes = 1 << 20});
  Local local(1 << 20);
  read_ns(bed, local, 1 << 20);
  double last_read = 0;
  double last_write = 0;
  for (std::size_t bytes = 64; bytes <= (1 << 20); bytes *= 4) {
    const double read = read_ns(bed, local, bytes);
    const double write = write_ns(bed, local, bytes);
    EXPECT_GT(read, last_read) << bytes;
    EXPECT_GT(write, last_write) << bytes;
    last_read = read;
    last_write = write;
  }
  EXPECT_GT(last_read, 210'000);  // 1 MiB at 40 Gb/s.
}

TEST(NicModel, InlineSparesTheFetchOfThePayload) {
  TestBed bed({.world = two_hosts()});
  Local local(4096);
  write_ns(bed, local, 64);
  EXPECT_LT(write_ns(bed, local, 64, RequestFlags::kInline) + 300, write_ns(bed, local, 64));
}

TEST(NicModel, SequentialBeatsRandomBeyondTheTranslationCache) {
  constexpr std::size_t kBig = 64 << 20;
  TestBed bed({.world = two_hosts(), .bytes = kBig});
  Local local(64);
  Prng random(testing::test_seed());
  const auto write_at = [&](std::uint64_t offset) {
    return local.request(Op::kWrite, bed.token.at(offset), 32, RequestFlags::kInline);
  };
  const double sequential = bed.mops(20'000, 32, [&](std::size_t i) { return write_at(i * 32); });
  const double scattered =
      bed.mops(20'000, 32, [&](std::size_t) { return write_at(random.below(kBig / 32) * 32); });
  EXPECT_GT(sequential, 2 * scattered);
  // Within 4 MiB it makes no difference (paper 002, figure 6d).
  const std::size_t reach = 2 << 20;
  (void)bed.mops(reach / 4096, 1, [&](std::size_t i) { return write_at(i * 4096); });
  const double near =
      bed.mops(20'000, 32, [&](std::size_t) { return write_at(random.below(reach / 32) * 32); });
  EXPECT_GT(near, 0.97 * sequential);
}

TEST(NicModel, HugePagesReachFurther) {
  constexpr std::size_t kBig = 64 << 20;
  WorldOptions options = two_hosts();
  options.host.page_bytes = 2 << 20;
  TestBed bed({.world = options, .bytes = kBig});
  Local local(64);
  Prng random(testing::test_seed());
  (void)bed.mops(20'000, 32, [&](std::size_t) {
    return local.request(Op::kWrite, bed.token.at(random.below(kBig / 32) * 32), 32, RequestFlags::kInline);
  });
  EXPECT_LE(bed.world.host(0).counters().translation_misses, kBig >> 21);
}

TEST(NicModel, TenTimesMoreRegionsCostLatency) {
  const auto latency = [](std::size_t count) {
    TestBed bed({.world = two_hosts()});
    std::vector<Region> regions;
    for (std::size_t i = 0; i < count; ++i) {
      auto region =
          bed.world.host(0).fabric().register_memory({.memory = bed.memory, .rights = Rights::kAll});
      regions.push_back(std::move(*region));
    }
    Local local(64);
    double sum = 0;
    for (std::size_t i = 0; i < 2000; ++i) {
      const RemoteAddress where = regions[i % count].token().at(0);
      const double ns = bed.time_ns(
          [&] { return bed.client().perform(local.request(Op::kWrite, where, 32, RequestFlags::kInline)); });
      if (i >= 1000) sum += ns;
    }
    return sum / 1000;
  };
  const double few = latency(32);
  const double many = latency(320);
  EXPECT_GT(many, 1.4 * few);
  EXPECT_LT(many, 2.2 * few);
}

TEST(NicModel, ManyQueuePairsThrashTheNic) {
  TestBed bed({.world = two_hosts()});
  Local local(64);
  std::vector<TestClient> many;
  for (int i = 0; i < 1024; ++i) {
    many.push_back(bed.connect(1, {.endpoint = {.depth = 4, .receive_depth = 1}}));
  }
  const auto round = [&](std::size_t count) {
    const Instant begin = bed.now();
    for (std::size_t i = 0; i < 2048; ++i) {
      (void)many[i % count].endpoint->write(local.piece(32), bed.token.at(0)).wait();
    }
    return bed.now() - begin;
  };
  round(64);
  const Duration few = round(64);
  const Duration all = round(1024);
  EXPECT_GT(all, few * 5 / 4);
  EXPECT_GT(bed.world.host(1).counters().context_misses, 1024u);
}

TEST(NicModel, AListOfRequestsOverlapsButPaysForEach) {
  TestBed bed({.world = two_hosts()});
  Local local(4096);
  write_ns(bed, local, 32);  // Fills the caches.
  const double one = write_ns(bed, local, 32, RequestFlags::kInline);
  const std::vector<WorkRequest> requests(
      16, local.request(Op::kWrite, bed.token.at(0), 32, RequestFlags::kInline));
  const Instant begin = bed.now();
  ASSERT_EQ(bed.client().post(requests).value_or(0), 16u);
  for (std::size_t ended = 0; ended < 16;) {
    (void)bed.queue().wait();
    Completion batch[16];
    ended += bed.queue().poll(batch);
  }
  const auto all = static_cast<double>((bed.now() - begin).count());
  EXPECT_LT(all, 16 * one / 2);
  // The unit of the NIC takes them one by one: 15 more after the first.
  EXPECT_GT(all, one + 15 * 200);
}

TEST(NicModel, PiecesOfOneRequestAreCheaperThanRequests) {
  TestBed bed({.world = two_hosts()});
  std::vector<std::byte> local(16 * 32);
  std::vector<LocalPiece> pieces;
  for (std::size_t i = 0; i < 16; ++i) pieces.push_back(LocalPiece::of(std::span(local).subspan(i * 32, 32)));
  const double gathered = bed.time_ns([&] { return bed.client().write(pieces, bed.token.at(0)); });
  double separate = 0;
  for (const LocalPiece& piece : pieces) {
    separate += bed.time_ns([&] { return bed.client().write(piece, bed.token.at(0)); });
  }
  EXPECT_LT(gathered * 4, separate);
}

// Host 1's thread, its NIC and both memories: on which socket?
double numa_latency(std::uint32_t cpu_socket, std::uint32_t memory_socket) {
  TestBedOptions options{.world = {.hosts = 1}};
  options.world.host = {.sockets = 2, .nics = {{.socket = 1}}};
  TestBed bed(options);
  bed.world.add_host({.name = "client", .sockets = 2, .nics = {{.socket = 1}}});
  bed.world.host(0).place({.socket = 1, .memory_socket = memory_socket});
  auto region = bed.world.host(0).fabric().register_memory({.memory = bed.memory, .rights = Rights::kAll});
  bed.world.host(1).place({.socket = cpu_socket, .memory_socket = memory_socket});
  bed.clients.push_back(bed.connect(1));
  Local local(64);
  const auto write = [&] {
    return bed.client().perform(local.request(Op::kWrite, region->token().at(0), 32, RequestFlags::kInline));
  };
  bed.time_ns(write);
  return bed.time_ns(write);
}

TEST(NicModel, FarSocketsCost) {
  const double best = numa_latency(1, 1);
  const double far_memory = numa_latency(1, 0);
  const double worst = numa_latency(0, 0);
  // Paper 002, section III-D: 4 to 10 % for far memory, 55 % for all of it far.
  EXPECT_GT(far_memory, 1.04 * best);
  EXPECT_LT(far_memory, 1.10 * best);
  EXPECT_NEAR(worst / best, 1.55, 0.05);
}

TEST(NicModel, TheFasterNicIsFaster) {
  TestBed old_bed({.world = two_hosts(connectx3_40g())});
  TestBed new_bed({.world = two_hosts(rdma100g())});
  Local local(64 * 1024);
  for (const std::size_t bytes : {64u, 4096u, 65536u}) {
    EXPECT_LT(read_ns(new_bed, local, bytes), read_ns(old_bed, local, bytes)) << bytes;
  }
}

}  // namespace
}  // namespace yonder::fabric::sim
