// Reads that are under way while their block is remapped (V1 to V4 of block_views.h): the
// bytes arrive a line at a time, the switch falls between any two of them, and in the
// other frame another object of the same version has the slot. Every answer is the
// object's.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "yonder/client/session.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/node/server.h"
#include "yonder/testing/pattern.h"
#include "yonder/testing/seed.h"

namespace yonder::client {
namespace {

using namespace std::chrono_literals;
using fabric::Task;
using node::NicMapping;
using node::Validator;
using ::yonder::testing::number_in;
using ::yonder::testing::pattern;

constexpr std::uint32_t kBytes = 900;  // Four in a frame of 4 KiB, fifteen lines each.
constexpr Duration kLinePause = 2us;

struct Case {
  const char* name;
  NicMapping mapping;
  Validator validator;
};
void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

// Two frames, half full, whose objects lie in the same slots: merged, two are displaced.
class Race {
 public:
  explicit Race(const Case& of)
      : world_({.seed = ::yonder::testing::test_seed(),
                .hosts = 2,
                .host = {.nics = {{.model = fabric::sim::rdma100g()}}}}) {
    queue_ = world_.host(1).fabric().create_completion_queue({}).value();
    scheduler_ = std::make_unique<fabric::Scheduler>(*queue_);
    node::NodeOptions options;
    options.ports = {{.fabric = &world_.host(0).fabric(), .address = "sim://host0:0"}};
    options.heap = {.limit = Bytes(1 << 20), .classes = {.frame_bytes = 4096}, .remap = node::Remap::kMmap};
    options.heap.seed = ::yonder::testing::test_seed() | 1;
    options.mapping = of.mapping;
    options.validator = of.validator;
    options.compaction.automatic = false;
    options.pollers = 0;
    node_ = node::Server::create(options).value();
    scheduler_->spawn(node_->serve(*scheduler_));
    session_ =
        Session::connect(world_.host(1).fabric(),
                         {.address = node_->address(), .queue = queue_.get(), .scheduler = scheduler_.get()})
            .value();
    fill();
    world_.inject({.tear = 1, .tear_bytes = 64, .tear_pause = fabric::sim::ns(kLinePause.count())});
  }
  ~Race() {
    session_->close();
    session_.reset();
    node_->begin_stop();
    EXPECT_TRUE(scheduler_->run(Deadline::after(world_.clock(), 10s)));
    node_.reset();
    scheduler_.reset();
  }

  // Reads all the time, and compacts after `delay`.
  void run(Duration delay) {
    for (std::size_t i = 0; i < objects_.size(); ++i) scheduler_->spawn(read(i));
    scheduler_->block_on(compact(delay));
    const Deadline patience = Deadline::after(world_.clock(), 1s);
    while (running_ != 0 && !patience.passed(world_.clock().now())) scheduler_->block_on(pause());
    EXPECT_EQ(running_, 0);
  }
  std::uint64_t retries() const { return session_->stats().retries; }

 private:
  void fill() {
    std::map<std::uint32_t, int> kept;  // Of each block.
    std::vector<ObjectPtr> others;
    for (int i = 0; i < 8; ++i) {
      const ObjectPtr object = session_->alloc(kBytes).value();
      (++kept[object.home().value()] <= 2 ? objects_ : others).push_back(object);
    }
    for (const ObjectPtr object : others) ASSERT_TRUE(session_->free(object));
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      ASSERT_TRUE(session_->write(objects_[i], pattern(kBytes, i + 1)));
      // The NIC has the page from now on, and the session the key.
      std::vector<std::byte> out(kBytes);
      ASSERT_TRUE(session_->direct_read(objects_[i], out));
    }
  }

  Task<void> read(std::size_t index) {
    ++running_;
    std::vector<std::byte> out(kBytes);
    const std::vector<std::byte> expected = pattern(kBytes, index + 1);
    for (int i = 0; i < 6; ++i) {
      ObjectPtr object = objects_[index];
      const auto version = co_await session_->async_direct_read(object, out);
      EXPECT_TRUE(version) << version.error();
      EXPECT_EQ(out, expected) << "object " << index << ", read " << i;
    }
    --running_;
  }

  Task<void> compact(Duration delay) {
    co_await scheduler_->sleep_for(delay);
    EXPECT_GT(node_->compact(), 0u);
  }
  Task<void> pause() { co_await scheduler_->sleep_for(20us); }

  fabric::sim::World world_;
  std::unique_ptr<fabric::CompletionQueue> queue_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
  std::unique_ptr<node::Server> node_;
  std::unique_ptr<Session> session_;
  std::vector<ObjectPtr> objects_;
  int running_ = 0;
};

class RemapRace : public ::testing::TestWithParam<Case> {};

TEST_P(RemapRace, NoReaderSeesTwoFramesAsOneObject) {
  std::uint64_t retries = 0;
  for (Duration delay = 0us; delay < 60us && !HasFailure(); delay += 700ns) {
    SCOPED_TRACE(std::to_string(delay.count()) + " ns");
    Race race(GetParam());
    race.run(delay);
    retries += race.retries();
  }
  EXPECT_GT(retries, 0u) << "some were met by the switch";
}

INSTANTIATE_TEST_SUITE_P(
    Sim, RemapRace,
    ::testing::Values(Case{"odp_prefetch_checksum", NicMapping::kOdpPrefetch, Validator::kChecksum},
                      Case{"odp_prefetch_lines", NicMapping::kOdpPrefetch, Validator::kLines},
                      Case{"odp_prefetch_reread", NicMapping::kOdpPrefetch, Validator::kReread},
                      Case{"odp_lines", NicMapping::kOdp, Validator::kLines},
                      Case{"odp_reread", NicMapping::kOdp, Validator::kReread},
                      Case{"rereg_checksum", NicMapping::kRereg, Validator::kChecksum},
                      Case{"rereg_lines", NicMapping::kRereg, Validator::kLines},
                      Case{"rereg_reread", NicMapping::kRereg, Validator::kReread}),
    [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace yonder::client
