#pragma once
// Attention: which thread serves a group of streams just now.
//
// A peer's one-sided requests must be executed whether or not the application
// polls. While it does, its own thread serves them: a hand-over to another
// thread would cost more than the round trip. When it has not polled for two
// ticks and does not sleep in wait() either, the service thread takes the group
// over by watching the group's epoll descriptor in its own epoll; the next poll
// takes it back.
//
//   state        | poll()             | enter / leave wait()    | tick
//   -------------+--------------------+-------------------------+------------------------
//   service's    | application's; ask | as poll()               | –
//                | for ticks          |                         |
//   application's| note the poll      | note it; ask for ticks  | no poll since the last
//                |                    | when leaving            | tick, not in wait():
//                |                    |                         | service's
//
// Both may serve at the same moment: the group's mutex makes that harmless. What
// attention decides is only who is woken.
//
// No tick runs while nobody needs one: a fabric whose applications all sleep, or
// whose groups all are the service's, causes no wake-ups. The service clears its
// ticking flag, then looks at all groups again; a leaver of wait() clears
// `in_wait_`, then reads the flag. Both sequentially consistent: one sees the
// other.
//
// Concurrency: note_* by the application's thread; is_neglected() by the service.

#include <atomic>
#include <cstdint>

namespace yonder::fabric::tcp {

class Attention {
 public:
  // True if the group is the service's and must be taken back.
  bool note_poll() {
    // relaxed: a stale value makes the service wait for one tick more.
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return !is_applications_.load(std::memory_order_relaxed);
  }
  void enter_wait() { in_wait_.store(true); }
  void leave_wait() { in_wait_.store(false); }

  bool is_applications() const { return is_applications_.load(); }
  // Under the group's mutex, together with the change in the service's epoll.
  void set_applications(bool yes) { is_applications_.store(yes); }

  // For the service's tick: whether the application stays away.
  bool is_neglected() {
    const std::uint64_t polls = polls_.load(std::memory_order_relaxed);
    const bool stayed_away = polls == polls_at_last_tick_ && !in_wait_.load();
    polls_at_last_tick_ = polls;
    return stayed_away;
  }
  bool needs_ticks() const { return is_applications() && !in_wait_.load(); }

 private:
  std::atomic<bool> is_applications_{false};
  std::atomic<bool> in_wait_{false};
  std::atomic<std::uint64_t> polls_{0};
  std::uint64_t polls_at_last_tick_ = 0;  // The service's.
};

}  // namespace yonder::fabric::tcp
