#pragma once
// A link: one queue pair and the connection that carries it.
//
// An endpoint outlives its links: a refused access or a lost peer ends the link,
// and the endpoint gets another one. Links are made on either side by
//   dial()    initiator: resolve, ask, establish; the service thread does the steps
//   answer()  target: from a connection request, on the service thread
//
//   state    | means                              | next
//   ---------+------------------------------------+---------------------
//   kDialing | the steps of dial() are under way  | kUp, kFailed
//   kUp      | queue pair ready to send           | kDown
//   kDown    | the peer disconnected or died      | –
//   kFailed  | dialing ended with failure()       | –
//
// Every change of state raises the bell. A queue pair that fell into error by
// itself does not change the state: its completions tell.
//
// Concurrency: state() from any thread. The owner's thread posts on qp() and
// alone may destroy it; the service thread may put it into error (kill()).
// Lifetime: the owner calls retire() before it lets go (checked).

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "yonder/base/result.h"
#include "yonder/fabric/verbs/internal/bell.h"
#include "yonder/fabric/verbs/internal/cm_service.h"
#include "yonder/fabric/verbs/internal/device.h"
#include "yonder/fabric/verbs/internal/wire.h"
#include "yonder/os/address.h"

namespace yonder::fabric::verbs {

// What every queue pair of an endpoint is made from.
struct QpSpec {
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
  std::uint32_t depth = 1;
  std::uint32_t receive_depth = 1;  // Ignored with an srq.
};

class Link final : public CmHandler, public std::enable_shared_from_this<Link> {
 public:
  enum class State : std::uint8_t { kDialing, kUp, kDown, kFailed };
  using RequestBytes = std::array<std::byte, kRequestBytes>;

  struct Parts {
    CmService& service;
    std::shared_ptr<Device> device;
    std::shared_ptr<Bell> bell;
    QpSpec spec;
    // Called on the service thread when the peer has gone. May be empty.
    std::function<void(Link&)> on_down;
  };

  // Starts; the rest happens on the service thread.
  static Result<std::shared_ptr<Link>> dial(const Parts& parts, const os::SocketAddress& to,
                                            const RequestBytes& request);
  // Takes over the id of a connection request and makes its queue pair, ready to
  // receive and send; accept() then answers. If it fails, the caller rejects.
  static Result<std::shared_ptr<Link>> answer(const Parts& parts, const rdma_cm_event& request);
  Result<void> accept(std::span<const std::byte> reply);

  explicit Link(const Parts& parts) : parts_(parts) {}
  ~Link() override;

  // acquire: pairs with set_state(); reply() and failure() are complete.
  State state() const { return state_.load(std::memory_order_acquire); }
  // After dial(), in kUp or kDown.
  const Reply& reply() const { return reply_; }
  // In kFailed.
  Error failure() const { return failure_; }

  ibv_qp* qp() const { return qp_; }
  std::uint32_t qp_number() const { return qp_number_; }

  // Rings another bell from now on.
  void set_bell(std::shared_ptr<Bell> bell);
  // Puts the queue pair into error: nothing more is sent, executed or answered,
  // and what is outstanding is flushed to the completion queue. Any thread.
  void kill();
  // When it returns the NIC uses no buffer of this link. Owner's thread.
  void destroy_qp();
  enum class Farewell : std::uint8_t { kSilent, kTellPeer };
  // destroy_qp(), and ends the connection. With kTellPeer the peer learns at
  // once; silently, when the id is destroyed. Idempotent. Owner's thread.
  void retire(Farewell farewell);

  void on_cm_event(const rdma_cm_event& event) override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  void advance(const Lock& lock, const rdma_cm_event& event);
  void dial_step(const Lock& lock, const rdma_cm_event& event);
  Result<void> resolve_route(const Lock& lock);
  Result<void> request_connection(const Lock& lock);
  Result<void> establish(const Lock& lock, const rdma_cm_event& event);
  Result<void> create_qp(const Lock& lock);
  void destroy_qp(const Lock& lock);
  // Moves the queue pair on; the connection manager knows the path.
  Result<void> modify(const Lock& lock, ibv_qp_state state, const rdma_conn_param* resources);
  void set_state(State state);
  void fail_dial(Error error);

  Parts parts_;  // The bell: guarded by mutex_.
  RequestBytes request_{};
  rdma_conn_param accepted_{};

  std::mutex mutex_;
  rdma_cm_id* id_ = nullptr;  // guarded by mutex_
  ibv_qp* qp_ = nullptr;      // written under mutex_; read by the owner's thread
  std::uint32_t qp_number_ = 0;

  Reply reply_;  // Written before state_ becomes kUp.
  Error failure_{ErrorCode::kConnectionRefused, "connect"};
  std::atomic<State> state_{State::kDialing};
};

}  // namespace yonder::fabric::verbs
