#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "yonder/sync/mpsc_queue.h"
#include "yonder/sync/spsc_queue.h"

namespace yonder::sync {
namespace {

constexpr std::uint64_t kElements = 300'000;

// Two words that must arrive together.
struct Element {
  std::uint64_t number = 0;
  std::uint64_t check = 0;
};
Element make(std::uint64_t producer, std::uint64_t number) {
  const std::uint64_t tagged = producer << 32 | number;
  return {.number = tagged, .check = ~tagged};
}

TEST(QueueStress, SpscBatchesArriveWholeAndInOrder) {
  SpscQueue<Element> queue(256);
  std::thread producer([&] {
    std::array<Element, 7> batch;
    for (std::uint64_t next = 0; next < kElements;) {
      const std::size_t wanted = std::min<std::uint64_t>(batch.size(), kElements - next);
      for (std::size_t i = 0; i < wanted; ++i) batch[i] = make(0, next + i);
      const std::size_t pushed = queue.push(std::span(batch).first(wanted));
      next += pushed;
      if (pushed == 0) std::this_thread::yield();
    }
  });
  std::array<Element, 16> batch;
  for (std::uint64_t next = 0; next < kElements;) {
    const std::size_t count = queue.pop(batch);
    for (std::size_t i = 0; i < count; ++i, ++next) {
      ASSERT_EQ(batch[i].number, next);
      ASSERT_EQ(batch[i].check, ~next);
    }
    if (count == 0) std::this_thread::yield();
  }
  producer.join();
  EXPECT_TRUE(queue.empty());
}

TEST(QueueStress, MpscKeepsEachProducersOrder) {
  constexpr std::uint64_t kProducers = 3;
  MpscQueue<Element> queue(64);
  std::vector<std::thread> producers;
  for (std::uint64_t producer = 0; producer < kProducers; ++producer) {
    producers.emplace_back([&queue, producer] {
      for (std::uint64_t n = 0; n < kElements / kProducers;) {
        if (queue.try_push(make(producer, n)))
          ++n;
        else
          std::this_thread::yield();
      }
    });
  }
  std::array<std::uint64_t, kProducers> next{};
  for (std::uint64_t popped = 0; popped < kElements;) {
    Element element;
    if (!queue.try_pop(element)) {
      std::this_thread::yield();
      continue;
    }
    ++popped;
    ASSERT_EQ(element.check, ~element.number);
    ASSERT_EQ(element.number & 0xffffffff, next[element.number >> 32]++);
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace yonder::sync
