// Threads that tell, ask and serve at once: no answer is older than its question (D2 of
// owner_desks.h), and no news is lost.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/node/internal/owner_desks.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::node::internal {
namespace {

constexpr std::uint32_t kThreads = 4;
constexpr std::uint32_t kObjects = 24;
// Every fourth news of an object says that it is gone.
constexpr bool is_gone(std::uint32_t version) { return version % 4 == 0; }

class Stress {
 public:
  explicit Stress(std::uint64_t seed) : random_(seed) {
    for (auto& sent : sent_) sent.store(0);
  }

  void run(int news) {
    std::vector<std::thread> threads;
    std::atomic<bool> ends{false};
    for (std::uint32_t i = 0; i < kThreads; ++i) {
      desks_.arrive(i);
      threads.emplace_back([this, i, &ends, random = random_.split()]() mutable {
        while (!ends.load()) {
          if (random.below(4) != 0) ask(i, random);
          desks_.serve(i);
        }
      });
    }
    // One for each half of the objects: news of one object come one after the other.
    std::vector<std::thread> tellers;
    for (std::uint32_t half = 0; half < 2; ++half) {
      tellers.emplace_back([this, half, news, random = random_.split()]() mutable {
        for (int i = 0; i < news; ++i) {
          tell(static_cast<std::uint32_t>(random.below(kObjects / 2)) * 2 + half);
        }
      });
    }
    for (std::thread& teller : tellers) teller.join();
    ends.store(true);
    for (std::thread& thread : threads) thread.join();
  }

  void check() {
    std::array<std::uint32_t, kObjects> known{};
    desks_.visit([&](BlockId home, ObjectId id, std::uint32_t slot) { known[index(home, id)] = slot; });
    for (std::uint32_t i = 0; i < kObjects; ++i) {
      EXPECT_EQ(known[i], is_gone(sent_[i].load()) ? 0 : sent_[i].load()) << "object " << i;
    }
    const OwnerAnswers answers = desks_.answers();
    EXPECT_EQ(answers.by_others + answers.by_asker + answers.unanswered, asked_.load());
  }

 private:
  static BlockId home(std::uint32_t object) { return BlockId(1 + object % 5); }
  static ObjectId id(std::uint32_t object) { return ObjectId(static_cast<std::uint16_t>(1 + object)); }
  static std::uint32_t index(BlockId, ObjectId id) { return id.value() - 1u; }

  void tell(std::uint32_t object) {
    const std::uint32_t version = sent_[object].load() + 1;
    if (is_gone(version))
      desks_.erase(home(object), id(object));
    else
      desks_.put(home(object), id(object), version);
    sent_[object].store(version);
  }

  void ask(std::uint32_t asker, Prng& random) {
    const auto object = static_cast<std::uint32_t>(random.below(kObjects));
    const std::uint32_t before = sent_[object].load();
    const auto answer = desks_.find(asker, home(object), id(object));
    asked_.fetch_add(1);
    if (!answer) return;
    EXPECT_GE(*answer, before) << "D2";
    EXPECT_LE(*answer, sent_[object].load() + 1) << "nobody has said that";
    EXPECT_FALSE(is_gone(*answer));
  }

  Prng random_;
  OwnerDesks desks_{{.desks = 3, .threads = kThreads}};
  std::array<std::atomic<std::uint32_t>, kObjects> sent_;
  std::atomic<std::uint64_t> asked_{0};
};

TEST(OwnerDesksStress, AnswersKnowWhatWasSentBefore) {
  Stress stress(::yonder::testing::test_seed());
  stress.run(::yonder::testing::scaled(400'000));
  stress.check();
}

}  // namespace
}  // namespace yonder::node::internal
