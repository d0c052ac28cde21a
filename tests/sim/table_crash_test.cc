// A front end of a hash table dies at every moment of what it does, one run for each: what
// was acknowledged stays, the rest is there as a whole or not at all, and those who live
// find nothing in their way (T2 of hash_table.h).
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/lender.h"
#include "yonder/structures/hash_table.h"

namespace yonder {
namespace {

using namespace std::chrono_literals;
using fabric::Task;
using structures::FrontEndOptions;
using structures::HashTable;

constexpr int kKeys = 30;  // In 16 buckets.
constexpr std::uint32_t kSurvivor = 1;
constexpr std::uint32_t kVictim = 2;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What a key may be; none: absent.
using Allowed = std::map<std::string, std::set<std::optional<std::string>>>;

class Scene {
 public:
  explicit Scene(const FrontEndOptions& options) : lender_(1, 3, 1 << 20) {
    const remote::Port port = lender_.connect(kSurvivor, 1s);
    EXPECT_TRUE(HashTable::create(port, lender_.token(), {.log2_buckets = 4, .hash_seed = 7}));
    survivor_ = HashTable::open(lender_.fabric(kSurvivor), port, lender_.token()).value();
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = std::to_string(i);
      EXPECT_TRUE(survivor_->put(bytes_of(key), bytes_of("old")));
      allowed[key] = {"old"};
    }
    const remote::Port dying = lender_.connect(kVictim, 1s);
    victim = HashTable::open(lender_.fabric(kVictim), dying, lender_.token(), options).value();
  }

  // Lets the victim work until it dies, `after` from now. False: it was ready before.
  bool work(const std::function<Task<bool>(Scene&)>& job, Duration after) {
    lender_.crash(kVictim, after);
    std::uint32_t finished = 0;
    bool succeeded = false;
    lender_.scheduler().spawn(watch(job(*this), succeeded, finished));
    EXPECT_TRUE(lender_.run_until(finished, 1)) << "a call never ended";
    return !succeeded;
  }

  void check_what_is_left() {
    for (const auto& [key, values] : allowed) {
      const std::optional<std::string> found = find(key);
      EXPECT_TRUE(values.contains(found)) << "key " << key << ": " << found.value_or("absent");
    }
    // Nothing is in the way of those who live.
    for (const auto& [key, values] : allowed) ASSERT_TRUE(survivor_->put(bytes_of(key), bytes_of("new")));
    ASSERT_TRUE(survivor_->grow());
    for (const auto& [key, values] : allowed) EXPECT_EQ(find(key), "new") << "key " << key;
    for (const auto& [key, values] : allowed) EXPECT_TRUE(survivor_->erase(bytes_of(key)));
    structures::ScanCursor cursor;
    while (!cursor.done) EXPECT_TRUE(survivor_->scan(cursor).value().empty());
  }

  // The victim's part, for jobs. False: it is dead. (Texts as pointers: g++ 12 mishandles
  // temporaries with destructors in `if (co_await …)`.)
  Task<bool> put(const char* key_text, const char* value_text) {
    const std::string key = key_text;
    const std::string value = value_text;
    allowed[key].insert(value);
    const auto done = co_await victim->async_put(bytes_of(key), bytes_of(value));
    if (!done) co_return false;
    if (*done != 0) allowed[key] = {value};  // 0: held back.
    co_return true;
  }
  Task<bool> insert(const char* key_text, const char* value_text) {
    const std::string key = key_text;
    const std::string value = value_text;
    allowed[key] = {std::nullopt, value};
    const auto done = co_await victim->async_insert(bytes_of(key), bytes_of(value));
    if (!done) co_return false;
    allowed[key] = {value};
    co_return true;
  }
  Task<bool> erase(const char* key_text) {
    const std::string key = key_text;
    allowed[key].insert(std::nullopt);
    const auto done = co_await victim->async_erase(bytes_of(key));
    if (!done) co_return false;
    allowed[key] = {std::nullopt};
    co_return true;
  }

 private:
  static Task<void> watch(Task<bool> job, bool& succeeded, std::uint32_t& finished) {
    succeeded = co_await std::move(job);
    ++finished;
  }

  std::optional<std::string> find(const std::string& key) {
    std::vector<std::byte> value;
    const auto found = survivor_->find(bytes_of(key), value);
    if (found) return text_of(value);
    EXPECT_EQ(found.error(), ErrorCode::kNotFound) << found.error();
    return std::nullopt;
  }

  Lender lender_;
  std::unique_ptr<HashTable> survivor_;

 public:
  std::unique_ptr<HashTable> victim;
  Allowed allowed;
};

// One run for each moment, until the job is ready before its time has come. The step is less
// than any request takes, so that no state between two requests is left out (under a
// sanitizer some are).
void die_at_every_moment(const std::function<Task<bool>(Scene&)>& job, const FrontEndOptions& options = {}) {
  const Duration step = testing::kSanitized ? 2us : 250ns;
  int deaths = 0;
  for (Duration after = 0ns; !::testing::Test::HasFailure(); after += step, ++deaths) {
    SCOPED_TRACE("dead after " + std::to_string(after.count()) + " ns");
    Scene scene(options);
    const bool died = scene.work(job, after);
    scene.check_what_is_left();
    if (!died) break;
  }
  EXPECT_GT(deaths, testing::scaled(20)) << "it died in the middle";
}

TEST(TableCrash, InTheMiddleOfAnInsert) {
  die_at_every_moment([](Scene& scene) -> Task<bool> {
    if (!co_await scene.insert("a", "1")) co_return false;
    co_return co_await scene.insert("b", "2");
  });
}

TEST(TableCrash, InTheMiddleOfAnErase) {
  die_at_every_moment([](Scene& scene) -> Task<bool> {
    if (!co_await scene.erase("3")) co_return false;
    co_return co_await scene.erase("4");
  });
}

TEST(TableCrash, InTheMiddleOfPutsThatBuildOnOneAnother) {
  die_at_every_moment([](Scene& scene) -> Task<bool> {
    for (const char* value : {"1", "2", "3"}) {
      if (!co_await scene.put("5", value)) co_return false;
    }
    co_return true;
  });
}

TEST(TableCrash, InTheMiddleOfGrowth) {
  die_at_every_moment([](Scene& scene) -> Task<bool> {
    const Result<void> grown = co_await scene.victim->async_grow();
    co_return grown.has_value();
  });
}

TEST(TableCrash, WhileItTakesAndGivesBackSpace) {
  const auto job = [](Scene& scene) -> Task<bool> {
    for (const char* value : {"1", "2", "3"}) {
      if (!co_await scene.put("5", value)) co_return false;
      const Result<void> closed = co_await scene.victim->async_close();
      if (!closed) co_return false;
    }
    co_return true;
  };
  die_at_every_moment(job, {.chunk_bytes = 4096});
}

TEST(TableCrash, WhileHeldPutsOfHotBucketsLeave) {
  const auto job = [](Scene& scene) -> Task<bool> {
    for (const char* value : {"1", "2", "3"}) {
      for (const char* key : {"6", "7", "8", "9"}) {
        if (!co_await scene.put(key, value)) co_return false;
      }
    }
    const Result<void> flushed = co_await scene.victim->async_flush();
    co_return flushed.has_value();
  };
  die_at_every_moment(job, {.together = 100, .write_back = 50us});
}

}  // namespace
}  // namespace yonder
