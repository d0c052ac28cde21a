#pragma once
// CoreHop: moves the calling thread to another core.
//
// Two threads of one host that call each other answer in a few microseconds if both are awake
// on cores of their own. The scheduler likes to wake whoever is called on the caller's core,
// where it runs only when the caller sleeps, and leaves the two there for as long as other
// cores have work: then each message costs two switches and a wake-up, 80 to 120 us. Who finds
// that out goes elsewhere.
//
// Concurrency: one thread, whose affinity it changes. Lifetime: the destructor restores what
// the thread was allowed.

#include <sched.h>

namespace yonder::os {

class CoreHop {
 public:
  CoreHop() { has_allowed_ = ::sched_getaffinity(0, sizeof allowed_, &allowed_) == 0; }
  ~CoreHop() {
    if (hopped_) ::sched_setaffinity(0, sizeof allowed_, &allowed_);
  }
  CoreHop(const CoreHop&) = delete;
  CoreHop& operator=(const CoreHop&) = delete;

  // To the next core that the thread may use; nothing if there is no other, or the system
  // does not want.
  void hop() {
    const int here = ::sched_getcpu();
    if (!has_allowed_ || here < 0) return;
    for (int i = 1; i < CPU_SETSIZE; ++i) {
      const int next = (here + i) % CPU_SETSIZE;
      if (!CPU_ISSET(static_cast<unsigned>(next), &allowed_)) continue;
      if (next == here) return;
      cpu_set_t only;
      CPU_ZERO(&only);
      CPU_SET(static_cast<unsigned>(next), &only);
      hopped_ |= ::sched_setaffinity(0, sizeof only, &only) == 0;
      return;
    }
  }

 private:
  cpu_set_t allowed_{};
  bool has_allowed_ = false;
  bool hopped_ = false;
};

}  // namespace yonder::os
