#include "apps/common/signals.h"

namespace yonder::apps {

BlockedSignals::BlockedSignals(std::initializer_list<int> signals) {
  sigemptyset(&signals_);
  for (const int signal : signals) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

int BlockedSignals::wait() const {
  int signal = 0;
  while (::sigwait(&signals_, &signal) != 0) {
  }
  return signal;
}

}  // namespace yonder::apps
