#pragma once
// BlockedSignals: signals that a daemon's main thread takes when it is ready to.
//
// Concurrency: made by main() before there is another thread, so that all threads inherit
// the mask and no signal goes astray; wait() by one thread. Lifetime: the signals stay blocked.

#include <signal.h>

#include <initializer_list>

namespace yonder::apps {

class BlockedSignals {
 public:
  explicit BlockedSignals(std::initializer_list<int> signals);
  // The next of them; for as long as it takes.
  int wait() const;

 private:
  sigset_t signals_;
};

}  // namespace yonder::apps
