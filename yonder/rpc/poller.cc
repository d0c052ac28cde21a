#include "yonder/rpc/internal/poller.h"

#include <algorithm>
#include <bit>

#include "yonder/base/check.h"

namespace yonder::rpc {
namespace {

// The poller whose thread this is, if any.
thread_local Poller* t_poller = nullptr;

// How often connections are looked after: an idle server wakes 20 times a second,
// which is not measurable, and a connection that broke silently is found soon.
constexpr Duration kTendEvery = std::chrono::milliseconds(50);
// A poller that is never idle asks the clock once in so many steps.
constexpr std::uint32_t kStepsPerLook = 4096;

template <typename T>
void bump(std::atomic<T>& counter, T by = 1) {
  // Only the poller writes: no locked instruction is needed.
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

Poller::Poller(ServerCore& core, std::unique_ptr<fabric::CompletionQueue> queue)
    : core_(core),
      queue_(std::move(queue)),
      driven_(core.options.pollers == 0),
      depth_(endpoint_depth(core.options)),
      exchanges_per_connection_(std::max(core.options.exchanges / 4, 1u)),
      connections_(core.options.max_connections),
      short_answer_sent_(&Poller::on_short_answer_sent, this),
      goodbye_sent_(&Poller::on_goodbye_sent, this),
      finished_(std::bit_ceil(std::max<std::size_t>(core.options.exchanges, 2))) {
  const ServerOptions& options = core.options;
  const std::size_t answer_bytes = (kResponseHeaderBytes + options.max_response + 63) / 64 * 64;
  exchange_memory_ = std::make_unique_for_overwrite<std::byte[]>(options.exchanges * answer_bytes);
  exchanges_.assign(options.exchanges, Exchange(&Poller::on_answer_sent));
  free_exchanges_.reserve(options.exchanges);
  for (std::size_t i = options.exchanges; i-- > 0;) {
    exchanges_[i].poller = this;
    exchanges_[i].buffer = exchange_memory_.get() + i * answer_bytes;
    free_exchanges_.push_back(&exchanges_[i]);
  }
}

Poller::~Poller() {
  close_all();
  // Gives back what closing cancelled; handlers are gone by now (Server::stop).
  for (int i = 0; i < 64 && free_exchanges_.size() != exchanges_.size(); ++i) queue_->poll({});
  YONDER_CHECK(free_exchanges_.size() == exchanges_.size(),
               "every request is answered before its server goes");
  free_closed();
}

Poller& Poller::polling_now(ServerCore& core) {
  // A server without threads has one poller, whichever thread drives it.
  return core.options.pollers == 0 ? *core.pollers.front() : *t_poller;
}

// ---------------------------------------------------------------- driving

void Poller::run() {
  t_poller = this;
  const Clock& clock = queue_->clock();
  Instant next_tend = clock.now() + kTendEvery;
  std::uint32_t idle_steps = 0;
  for (std::uint32_t steps = 1; !core_.exit.load(std::memory_order_acquire); ++steps) {
    const bool stopping = core_.stopping.load(std::memory_order_relaxed);  // Acted upon soon is enough.
    idle_steps = step() ? 0 : idle_steps + 1;
    const bool idle = idle_steps > core_.options.spin_polls;
    if (!idle && !stopping && steps % kStepsPerLook != 0) continue;
    const Instant now = clock.now();
    if (now >= next_tend || stopping) {
      tend();
      next_tend = now + kTendEvery;
    }
    // While stopping somebody may be waiting for the end: look every millisecond.
    const Instant until = stopping ? now + std::chrono::milliseconds(1) : next_tend;
    if (idle || stopping) (void)rest(Deadline::at(until));
  }
  t_poller = nullptr;
}

bool Poller::step() {
  in_step_ = true;
  answered_in_step_ = false;
  const std::uint64_t before = queue_->operations_completed();
  queue_->poll({});
  bool worked = queue_->operations_completed() != before;
  if (!finished_.empty()) {
    take_finished();
    worked = true;
  }
  flush();
  in_step_ = false;
  return worked;
}

Result<void> Poller::rest(Deadline deadline) {
  post_spent_receives();
  // Dekker's pattern with on_finished(): we say that we rest and then look for
  // work; it gives us work and then looks whether we rest. With a full fence
  // between the two steps on both sides at least one of us sees the other.
  resting_.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Result<void> result;
  if (finished_.empty()) result = queue_->wait(deadline);
  resting_.store(false, std::memory_order_relaxed);
  return result;
}

void Poller::on_finished(Exchange& exchange) {
  if (driven_ || t_poller == this) return answer(exchange);
  // Once the exchange is pushed it may be answered and the server be gone: being
  // counted keeps the poller (advance_stop). Relaxed: the push publishes it.
  finishing_.fetch_add(1, std::memory_order_relaxed);
  const bool pushed = finished_.try_push(&exchange);
  YONDER_CHECK(pushed, "an exchange finishes once, and there is room for each");
  std::atomic_thread_fence(std::memory_order_seq_cst);  // See rest().
  // Relaxed: the fence orders it. One of several that finish at once wakes us.
  if (resting_.load(std::memory_order_relaxed) && resting_.exchange(false, std::memory_order_relaxed))
    queue_->wake();
  // release: pairs with advance_stop(); our last access of the poller.
  finishing_.fetch_sub(1, std::memory_order_release);
}

void Poller::tend() {
  adopt_new();
  std::vector<fabric::EndpointId> broken;
  connections_.for_each([&](Connection& connection) {
    if (connection.endpoint->state() != fabric::EndpointState::kOpen) {
      broken.push_back(connection.endpoint->id());
    } else if (!connection.unsent.empty()) {
      send_unsent(connection);
    }
  });
  for (const fabric::EndpointId id : broken) {
    if (Connection* connection = connections_.find(id)) close(*connection);
  }
  free_closed();
  if (core_.stopping.load(std::memory_order_acquire)) advance_stop();
}

// ---------------------------------------------------------------- connections

Connection* Poller::find_or_adopt(fabric::EndpointId id) {
  if (Connection* connection = connections_.find(id)) [[likely]]
    return connection;
  // Its first request is here before we have taken the connection.
  adopt_new();
  return connections_.find(id);
}

void Poller::adopt_new() {
  {
    sync::LockGuard lock(core_.accept_mutex);
    // Passed since the beginning of time: takes what is there and never waits.
    constexpr Deadline kAtOnce = Deadline::at(Instant::from_ns(1));
    while (core_.listener != nullptr) {
      Result<std::unique_ptr<fabric::Endpoint>> endpoint = core_.listener->accept(kAtOnce);
      if (!endpoint) break;
      const auto owner = std::ranges::find(core_.pollers, &(*endpoint)->queue(),
                                           [](const auto& poller) { return &poller->queue(); });
      YONDER_CHECK(owner != core_.pollers.end(), "connections are made on the queues that were given");
      (*owner)->hand_over(*std::move(endpoint));
    }
  }
  std::vector<std::unique_ptr<fabric::Endpoint>> taken;
  {
    sync::LockGuard lock(inbox_mutex_);
    taken.swap(inbox_);
  }
  for (auto& endpoint : taken) adopt(std::move(endpoint));
}

void Poller::hand_over(std::unique_ptr<fabric::Endpoint> endpoint) {
  sync::LockGuard lock(inbox_mutex_);
  inbox_.push_back(std::move(endpoint));
}

void Poller::adopt(std::unique_ptr<fabric::Endpoint> endpoint) {
  if (connections_.full() || endpoint->limits().max_inline < kResponseHeaderBytes) return;  // Closes it.
  auto connection = std::make_unique<Connection>();
  connection->max_inline = endpoint->limits().max_inline;
  connection->credits = core_.options.credits;
  connection->tenant = endpoint->agreement().peer.tenant;
  connection->endpoint = std::move(endpoint);
  connections_.insert(std::move(connection));
  bump(connection_count_);
}

void Poller::close(Connection& connection) {
  if (staged_for_ == &connection) flush();
  connection.closed.store(true, std::memory_order_relaxed);
  connection.endpoint->close();
  bump(connections_closed_);
  connection_count_.store(connection_count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  for (const Unsent& unsent : std::exchange(connection.unsent, {})) {
    if (unsent.exchange != nullptr) release(*unsent.exchange);
  }
  closed_.push_back(connections_.remove(connection.endpoint->id()));
}

void Poller::close_all() {
  std::vector<Connection*> all;
  connections_.for_each([&](Connection& connection) { all.push_back(&connection); });
  for (Connection* connection : all) close(*connection);
}

void Poller::free_closed() {
  std::erase_if(closed_, [](const auto& connection) { return connection->exchanges == 0; });
}

// Stopping goes forward in steps, each taken when the one before is complete:
// answer what is under way, say goodbye, wait until the fabric has delivered the
// goodbyes (and, since sends are ordered, every answer before them), close.
void Poller::advance_stop() {
  if (core_.abandon.load(std::memory_order_acquire)) close_all();
  if (free_exchanges_.size() != exchanges_.size()) return;
  connections_.for_each([&](Connection& connection) {
    if (connection.goodbye_sent || !connection.unsent.empty()) return;
    const ResponseHeader goodbye{.request_id = kGoodbyeId,
                                 .epoch = core_.epoch.load(std::memory_order_relaxed),
                                 .status = static_cast<std::uint16_t>(ErrorCode::kStopping),
                                 .sizes = ResponseHeader::pack_sizes(0)};
    if (!post_header(connection, goodbye, goodbye_sent_, true)) return;
    connection.goodbye_sent = true;
    ++goodbyes_under_way_;
  });
  bool all_said = goodbyes_under_way_ == 0;
  connections_.for_each([&](Connection& connection) { all_said = all_said && connection.goodbye_sent; });
  if (!all_said) return;
  // acquire: pairs with on_finished(). Zero stays zero, for no exchange is in use.
  if (finishing_.load(std::memory_order_acquire) != 0) return;
  close_all();
  free_closed();
  drained_.store(true, std::memory_order_release);  // Pairs with drained(): nothing is under way.
}

ServerStats Poller::stats() const {
  // Relaxed: figures for people.
  return {.requests = requests_seen_.load(std::memory_order_relaxed),
          .refused = refused_.load(std::memory_order_relaxed),
          .connections_closed = connections_closed_.load(std::memory_order_relaxed),
          .connections = connection_count_.load(std::memory_order_relaxed)};
}

}  // namespace yonder::rpc
