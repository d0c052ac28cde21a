#pragma once
// A sequencer: numbers that are given out once, by a word in remote memory.
//
//   remote::Sequencer sequencer(port, word, {.batch = 32});
//   std::uint64_t ticket = sequencer.next().value();
//   std::uint64_t first = sequencer.reserve(10).value();      // first … first + 9 are ours
//
// The word holds the next number nobody has; a remote fetch-and-add takes some. With
// `batch` > 1 a sequencer takes a range at once and gives it out locally, one round
// trip for `batch` numbers. What holds (S: all sequencers on one word):
//   Q1  No number is given out twice by S.
//   Q2  The numbers of one sequencer's next() grow; with batch 1 a number that was
//       asked for after another was given out, by whomever, is larger.
//   Q3  Numbers may be missing: a range that was taken and not used up (its process
//       ended, or its answer was lost) is never given out again.
//
// Concurrency: the port's thread; coroutines of it may share a sequencer.
// Lifetime: as the port's; tasks end before the sequencer.

#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/remote/port.h"
#include "yonder/remote/turn.h"

namespace yonder::remote {

struct SequencerOptions {
  std::uint64_t batch = 1;  // numbers taken at once by next(), at least 1 (checked)
};

class Sequencer {
 public:
  Sequencer(Port port, RemoteAddress word, const SequencerOptions& options = {});

  // The next number. Errors: those of the fabric; a number may then be lost (Q3).
  Task<Result<std::uint64_t>> async_next(Deadline deadline = {});
  Result<std::uint64_t> next(Deadline deadline = {}) { return port_.run(async_next(deadline)); }

  // The first of `count` numbers in a row, straight from the word. kInvalidArgument: 0.
  Task<Result<std::uint64_t>> async_reserve(std::uint64_t count, Deadline deadline = {});
  Result<std::uint64_t> reserve(std::uint64_t count, Deadline deadline = {}) {
    return port_.run(async_reserve(count, deadline));
  }

  // Numbers that next() gives out without asking.
  std::uint64_t in_hand() const { return end_ - next_; }

 private:
  const Port port_;
  const RemoteAddress word_;
  const std::uint64_t batch_;
  Turn refill_;  // One range at a time: the rest of one must not replace another.
  std::uint64_t next_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace yonder::remote
