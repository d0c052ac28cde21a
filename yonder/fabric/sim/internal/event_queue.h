#pragma once
// The future of a simulated world: events ordered by virtual time.
//
// A 4-ary heap of 32-byte values: half the levels of a binary heap, children of a
// node in two cache lines, no allocation once it has grown to its working size.
// Events at the same time leave in the order in which they came, which is what
// makes a run repeatable. Events are never removed early: they name their object
// by a Ref, and one whose object is gone is ignored when its time comes.
//
// Concurrency: one thread.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/fabric/sim/internal/pool.h"
#include "yonder/fabric/sim/nic_model.h"

namespace yonder::fabric::sim {

enum class EventKind : std::uint8_t {
  kArrive,         // flight: its request reaches the target's port
  kStep,           // flight: its effect at the target begins or goes on
  kReturn,         // flight: a long response reaches the initiator's port
  kComplete,       // flight: the response is processed at the initiator
  kRetransmit,     // flight: a lost request or response is tried again
  kDisconnect,     // queue pair: the peer closed, or knows no such connection
  kPeerLost,       // queue pair: the peer's host crashed some time ago
  kDrain,          // queue: hand the waiting Operations over
  kExpire,         // endpoint: look for requests whose deadline passed
  kDial,           // endpoint: the backoff is over, try to connect
  kConnectArrive,  // endpoint: the request reaches the target
  kConnectReply,   // endpoint: the answer is back
  kConnectGiveUp,  // endpoint: no answer came in time
  kFault,          // number of a scheduled action of the fault plan
};

struct Event {
  Ticks at = 0;
  std::uint64_t order = 0;  // Ties leave first come, first served.
  Ref subject;
  std::uint32_t argument = 0;
  EventKind kind = EventKind::kDrain;

  friend bool operator<(const Event& a, const Event& b) {
    return a.at != b.at ? a.at < b.at : a.order < b.order;
  }
};
static_assert(sizeof(Event) == 32, "two events share a cache line");

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  // When the next event is due. Requires !empty().
  Ticks next_at() const { return heap_.front().at; }

  void push(Ticks at, EventKind kind, Ref subject, std::uint32_t argument = 0) {
    const Event event{at, ++order_, subject, argument, kind};
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / kArity;
      if (!(event < heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
  }

  // Requires !empty().
  Event pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return first;
  }

 private:
  static constexpr std::size_t kArity = 4;

  // Moves the hole at the top down to where `event` belongs.
  void sink(const Event& event) {
    const std::size_t size = heap_.size();
    std::size_t hole = 0;
    for (;;) {
      const std::size_t first = hole * kArity + 1;
      if (first >= size) break;
      std::size_t least = first;
      const std::size_t end = first + kArity < size ? first + kArity : size;
      for (std::size_t child = first + 1; child < end; ++child) {
        if (heap_[child] < heap_[least]) least = child;
      }
      if (!(heap_[least] < event)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = event;
  }

  std::vector<Event> heap_;
  std::uint64_t order_ = 0;
};

}  // namespace yonder::fabric::sim
