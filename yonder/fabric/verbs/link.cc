#include <algorithm>
#include <cerrno>

#include "yonder/base/check.h"
#include "yonder/fabric/verbs/internal/link.h"

namespace yonder::fabric::verbs {
namespace {

// 4.096 µs × 2^16 = 268 ms until a packet counts as lost, and six repetitions: an
// unreachable peer is given up after about two seconds. Seven would mean for
// ever on some devices.
constexpr std::uint8_t kAckTimeout = 16;
constexpr std::uint8_t kRetries = 6;
// A sender waits for a receive buffer as long as its own deadline allows: 7 is
// "for ever", and the endpoint's bookkeeping ends it.
constexpr std::uint8_t kReceiverNotReadyRetries = 7;
// Code 12: ask again after 0.64 ms.
constexpr std::uint8_t kReceiverNotReadyTimer = 12;
// Reads and atomics under way in each direction.
constexpr int kMaxReads = 16;
constexpr int kResolveMs = 2000;

constexpr unsigned kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

std::uint8_t read_depth(int device_limit, std::uint8_t peer) {
  return static_cast<std::uint8_t>(std::clamp<int>(std::min<int>(device_limit, peer), 1, kMaxReads));
}

std::span<const std::byte> private_bytes(const rdma_cm_event& event) {
  return {static_cast<const std::byte*>(event.param.conn.private_data), event.param.conn.private_data_len};
}

Error rejection(const rdma_cm_event& event) {
  return Error(decode_rejection(private_bytes(event)), "connect", event.status);
}

}  // namespace

Link::~Link() { YONDER_CHECK(id_ == nullptr && qp_ == nullptr, "links are retired before they go"); }

Result<std::shared_ptr<Link>> Link::dial(const Parts& parts, const os::SocketAddress& to,
                                         const RequestBytes& request) {
  auto link = std::make_shared<Link>(parts);
  link->request_ = request;
  YONDER_TRY(id, parts.service.create_id(link));
  Lock lock(link->mutex_);
  link->id_ = id;
  if (parts.device->library().resolve_addr(id, nullptr, const_cast<sockaddr*>(to.raw()), kResolveMs) != 0) {
    const Error error = Error::from_errno("rdma_resolve_addr");
    lock.unlock();
    link->retire(Farewell::kSilent);
    return std::unexpected(error);
  }
  return link;
}

Result<std::shared_ptr<Link>> Link::answer(const Parts& parts, const rdma_cm_event& request) {
  auto link = std::make_shared<Link>(parts);
  const int limit = std::min(parts.device->attributes().max_qp_rd_atom, kMaxReads);
  link->accepted_.responder_resources = read_depth(limit, request.param.conn.responder_resources);
  link->accepted_.initiator_depth = read_depth(limit, request.param.conn.initiator_depth);
  Lock lock(link->mutex_);
  link->id_ = request.id;
  Result<void> made = link->create_qp(lock);
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    if (made) made = link->modify(lock, state, &link->accepted_);
  }
  if (!made) {
    link->id_ = nullptr;  // The caller rejects, and owns the id again.
    lock.unlock();
    link->destroy_qp();
    return std::unexpected(made.error());
  }
  link->state_ = State::kUp;
  parts.service.adopt(request.id, link);
  return link;
}

Result<void> Link::accept(std::span<const std::byte> reply) {
  const Lock lock(mutex_);
  rdma_conn_param param = accepted_;
  param.private_data = reply.data();
  param.private_data_len = static_cast<std::uint8_t>(reply.size());
  param.rnr_retry_count = kReceiverNotReadyRetries;
  param.srq = parts_.spec.srq != nullptr;
  param.qp_num = qp_number_;
  if (parts_.device->library().accept(id_, &param) != 0) return fail_errno("rdma_accept");
  return {};
}

void Link::set_bell(std::shared_ptr<Bell> bell) {
  const Lock lock(mutex_);
  parts_.bell = std::move(bell);
}

void Link::kill() {
  const Lock lock(mutex_);
  if (qp_ == nullptr) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  parts_.device->library().modify_qp(qp_, &attributes, IBV_QP_STATE);
}

void Link::destroy_qp() { destroy_qp(Lock(mutex_)); }

void Link::destroy_qp(const Lock&) {
  if (qp_ == nullptr) return;
  parts_.device->library().destroy_qp(qp_);
  qp_ = nullptr;
}

void Link::retire(Farewell farewell) {
  rdma_cm_id* id = nullptr;
  {
    // Both under one lock: in between, a step of dial() could make a queue pair
    // that nobody would destroy.
    const Lock lock(mutex_);
    destroy_qp(lock);
    std::swap(id, id_);
  }
  if (id == nullptr) return;
  // Not under the lock: the service thread may be waiting for it in a handler.
  if (farewell == Farewell::kTellPeer) parts_.device->library().disconnect(id);
  parts_.service.bury(id);
}

// ---------------------------------------------------------------- service thread

void Link::on_cm_event(const rdma_cm_event& event) {
  const State before = state();
  {
    const Lock lock(mutex_);
    if (id_ == nullptr) return;  // Retired while the event was on its way.
    advance(lock, event);
  }
  // Not under the lock: the callee may retire us.
  if (before != State::kDown && state() == State::kDown && parts_.on_down) parts_.on_down(*this);
}

void Link::advance(const Lock& lock, const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      if (state() == State::kUp) set_state(State::kDown);
      return;
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return;
    default:
      break;
  }
  if (state() == State::kDialing) {
    dial_step(lock, event);
  } else if (state() == State::kUp) {
    set_state(State::kDown);  // The peer gave up before our acceptance arrived.
  }
}

void Link::dial_step(const Lock& lock, const rdma_cm_event& event) {
  Result<void> step;
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      step = resolve_route(lock);
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      step = request_connection(lock);
      break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      step = establish(lock, event);
      if (step) return set_state(State::kUp);
      break;
    case RDMA_CM_EVENT_REJECTED:
      return fail_dial(rejection(event));
    default:
      return fail_dial(Error(ErrorCode::kConnectionRefused, "connect: no way to the address", event.status));
  }
  if (!step) fail_dial(step.error());
}

Result<void> Link::resolve_route(const Lock&) {
  if (id_->verbs != parts_.device->context()) {
    return fail(ErrorCode::kAddressInvalid, "connect: the address is reached through another device");
  }
  if (parts_.device->library().resolve_route(id_, kResolveMs) != 0) return fail_errno("rdma_resolve_route");
  return {};
}

Result<void> Link::request_connection(const Lock& lock) {
  YONDER_TRY_VOID(create_qp(lock));
  YONDER_TRY_VOID(modify(lock, IBV_QPS_INIT, nullptr));
  const auto reads = read_depth(parts_.device->attributes().max_qp_rd_atom, kMaxReads);
  rdma_conn_param param{};
  param.private_data = request_.data();
  param.private_data_len = request_.size();
  param.responder_resources = reads;
  param.initiator_depth = reads;
  param.retry_count = kRetries;
  param.rnr_retry_count = kReceiverNotReadyRetries;
  param.srq = parts_.spec.srq != nullptr;
  param.qp_num = qp_number_;
  if (parts_.device->library().connect(id_, &param) != 0) return fail_errno("rdma_connect");
  return {};
}

Result<void> Link::establish(const Lock& lock, const rdma_cm_event& event) {
  YONDER_TRY(reply, decode_reply(private_bytes(event)));
  YONDER_TRY_VOID(modify(lock, IBV_QPS_RTR, nullptr));
  YONDER_TRY_VOID(modify(lock, IBV_QPS_RTS, nullptr));
  if (parts_.device->library().establish(id_) != 0) return fail_errno("rdma_establish");
  reply_ = std::move(reply);
  return {};
}

Result<void> Link::create_qp(const Lock&) {
  const Device& device = *parts_.device;
  ibv_qp_init_attr attributes{};
  attributes.qp_context = this;
  attributes.send_cq = attributes.recv_cq = parts_.spec.cq;
  attributes.srq = parts_.spec.srq;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {.max_send_wr = parts_.spec.depth,
                    .max_recv_wr = parts_.spec.srq != nullptr ? 0 : parts_.spec.receive_depth,
                    .max_send_sge = device.max_pieces(),
                    .max_recv_sge = 1,
                    .max_inline_data = device.max_inline()};
  qp_ = device.library().create_qp(device.pd(), &attributes);
  if (qp_ == nullptr) return std::unexpected(device_error("ibv_create_qp"));
  qp_number_ = qp_->qp_num;
  return {};
}

Result<void> Link::modify(const Lock&, ibv_qp_state state, const rdma_conn_param* resources) {
  const Library& library = parts_.device->library();
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int mask = 0;
  if (library.init_qp_attr(id_, &attributes, &mask) != 0) return fail_errno("rdma_init_qp_attr");
  if (state == IBV_QPS_INIT) {
    attributes.qp_access_flags = kAllAccess;  // Regions decide; the queue pair allows all.
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  if (state == IBV_QPS_RTR) {
    attributes.min_rnr_timer = kReceiverNotReadyTimer;
    if (resources != nullptr) attributes.max_dest_rd_atomic = resources->responder_resources;
  }
  if (state == IBV_QPS_RTS) {
    attributes.timeout = kAckTimeout;
    attributes.retry_cnt = kRetries;
    attributes.rnr_retry = kReceiverNotReadyRetries;
    if (resources != nullptr) attributes.max_rd_atomic = resources->initiator_depth;
  }
  const int error = library.modify_qp(qp_, &attributes, mask);
  if (error != 0) return std::unexpected(Error::from_errno("ibv_modify_qp", error));
  return {};
}

void Link::set_state(State state) {
  // release: pairs with state(); what the new state promises was written before.
  state_.store(state, std::memory_order_release);
  parts_.bell->raise();
}

void Link::fail_dial(Error error) {
  failure_ = error;
  set_state(State::kFailed);
}

}  // namespace yonder::fabric::verbs
