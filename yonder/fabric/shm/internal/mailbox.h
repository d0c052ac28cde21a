#pragma once
// How the service thread tells a completion queue's thread about its endpoints.
//
// Rare news only: connected, lost, a region resolved. They wait in a bounded-by-
// nature list (at most a few per endpoint) until the queue's thread looks, which
// it does when one flag says so.
//
// Concurrency: post() and wake() from any thread, the rest by the queue's thread.
// Lifetime: shared by the queue and its connections, so that late news find a
// mailbox even when the queue is gone.

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "yonder/fabric/shm/internal/control.h"
#include "yonder/fabric/shm/internal/state_file.h"
#include "yonder/fabric/types.h"
#include "yonder/os/eventfd.h"
#include "yonder/os/mapping.h"

namespace yonder::fabric::shm {

class Link;
class ShmEndpoint;

struct Mail {
  enum class Kind : std::uint8_t {
    kAttach,    // `attached` joins the queue
    kOpened,    // the endpoint has a new connection: `link`
    kLost,      // `link` is lost
    kResolved,  // what the peer says about a key, with the region mapped
    kNudge,     // look at your stalled endpoints
  };
  Kind kind = Kind::kNudge;
  EndpointId endpoint{0};
  ShmEndpoint* attached = nullptr;
  std::shared_ptr<Link> link;
  ResolvedPacket resolved;
  os::Mapping mapping;
};

class Mailbox {
 public:
  Mailbox(os::EventFd event, NoticeLine& line) : event_(std::move(event)), line_(line) {}

  void post(Mail mail) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    mails_.push_back(std::move(mail));
    full_.store(true, std::memory_order_release);
    ring_if_sleeping();
  }
  // Makes the queue's current or next wait() return.
  void wake() {
    woken_.store(true, std::memory_order_release);
    ring_if_sleeping();
  }
  // The queue is going: what was not read will not be, and nothing more comes.
  void close() {
    std::vector<Mail> unread;
    const std::lock_guard lock(mutex_);
    closed_ = true;
    unread.swap(mails_);
  }
  bool take_wake() {
    return woken_.load(std::memory_order_relaxed) && woken_.exchange(false, std::memory_order_acquire);
  }

  bool is_woken() const { return woken_.load(std::memory_order_relaxed); }

  bool has_mail() const { return full_.load(std::memory_order_relaxed); }
  std::vector<Mail> take() {
    const std::lock_guard lock(mutex_);
    full_.store(false, std::memory_order_relaxed);
    return std::exchange(mails_, {});
  }
  const os::EventFd& event() const { return event_; }

 private:
  void ring_if_sleeping() {
    // seq_cst: our flag before this load; the sleeper stores `sleeping`, fences,
    // and then looks at the flags.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (line_.sleeping.load(std::memory_order_relaxed) != 0) event_.ring();
  }

  os::EventFd event_;
  NoticeLine& line_;
  std::atomic<bool> full_{false};
  std::atomic<bool> woken_{false};
  std::mutex mutex_;
  std::vector<Mail> mails_;  // Guarded by mutex_.
  bool closed_ = false;      // Guarded by mutex_; line_ is gone then.
};

}  // namespace yonder::fabric::shm
