// A heap that goes on with the objects of another: whatever state those were left in,
// and whatever somebody made of the memory meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/node/block_table.h"
#include "yonder/node/heap.h"

#include "yonder/node/internal/write_journal.h"
#include "yonder/node/memory_keeper.h"
#include "yonder/node/slot_layout.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/os/steady_clock.h"
#include "yonder/testing/pattern.h"
#include "yonder/testing/seed.h"

namespace yonder::node {
namespace {

using internal::WriteJournal;

const os::SteadyClock kClock;
constexpr std::uint32_t kBytes = 200;

std::vector<std::byte> value(int seed, std::size_t bytes = kBytes) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(seed));
}

// A file of the keeper, to be looked at and spoilt.
class Spoiler {
 public:
  Spoiler(const MemoryKeeper& keeper, const std::string& name)
      : memfd_(os::Memfd::adopt(keeper.find(name)->duplicate().value()).value()),
        mapping_(os::Mapping::of_file(memfd_.fd(),
                                      {.bytes = memfd_.size(), .protection = os::Protection::kReadWrite})
                     .value()) {}
  std::uint64_t& word(std::uint64_t offset) {
    return *reinterpret_cast<std::uint64_t*>(mapping_.data() + offset);
  }
  std::byte* at(std::uint64_t offset) { return mapping_.data() + offset; }

 private:
  os::Memfd memfd_;
  os::Mapping mapping_;
};

class AdoptionTest : public ::testing::TestWithParam<Validator> {
 protected:
  void SetUp() override {
    options_.limit = Bytes(64 << 20);
    options_.classes.validator = GetParam();
    options_.seed = ::yonder::testing::test_seed() | 1;
    options_.max_threads = 4;
    options_.keeper = &keeper_;
  }

  void start() {
    auto made = Heap::create(kClock, options_);
    ASSERT_TRUE(made) << made.error();
    heap_ = *std::move(made);
    heap_->check_invariants();
    thread_.emplace(heap_->register_thread().value());
  }
  void stop() {
    thread_.reset();
    heap_.reset();
  }
  void restart() {
    stop();
    start();
  }
  ErrorCode refused() {
    stop();
    const auto made = Heap::create(kClock, options_);
    return made ? ErrorCode::kOk : made.error().code();
  }

  ObjectPtr make(int seed, std::uint32_t bytes = kBytes) {
    const auto object = thread_->alloc(bytes);
    EXPECT_TRUE(object) << object.error();
    ObjectPtr made = object.value_or(ObjectPtr());
    EXPECT_TRUE(thread_->write(made, value(seed, bytes)));
    return made;
  }
  std::vector<std::byte> contents(ObjectPtr object) {
    std::vector<std::byte> out(object.size());
    const auto read = thread_->read(object, out);
    EXPECT_TRUE(read) << read.error();
    return out;
  }
  // Where an object lies, in superblock 0. Before stop().
  std::uint64_t offset_of(ObjectPtr object) const {
    const BlockEntry entry = heap_->blocks().lookup(object.home());
    const std::uint64_t slot_bytes =
        object.size_class() == kSpanClass ? 0 : heap_->classes()[object.size_class()].slot_bytes;
    return std::uint64_t{entry.frame().value()} * kUnitBytes + object.slot() * slot_bytes;
  }
  FrameId frame_of(ObjectPtr object) const { return heap_->blocks().lookup(object.home()).frame(); }
  // One in `keep` of many objects, so that frames can merge.
  std::vector<ObjectPtr> thin_out(std::size_t count, std::size_t keep) {
    std::vector<ObjectPtr> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(make(static_cast<int>(i)));
    std::vector<ObjectPtr> left;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % keep == 0)
        left.push_back(all[i]);
      else
        EXPECT_TRUE(thread_->free(all[i]));
    }
    return left;
  }

  MemoryKeeper keeper_;
  HeapOptions options_;
  std::unique_ptr<Heap> heap_;
  std::optional<HeapThread> thread_;
};
INSTANTIATE_TEST_SUITE_P(Validators, AdoptionTest,
                         ::testing::Values(Validator::kReread, Validator::kLines, Validator::kChecksum));

TEST_P(AdoptionTest, FindsEveryObjectAgain) {
  start();
  EXPECT_FALSE(heap_->adoption());
  const std::uint64_t life = heap_->life();
  std::vector<ObjectPtr> objects;
  for (int i = 0; i < 3000; ++i) objects.push_back(make(i, static_cast<std::uint32_t>(1 + i % 700)));
  objects.push_back(make(77, 100'000));
  objects.push_back(make(78, 3'000'000));
  const ObjectPtr blank = thread_->alloc(500).value();
  const ObjectPtr freed = make(1);
  ASSERT_TRUE(thread_->free(freed));
  for (int round = 0; round < 3; ++round) {
    restart();
    EXPECT_EQ(heap_->life(), life);
    ASSERT_TRUE(heap_->adoption());
    EXPECT_EQ(heap_->adoption()->objects, objects.size() + 1);
    EXPECT_EQ(heap_->adoption()->holds_ended, 0u);
    for (std::size_t i = 0; i < 3000; ++i)
      EXPECT_EQ(contents(objects[i]), value(static_cast<int>(i), objects[i].size()));
    EXPECT_EQ(contents(objects[3000]), value(77, 100'000));
    EXPECT_EQ(contents(objects[3001]), value(78, 3'000'000));
    EXPECT_EQ(contents(blank), value(0, 500));
    ObjectPtr gone = freed;
    EXPECT_EQ(thread_->write(gone, value(1)).error(), ErrorCode::kNoSuchObject);
  }
  for (const ObjectPtr object : objects) ASSERT_TRUE(thread_->free(object));
  ASSERT_TRUE(thread_->free(blank));
  heap_->check_invariants();
  restart();
  EXPECT_EQ(heap_->adoption()->objects, 0u);
  EXPECT_EQ(heap_->stats().active_bytes, 0u);
}

TEST_P(AdoptionTest, FindsObjectsThatCompactionMoved) {
  start();
  const std::vector<ObjectPtr> objects = thin_out(6000, 3);
  heap_->compactor().compact(objects[0].size_class());
  for (int round = 0; round < 2; ++round) {
    restart();
    for (std::size_t i = 0; i < objects.size(); ++i)
      ASSERT_EQ(contents(objects[i]), value(static_cast<int>(3 * i)));
    // The heap is as good as before: it compacts, allocates and frees.
    for (int i = 0; i < 500; ++i) make(i);
    heap_->compactor().compact_all();
    heap_->check_invariants();
  }
}

TEST_P(AdoptionTest, IsTheSameInMoreMemoryAndWithMoreThreads) {
  start();
  const ObjectPtr object = make(5);
  options_.limit = Bytes(256 << 20);
  options_.max_threads = 9;
  options_.correction = Correction::kIndex;
  restart();
  EXPECT_EQ(contents(object), value(5));
  make(6);
  options_.limit = Bytes(4096);
  EXPECT_EQ(refused(), ErrorCode::kOutOfMemory) << "more is in use than the limit";
}

TEST_P(AdoptionTest, KnowsWhereDisplacedObjectsAreWithEveryCorrection) {
  start();
  const std::vector<ObjectPtr> objects = thin_out(3000, 4);
  heap_->compactor().compact_all();
  for (const Correction correction : {Correction::kScan, Correction::kIndex, Correction::kOwner}) {
    options_.correction = correction;
    restart();
    for (std::size_t i = 0; i < objects.size(); ++i)
      ASSERT_EQ(contents(objects[i]), value(static_cast<int>(4 * i)));
    EXPECT_GT(heap_->stats().corrections, 0u) << "some objects were displaced";
  }
  const OwnerAnswers answers = heap_->stats().owner_answers;
  EXPECT_GE(answers.by_asker, heap_->stats().corrections) << "owners were asked, and nobody else was there";
  EXPECT_EQ(answers.unanswered, 0u);
}

// Heap threads read through the views, so what they read was mapped anew.
TEST_P(AdoptionTest, GoesOnWithBlocksThatAreRemapped) {
  options_.remap = Remap::kMmap;
  start();
  const std::vector<ObjectPtr> objects = thin_out(3000, 4);
  heap_->compactor().compact_all();
  const ObjectPtr large = make(7, 200'000);
  for (int round = 0; round < 2; ++round) {
    restart();
    ASSERT_NE(heap_->views(), nullptr);
    for (std::size_t i = 0; i < objects.size(); ++i)
      ASSERT_EQ(contents(objects[i]), value(static_cast<int>(4 * i)));
    EXPECT_EQ(contents(large), value(7, 200'000));
    // The blocks that were adopted move as others do.
    for (const ObjectPtr object : thin_out(1000, 8)) ASSERT_TRUE(thread_->free(object));
    heap_->compactor().compact_all();
    heap_->check_invariants();
  }
  options_.remap = Remap::kTable;
  EXPECT_EQ(refused(), ErrorCode::kConfigInvalid) << "memory laid out for the one is not for the other";
}

// ---------------------------------------------------------------- what was under way

TEST_P(AdoptionTest, EndsHoldsThatChangedNothing) {
  start();
  const ObjectPtr writing = make(1);
  const ObjectPtr moving = make(2);
  const ObjectPtr blank = thread_->alloc(kBytes).value();
  const std::uint64_t places[] = {offset_of(writing), offset_of(moving), offset_of(blank)};
  stop();
  {
    Spoiler memory(keeper_, "super.0");
    for (const auto& [place, state] :
         {std::pair(places[0], SlotState::kWriting), std::pair(places[1], SlotState::kMoving),
          std::pair(places[2], SlotState::kWriting)}) {
      memory.word(place) = HeaderWord(memory.word(place)).with_state(state).bits();
    }
  }
  start();
  EXPECT_EQ(heap_->adoption()->holds_ended, 3u);
  EXPECT_EQ(contents(writing), value(1));
  EXPECT_EQ(contents(moving), value(2));
  EXPECT_EQ(contents(blank), value(0));
}

TEST_P(AdoptionTest, FinishesAWriteThatWasHalfDone) {
  start();
  const ObjectPtr old = make(1);
  const ObjectPtr blank = thread_->alloc(kBytes).value();
  const ObjectPtr large = make(3, 400'000);
  struct Torn {
    ObjectPtr object;
    FrameId frame;
    std::uint64_t place;
  };
  std::vector<Torn> torn;
  for (const ObjectPtr object : {old, blank, large})
    torn.push_back({object, frame_of(object), offset_of(object)});
  stop();
  {
    Spoiler memory(keeper_, "super.0");
    auto journal =
        WriteJournal::adopt(os::Memfd::adopt(keeper_.find("journal")->duplicate().value()).value()).value();
    std::uint32_t lane = 0;
    for (const Torn& one : torn) {
      const HeaderWord word(memory.word(one.place));
      const auto data = value(9, one.object.size());
      journal->lane(lane++).begin(
          {.word = word.written(), .frame = one.frame, .slot = one.object.slot(), .data = data});
      memory.word(one.place) = word.with_state(SlotState::kWriting).bits();
      for (std::uint64_t i = 0; i < one.object.size() / 2; ++i)
        *memory.at(one.place + 8 + i) = std::byte{0xee};
    }
  }
  start();
  EXPECT_EQ(heap_->adoption()->writes_finished, 3u);
  for (const Torn& one : torn) EXPECT_EQ(contents(one.object), value(9, one.object.size()));
  restart();
  EXPECT_EQ(heap_->adoption()->writes_finished, 0u) << "once";
}

TEST_P(AdoptionTest, DoesNotUseANoteOfAnotherWrite) {
  start();
  const ObjectPtr object = make(1);
  const FrameId frame = frame_of(object);
  const std::uint64_t place = offset_of(object);
  stop();
  {
    Spoiler memory(keeper_, "super.0");
    auto journal =
        WriteJournal::adopt(os::Memfd::adopt(keeper_.find("journal")->duplicate().value()).value()).value();
    const HeaderWord word(memory.word(place));
    const auto data = value(9);
    journal->lane(0).begin(
        {.word = word.written().written(), .frame = frame, .slot = object.slot(), .data = data});
    memory.word(place) = word.with_state(SlotState::kWriting).bits();
  }
  start();
  EXPECT_EQ(heap_->adoption()->writes_finished, 0u);
  EXPECT_EQ(contents(object), value(1));
}

// ---------------------------------------------------------------- what was forged

TEST_P(AdoptionTest, RefusesMemoryOfANodeWithOtherOptions) {
  start();
  make(1);
  const HeapOptions good = options_;
  options_.node = NodeId(7);
  EXPECT_EQ(refused(), ErrorCode::kConfigInvalid);
  options_ = good;
  options_.classes.validator = GetParam() == Validator::kLines ? Validator::kChecksum : Validator::kLines;
  EXPECT_EQ(refused(), ErrorCode::kConfigInvalid);
  options_ = good;
  options_.classes.frame_bytes = 64 << 10;
  EXPECT_EQ(refused(), ErrorCode::kConfigInvalid);
  options_ = good;
  options_.superblock = Bytes(80 << 20);
  EXPECT_EQ(refused(), ErrorCode::kConfigInvalid);
  options_ = good;
  start();
  EXPECT_EQ(heap_->adoption()->objects, 1u) << "a refusal changes nothing";
}

TEST_P(AdoptionTest, RefusesMemoryThatAnotherHeapUses) {
  start();
  const ObjectPtr object = make(1);
  const auto second = Heap::create(kClock, options_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(contents(object), value(1));
}

TEST_P(AdoptionTest, RefusesFilesThatAreMissingOrOthers) {
  start();
  make(1);
  stop();
  for (const char* name : {"super.0", "blocks", "journal"}) {
    const os::Fd good = keeper_.find(name)->duplicate().value();
    keeper_.forget(name);
    EXPECT_EQ(refused(), ErrorCode::kCorrupt) << name;
    const auto size = os::Memfd::adopt(good.duplicate().value()).value().size();
    const os::Memfd other = os::Memfd::create({.size = size}).value();
    ASSERT_TRUE(keeper_.keep(name, other.fd()));
    EXPECT_EQ(refused(), ErrorCode::kCorrupt) << name;
    ASSERT_TRUE(keeper_.keep(name, good));
  }
  start();
  EXPECT_EQ(heap_->adoption()->objects, 1u);
}

TEST_P(AdoptionTest, RefusesARecordWithAnyBitFlipped) {
  start();
  make(1);
  stop();
  Spoiler record(keeper_, "record");
  for (std::uint64_t byte = 0; byte < 80; ++byte) {
    *record.at(byte) ^= std::byte{0x10};
    const ErrorCode code = refused();
    EXPECT_TRUE(code == ErrorCode::kCorrupt || code == ErrorCode::kUnsupported) << byte << " " << code;
    *record.at(byte) ^= std::byte{0x10};
  }
  start();
  EXPECT_EQ(heap_->adoption()->objects, 1u);
}

// Anything may be in the memory: the answer is an error or a heap that is in order.
TEST_P(AdoptionTest, SurvivesAnyWordsInTableAndHeaders) {
  start();
  thin_out(600, 2);
  make(1, 200'000);
  const std::uint64_t used = heap_->stats().active_bytes;
  const std::uint64_t blocks = heap_->blocks().capacity();
  stop();
  Prng random(::yonder::testing::test_seed());
  Spoiler memory(keeper_, "super.0");
  Spoiler table(keeper_, "blocks");
  Spoiler record(keeper_, "record");
  int adopted = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<std::uint64_t*, std::uint64_t>> saved;
    const auto spoil = [&](std::uint64_t& word) {
      saved.emplace_back(&word, word);
      switch (random.below(4)) {
        case 0:
          word = random();
          break;
        case 1:
          word ^= std::uint64_t{1} << random.below(64);
          break;
        case 2:
          word ^= std::uint64_t{random.below(4)};
          break;
        default:
          word += (std::uint64_t{1} << 35) * random.below(5);
      }
    };
    const auto times = 1 + random.below(4);
    for (std::uint64_t i = 0; i < times; ++i) {
      const std::uint64_t dice = random.below(10);
      if (dice < 5) {
        spoil(memory.word(random.below(used / 8) * 8));
      } else if (dice < 9) {
        spoil(table.word(random.below(std::min<std::uint64_t>(blocks, used / kUnitBytes * 2)) * 8));
      } else {
        spoil(record.word(36864 + random.below(used / kUnitBytes / 2) * 8));
      }
    }
    auto made = Heap::create(kClock, options_);
    if (made) {
      ++adopted;
      (*made)->check_invariants();
      // Repairs may have changed more words than we did: go on with what is there now.
      continue;
    }
    // Headers that speak of objects which are not there may ask for more than the limit.
    EXPECT_TRUE(made.error() == ErrorCode::kCorrupt || made.error() == ErrorCode::kOutOfMemory)
        << made.error();
    for (auto at = saved.rbegin(); at != saved.rend(); ++at) *at->first = at->second;
  }
  EXPECT_GT(adopted, 0) << "payload is anybody's";
}

}  // namespace
}  // namespace yonder::node
