// Locks, reader-writer locks, counters and barriers.
#include <algorithm>
#include <vector>

#include "yonder/remote/counter.h"
#include "yonder/remote/lock.h"
#include "yonder/remote/rw_lock.h"
#include "yonder/remote/suite/bed.h"

namespace yonder::remote::suite {
namespace {

using namespace std::chrono_literals;

// Long enough that a machine that stands still for a while loses no lease.
constexpr Duration kLong = 60s;

struct Inside {
  int now = 0;
  int most = 0;
  int total = 0;
  void enter() { most = std::max(most, ++now); }
  void leave() {
    --now;
    ++total;
  }
};

Task<void> enter_often(Lock& lock, fabric::Scheduler& scheduler, Inside& inside) {
  for (int i = 0; i < 10; ++i) {
    Result<Lease> lease = co_await lock.async_lock();
    if (!lease) co_return;
    inside.enter();
    co_await scheduler.sleep_for(3us);
    inside.leave();
    const Result<void> unlocked = co_await lock.async_unlock(*lease);
    if (!unlocked) co_return;
  }
}

TEST_P(RemoteSuite, OneAtATimeHoldsALock) {
  Client& client = connect();
  std::vector<std::unique_ptr<Lock>> locks;
  Inside inside;
  for (std::uint64_t i = 0; i < 4; ++i) {
    locks.push_back(std::make_unique<Lock>(client.port(), at(8), LockOptions{.lease = kLong, .seed = i}));
    client.scheduler().spawn(enter_often(*locks.back(), client.scheduler(), inside));
  }
  ASSERT_TRUE(client.scheduler().run(client.port().deadline({})));
  EXPECT_EQ(inside.total, 40);
  EXPECT_EQ(inside.most, 1);
}

TEST_P(RemoteSuite, TokensGrowWithEveryHolder) {
  Client& client = connect();
  Lock one(client.port(), at(0), {.lease = kLong});
  Lock other(client.port(), at(0), {.lease = kLong});
  for (std::uint64_t i = 1; i <= 4; ++i) {
    Lock& lock = i % 2 == 0 ? one : other;
    auto lease = lock.lock();
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->token(), i);
    EXPECT_TRUE(lock.is_current(*lease));
    const auto refused = (i % 2 == 0 ? other : one).try_lock();
    ASSERT_TRUE(refused);
    EXPECT_FALSE(*refused);
    ASSERT_TRUE(lock.renew(*lease));
    ASSERT_TRUE(lock.unlock(*lease));
    EXPECT_EQ(lock.unlock(*lease).error(), ErrorCode::kLeaseLost);
  }
}

TEST_P(RemoteSuite, WaitingForALockEndsAtTheDeadline) {
  Client& client = connect();
  Lock holder(client.port(), at(0), {.lease = kLong});
  Lock waiter(client.port(), at(0), {.lease = kLong});
  ASSERT_TRUE(holder.lock());
  const auto late = waiter.lock(Deadline::after(client.port().clock(), 2ms));
  EXPECT_EQ(late.error(), ErrorCode::kDeadlineExceeded);
}

TEST_P(RemoteSuite, AHolderThatDoesNotRenewIsTakenOverAndFenced) {
  Client& client = connect();
  const RemoteAddress commit = at(64);
  Lock dead(client.port(), at(0), {.lease = 2ms});
  Lock next(client.port(), at(0), {.lease = 2ms, .seed = 2});
  auto old_lease = dead.lock();
  ASSERT_TRUE(old_lease);
  const auto value = dead.fence(*old_lease, commit);
  ASSERT_TRUE(value);
  EXPECT_EQ(*value, 0U);

  auto lease = next.lock();
  ASSERT_TRUE(lease) << lease.error();
  EXPECT_EQ(next.stats().takeovers, 1U);
  EXPECT_GT(lease->token(), old_lease->token());
  EXPECT_FALSE(dead.is_current(*old_lease));
  ASSERT_TRUE(next.fence(*lease, commit));
  EXPECT_TRUE(next.publish(*lease, commit, 0, 7));

  // Whatever the old holder does now is refused.
  EXPECT_EQ(dead.publish(*old_lease, commit, 0, 9).error(), ErrorCode::kLeaseLost);
  EXPECT_EQ(dead.fence(*old_lease, commit).error(), ErrorCode::kLeaseLost);
  EXPECT_EQ(dead.renew(*old_lease).error(), ErrorCode::kLeaseLost);
  EXPECT_EQ(dead.unlock(*old_lease).error(), ErrorCode::kLeaseLost);
  EXPECT_EQ(FencedWord::value(client.port().load(commit).value()), 7U);
}

TEST_P(RemoteSuite, ReadersShareAndWritersDoNot) {
  Client& client = connect();
  RwLock a(client.port(), at(0), {.lease = kLong});
  RwLock b(client.port(), at(0), {.lease = kLong, .seed = 2});
  const auto soon = [&] { return Deadline::after(client.port().clock(), 1ms); };
  auto first = a.lock_shared();
  auto second = b.lock_shared();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(RwWord::readers(client.port().load(at(0)).value()), 2U);
  // On a machine that stands still the deadline may pass before the first try.
  do EXPECT_EQ(a.lock(soon()).error(), ErrorCode::kDeadlineExceeded);
  while (!RwWord::is_wanted(client.port().load(at(0)).value()));
  // A writer wants it: no further reader enters.
  EXPECT_EQ(b.lock_shared(soon()).error(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(a.renew(*first));
  EXPECT_TRUE(a.unlock_shared(*first));
  EXPECT_TRUE(b.unlock_shared(*second));
  EXPECT_EQ(b.unlock_shared(*second).error(), ErrorCode::kLeaseLost);

  auto writer = a.lock();
  ASSERT_TRUE(writer);
  EXPECT_EQ(b.lock_shared(soon()).error(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(b.lock(soon()).error(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(a.renew(*writer));
  EXPECT_TRUE(a.unlock(*writer));
  EXPECT_EQ(a.unlock(*writer).error(), ErrorCode::kLeaseLost);
}

TEST_P(RemoteSuite, DeadReadersAndWritersAreThrownOut) {
  Client& client = connect();
  RwLock dead(client.port(), at(0), {.lease = 2ms});
  RwLock alive(client.port(), at(0), {.lease = 2ms, .seed = 2});
  const auto reader = dead.lock_shared();
  ASSERT_TRUE(reader);
  auto writer = alive.lock();
  ASSERT_TRUE(writer) << writer.error();
  EXPECT_EQ(alive.stats().takeovers, 1U);
  // What it read is not proved.
  EXPECT_EQ(dead.unlock_shared(*reader).error(), ErrorCode::kLeaseLost);
  EXPECT_TRUE(alive.unlock(*writer));

  const auto dead_writer = dead.lock();
  ASSERT_TRUE(dead_writer);
  const auto after = alive.lock_shared();
  ASSERT_TRUE(after) << after.error();
  EXPECT_EQ(dead.unlock(*dead_writer).error(), ErrorCode::kLeaseLost);
  EXPECT_TRUE(alive.unlock_shared(*after));
}

TEST_P(RemoteSuite, AWriterThatGaveUpKeepsReadersOutForALeaseOnly) {
  Client& client = connect();
  RwLock reader(client.port(), at(0), {.lease = 2ms});
  RwLock writer(client.port(), at(0), {.lease = 2ms, .seed = 2});
  const auto inside = reader.lock_shared();
  ASSERT_TRUE(inside);
  EXPECT_FALSE(writer.lock(Deadline::after(client.port().clock(), 100us)));
  EXPECT_TRUE(reader.unlock_shared(*inside));
  EXPECT_TRUE(reader.lock_shared());
}

TEST_P(RemoteSuite, CountersCount) {
  Client& client = connect();
  const Counter counter(client.port(), at(16));
  EXPECT_EQ(counter.add(5).value(), 0U);
  EXPECT_EQ(counter.add(2).value(), 5U);
  EXPECT_EQ(counter.load().value(), 7U);
}

Task<void> meet_often(Barrier& barrier, std::vector<int>& rounds, std::size_t self, bool& in_step) {
  for (int round = 0; round < 5; ++round) {
    const Result<void> met = co_await barrier.async_arrive();
    if (!met) co_return;
    // Nobody is a whole round ahead or behind.
    for (const int other : rounds) in_step = in_step && other >= round && other <= round + 1;
    ++rounds[self];
  }
}

TEST_P(RemoteSuite, ABarrierHoldsEverybodyBack) {
  Client& client = connect();
  std::vector<std::unique_ptr<Barrier>> barriers;
  std::vector<int> rounds(3);
  bool in_step = true;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    barriers.push_back(
        std::make_unique<Barrier>(client.port(), at(24), BarrierOptions{.parties = 3, .seed = i}));
    client.scheduler().spawn(meet_often(*barriers.back(), rounds, i, in_step));
  }
  ASSERT_TRUE(client.scheduler().run(client.port().deadline({})));
  EXPECT_EQ(rounds, std::vector<int>(3, 5));
  EXPECT_TRUE(in_step);
}

TEST_P(RemoteSuite, ABarrierMissesWhoDoesNotCome) {
  Client& client = connect();
  Barrier barrier(client.port(), at(32), {.parties = 2});
  const auto alone = barrier.arrive(Deadline::after(client.port().clock(), 2ms));
  EXPECT_EQ(alone.error(), ErrorCode::kDeadlineExceeded);
  // How many are missing; elsewhere even our own arrival may come too late.
  if (is_virtual()) {
    EXPECT_EQ(alone.error().detail(), 1);
  }
}

}  // namespace
}  // namespace yonder::remote::suite
