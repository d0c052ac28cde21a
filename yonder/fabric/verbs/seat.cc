#include "yonder/fabric/verbs/internal/seat.h"

#include <utility>

#include "yonder/fabric/verbs/internal/completion_queue.h"
#include "yonder/fabric/verbs/internal/hall.h"

namespace yonder::fabric::verbs {

Result<void> Seat::seat_link(const rdma_cm_event& request, const Reply& reply, std::uint64_t taken_by_peer) {
  std::shared_ptr<Link> unused;
  {
    const std::scoped_lock lock(mutex_);
    if (closed_) return fail(ErrorCode::kNotFound, "resume a connection: its endpoint is closed");
    if (skipped_.size() == kMaxSkipped) return fail(ErrorCode::kOverloaded, "resume a connection again");
    if (link_ != nullptr) link_->kill();
    Link::Parts parts = parts_.link;
    parts.on_down = [weak = weak_from_this()](Link& link) {
      if (const auto seat = weak.lock()) seat->on_down(link);
    };
    YONDER_TRY(link, Link::answer(parts, request));
    if (is_passive()) {
      unused = link_;
    } else if (arrived_) {
      skipped_.push_back(link_);
    }
    link_ = link;
    arrived_ = true;
    taken_by_peer_ = taken_by_peer;
    if (!link->accept(encode(reply))) {
      // The peer has gone meanwhile; its own time-out tells it.
      unused = std::exchange(link_, nullptr);
      arrived_ = false;
    }
  }
  if (unused != nullptr) unused->retire(Link::Farewell::kSilent);
  parts_.link.bell->raise();
  return {};
}

Seat::Arrival Seat::take_arrival() {
  const std::scoped_lock lock(mutex_);
  if (!arrived_ || closed_) return {};
  arrived_ = false;
  return {.link = link_, .taken_by_peer = taken_by_peer_, .skipped = std::exchange(skipped_, {})};
}

void Seat::close() {
  std::shared_ptr<Link> unused;
  std::vector<std::shared_ptr<Link>> skipped;
  {
    const std::scoped_lock lock(mutex_);
    if (closed_) return;
    closed_ = true;
    if (arrived_ || is_passive()) unused = link_;
    link_ = nullptr;
    skipped.swap(skipped_);
  }
  for (const auto& link : skipped) link->retire(Link::Farewell::kSilent);
  if (unused != nullptr) unused->retire(Link::Farewell::kTellPeer);
  parts_.hall->leave(id());
}

void Seat::abandon() {
  if (!is_passive()) parts_.queue->release(parts_.reserved);
  close();
}

void Seat::on_down(Link& link) {
  if (!is_passive()) return;  // The endpoint sees it.
  {
    const std::scoped_lock lock(mutex_);
    if (link_.get() != &link) return;  // An older one: the peer has resumed.
  }
  close();
}

}  // namespace yonder::fabric::verbs
