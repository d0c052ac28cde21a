#pragma once
// A board: which of many connections have something to say.
//
// The consumer (a completion queue or a service thread) owns the board; each of
// its connections has one byte on it, and the producer sets that byte after it
// has published something. So a consumer of a thousand connections looks at 64
// lines instead of a thousand rings. Neighbouring indices are in different
// lines: the first 64 producers do not disturb each other.
//
//   index i is byte i / 64 of line i % 64; one page; 4,096 connections
//
//   producer                         consumer
//   P1 publish in the ring           C1 byte set? exchange it for 0 (a full fence)
//   P2 store 1 into the byte         C2 look at the ring
// I1 Nothing is forgotten: if C1 erased the 1 of P2, then C2 comes after P1.
//
// All producers of one board can write all its bytes. A hostile one can thus set
// bytes (costing a look) or clear them (delaying its neighbours), which is why
// consumers look at everything now and then (sweep) and before they sleep.
//
// Concurrency: take/give under the owner's lock; mark() by the producer; collect()
// by the consumer thread. Lifetime: producers map the memory themselves.

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"

namespace yonder::fabric::shm {

inline constexpr std::uint32_t kBoardLines = 64;
inline constexpr std::uint32_t kBoardEntries = kBoardLines * 64;
inline constexpr std::size_t kBoardBytes = kBoardEntries;

constexpr std::size_t board_byte(std::uint32_t index) {
  return std::size_t{index % kBoardLines} * 64 + index / kBoardLines;
}

// The producer's end. Cheap to copy; the mapping is kept by the Link.
class BoardMark {
 public:
  BoardMark() = default;
  BoardMark(std::byte* board, std::uint32_t index)
      : byte_(reinterpret_cast<std::atomic<std::uint8_t>*>(board + board_byte(index))) {}
  // release: P2 pairs with C1; what was published before is visible after C1.
  void mark() const { byte_->store(1, std::memory_order_release); }

 private:
  std::atomic<std::uint8_t>* byte_ = nullptr;
};

class Board {
 public:
  static Result<Board> create();

  const os::Fd& fd() const { return file_.fd(); }
  std::byte* data() const { return mapping_.data(); }

  // kResourceExhausted when 4,096 connections are attached.
  Result<std::uint32_t> take();
  void give(std::uint32_t index);

  // Calls visit(index) for every marked entry, erasing the mark first.
  template <typename Visit>
  void collect(Visit visit) {
    for (std::uint32_t line = 0; line < lines_in_use(); ++line) collect_line(line, visit);
  }

 private:
  Board(os::Memfd file, os::Mapping mapping) : file_(std::move(file)), mapping_(std::move(mapping)) {}

  // relaxed: an entry taken just now is told to the consumer by other means.
  std::uint32_t lines_in_use() const { return used_->load(std::memory_order_relaxed); }

  template <typename Visit>
  void collect_line(std::uint32_t line, Visit& visit) {
    auto* words = reinterpret_cast<std::atomic<std::uint64_t>*>(data() + std::size_t{line} * 64);
    for (std::uint32_t w = 0; w < 8; ++w) {
      // relaxed: a stale zero is seen next time; a mark is acquired below.
      std::uint64_t word = words[w].load(std::memory_order_relaxed);
      while (word != 0) [[unlikely]] {
        const auto byte = static_cast<std::uint32_t>(std::countr_zero(word) / 8);
        word &= ~(std::uint64_t{0xff} << (byte * 8));
        auto* mark = reinterpret_cast<std::atomic<std::uint8_t>*>(&words[w]) + byte;
        // seq_cst: C1. The exchange is a full fence, so the visit looks at the
        // ring after the mark was erased.
        mark->exchange(0, std::memory_order_seq_cst);
        visit((w * 8 + byte) * kBoardLines + line);
      }
    }
  }

  os::Memfd file_;
  os::Mapping mapping_;
  std::vector<std::uint32_t> free_;
  std::uint32_t next_ = 0;
  std::unique_ptr<std::atomic<std::uint32_t>> used_ = std::make_unique<std::atomic<std::uint32_t>>(0);
};

}  // namespace yonder::fabric::shm
