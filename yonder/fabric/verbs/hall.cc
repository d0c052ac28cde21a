#include "yonder/fabric/verbs/internal/hall.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "yonder/base/check.h"
#include "yonder/base/secure_random.h"
#include "yonder/fabric/verbs/internal/completion_queue.h"
#include "yonder/fabric/verbs/internal/endpoint.h"
#include "yonder/os/wait.h"

namespace yonder::fabric::verbs {
namespace {

Error bind_error(const char* call) {
  switch (errno) {
    case EADDRINUSE:
      return Error(ErrorCode::kAlreadyExists, "listen: the address is in use", errno);
    case EADDRNOTAVAIL:
    case ENODEV:
      return Error(ErrorCode::kAddressInvalid, "listen: no RDMA device has this address", errno);
    default:
      return Error::from_errno(call);
  }
}

std::chrono::steady_clock::time_point as_time_point(Instant instant) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(instant.ns()));
}

}  // namespace

Result<std::shared_ptr<Hall>> Hall::open(Core& core, const ListenOptions& options,
                                         const os::SocketAddress& address) {
  if (options.greeting.size() > kMaxGreetingBytes || options.max_connections == 0) {
    return fail(ErrorCode::kInvalidArgument, "listen: greeting or max_connections");
  }
  if (!options.passive && options.completion_queues.empty()) {
    return fail(ErrorCode::kInvalidArgument, "listen: accepted endpoints need a completion queue");
  }
  YONDER_TRY(limits, VerbsEndpoint::limits_for(*core.device, options.endpoint));
  (void)limits;
  auto hall = std::make_shared<Hall>(core, options);
  if (options.passive) YONDER_TRY_VOID(hall->make_passive_queue());
  YONDER_TRY_VOID(hall->bind(address));
  return hall;
}

Hall::~Hall() {
  YONDER_CHECK(id_ == nullptr && seats_.empty(), "a hall is empty when it goes");
  if (passive_cq_ != nullptr) core_.device->library().destroy_cq(passive_cq_);
}

Result<void> Hall::make_passive_queue() {
  YONDER_TRY(bell, Bell::create());
  passive_bell_ = std::move(bell);
  passive_cq_ = core_.device->library().create_cq(core_.device->context(), 16, nullptr, nullptr, 0);
  if (passive_cq_ == nullptr) return std::unexpected(device_error("ibv_create_cq"));
  return {};
}

Result<void> Hall::bind(const os::SocketAddress& address) {
  const Library& library = core_.device->library();
  YONDER_TRY(id, core_.service->create_id(shared_from_this()));
  Result<void> done;
  if (library.bind_addr(id, const_cast<sockaddr*>(address.raw())) != 0) {
    done = std::unexpected(bind_error("rdma_bind_addr"));
  } else if (id->verbs != core_.device->context()) {
    done = fail(ErrorCode::kAddressInvalid, "listen: the address belongs to another device");
  } else if (library.listen(id, 1024) != 0) {
    done = std::unexpected(bind_error("rdma_listen"));
  }
  if (!done) {
    core_.service->bury(id);
    return done;
  }
  const os::SocketAddress bound(rdma_get_local_addr(id), address.length());
  address_ = "verbs://" + bound.to_string();
  const std::scoped_lock lock(mutex_);
  id_ = id;
  return {};
}

// ---------------------------------------------------------------- the listener's side

Result<std::shared_ptr<Seat>> Hall::next_seat(Deadline deadline) {
  const Deadline fixed = os::fix_deadline(deadline);
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return closed_ || !waiting_.empty(); };
  if (!arrived_.wait_until(lock, as_time_point(fixed.instant()), ready)) {
    return fail(ErrorCode::kDeadlineExceeded, "accept a connection");
  }
  if (closed_) return fail(ErrorCode::kClosed, "accept a connection");
  auto seat = std::move(waiting_.front());
  waiting_.pop_front();
  return seat;
}

std::size_t Hall::connection_count() const {
  const std::scoped_lock lock(mutex_);
  return seats_.size();
}

void Hall::close() {
  std::vector<std::shared_ptr<Seat>> unused;
  {
    std::unique_lock lock(mutex_);
    if (closed_) return;
    closed_ = true;
    unused.assign(waiting_.begin(), waiting_.end());
    waiting_.clear();
    if (options_.passive) {
      for (const auto& [id, seat] : seats_) unused.push_back(seat);
    }
    end_if_empty(lock);
  }
  arrived_.notify_all();
  for (const auto& seat : unused) seat->abandon();
}

void Hall::leave(SeatId id) {
  std::shared_ptr<Seat> gone;  // Destroyed without the lock.
  std::unique_lock lock(mutex_);
  const auto found = seats_.find(id);
  if (found == seats_.end()) return;
  gone = std::move(found->second);
  seats_.erase(found);
  end_if_empty(lock);
  lock.unlock();
}

void Hall::end_if_empty(std::unique_lock<std::mutex>&) {
  if (!closed_ || !seats_.empty() || id_ == nullptr) return;
  core_.service->bury(std::exchange(id_, nullptr));
}

// ---------------------------------------------------------------- service thread

void Hall::on_cm_event(const rdma_cm_event& event) {
  if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST) return;
  const Result<void> admitted = admit(event);
  if (admitted) return;
  const auto rejection = encode_rejection(admitted.error().code());
  core_.device->library().reject(event.id, rejection.data(), rejection.size());
  core_.service->bury(event.id);
}

Result<void> Hall::admit(const rdma_cm_event& event) {
  const std::span bytes(static_cast<const std::byte*>(event.param.conn.private_data),
                        event.param.conn.private_data_len);
  YONDER_TRY(request, decode_request(bytes));
  if (const auto* resume = std::get_if<ResumeRequest>(&request)) return resume_connection(event, *resume);
  return open_connection(event, std::get<OpenRequest>(request));
}

Result<void> Hall::check_epoch(Epoch epoch) const {
  // acquire: pairs with raise_epoch().
  if (epoch.value() >= core_.epoch.load(std::memory_order_acquire)) return {};
  return fail(ErrorCode::kStaleEpoch, "connect", static_cast<std::int64_t>(epoch.value()));
}

Result<void> Hall::open_connection(const rdma_cm_event& event, const OpenRequest& request) {
  YONDER_TRY_VOID(check_epoch(request.hello.identity.epoch));
  const Hello ours = core_.hello(options_.identity);
  YONDER_TRY(agreement, agree(ours, request.hello));
  // The initiator has given this connection up, but we may not have noticed.
  if (const auto old = find(request.replaces); old != nullptr && old->is_passive()) old->close();
  YONDER_TRY(seat, make_seat(agreement));
  const Result<void> seated =
      seat->seat_link(event, {.hello = ours, .seat = seat->id(), .greeting = options_.greeting}, 0);
  if (!seated || !announce(seat)) seat->abandon();
  return seated;
}

// False if the listener was closed meanwhile.
bool Hall::announce(const std::shared_ptr<Seat>& seat) {
  if (seat->is_passive()) return true;
  const std::scoped_lock lock(mutex_);
  if (closed_) return false;
  waiting_.push_back(seat);
  arrived_.notify_one();
  return true;
}

Result<void> Hall::resume_connection(const rdma_cm_event& event, const ResumeRequest& request) {
  YONDER_TRY_VOID(check_epoch(request.epoch));
  const auto seat = find(request.seat);
  if (seat == nullptr) return fail(ErrorCode::kNotFound, "resume a connection: it is over");
  Reply reply{.hello = core_.hello(options_.identity), .seat = seat->id()};
  if (request.refused.op != Op{0}) {
    const auto explanation = core_.regions.explain(request.refused);
    reply.reason = explanation.reason;
    reply.current_key = explanation.current_key;
  }
  return seat->seat_link(event, reply, request.received);
}

Result<std::shared_ptr<Seat>> Hall::make_seat(const Agreement& agreement) {
  YONDER_TRY(id, secure_random_u64());
  Seat::Parts parts{.id = id,
                    .hall = shared_from_this(),
                    .link = {*core_.service, core_.device, passive_bell_, {.cq = passive_cq_}, {}},
                    .agreement = agreement,
                    .options = options_.endpoint,
                    .queue = nullptr,
                    .reserved = 0};
  if (!options_.passive) YONDER_TRY_VOID(attach_to_queue(parts));
  auto seat = std::make_shared<Seat>(std::move(parts));
  const Result<void> entered = enter(seat);
  if (!entered) {
    seat->abandon();
    return std::unexpected(entered.error());
  }
  return seat;
}

Result<void> Hall::enter(const std::shared_ptr<Seat>& seat) {
  const std::scoped_lock lock(mutex_);
  if (closed_) return fail(ErrorCode::kConnectionRefused, "connect: the listener is closed");
  if (seats_.size() >= options_.max_connections) {
    return fail(ErrorCode::kResourceExhausted, "connect: the listener has max_connections",
                options_.max_connections);
  }
  seats_[seat->id()] = seat;
  return {};
}

Result<void> Hall::attach_to_queue(Seat::Parts& parts) {
  YONDER_TRY(limits, VerbsEndpoint::limits_for(*core_.device, options_.endpoint));
  auto* shared = static_cast<VerbsReceiveQueue*>(options_.endpoint.receive_queue);
  auto* queue =
      static_cast<VerbsQueue*>(options_.completion_queues[next_queue_++ % options_.completion_queues.size()]);
  const std::uint32_t reserved = limits.depth + (shared != nullptr ? 0 : limits.receive_depth);
  YONDER_TRY_VOID(queue->reserve(reserved, shared));
  parts.queue = queue;
  parts.reserved = reserved;
  parts.link.bell = queue->bell();
  parts.link.spec = {.cq = queue->cq(),
                     .srq = shared != nullptr ? shared->srq() : nullptr,
                     .depth = limits.depth,
                     .receive_depth = std::max(limits.receive_depth, 1u)};
  return {};
}

std::shared_ptr<Seat> Hall::find(SeatId id) const {
  const std::scoped_lock lock(mutex_);
  const auto found = seats_.find(id);
  return found == seats_.end() ? nullptr : found->second;
}

Result<std::unique_ptr<Endpoint>> VerbsListener::accept(Deadline deadline) {
  YONDER_TRY(seat, hall_->next_seat(deadline));
  return VerbsEndpoint::accept(core_, std::move(seat));
}

}  // namespace yonder::fabric::verbs
