#include "yonder/remote/numa_router.h"

#include <utility>

#include "yonder/sync/spin.h"

namespace yonder::remote {

using fabric::Completion;
using fabric::CpuWork;
using fabric::WorkRequest;
using internal::ProxyCall;

namespace {

// How long a nap is if nobody wakes us: only a backstop, because whoever puts something
// into a queue wakes its thread.
constexpr Duration kNap = std::chrono::milliseconds(10);

}  // namespace

void internal::Inbox::put(ProxyCall& call) {
  // Cannot be full (N1); a producer that is just filling a cell is waited for.
  while (!answers_.try_push(&call)) {
  }
  queue_.wake();
  call.is_released.store(true, std::memory_order_release);  // Pairs with the load in try_take().
}

ProxyCall* internal::Inbox::try_take() {
  ProxyCall* call = nullptr;
  if (!answers_.try_pop(call)) return nullptr;
  // Acquire: pairs with the store in put(). As long as it takes to wake a queue.
  while (!call->is_released.load(std::memory_order_acquire)) sync::cpu_pause();
  return call;
}

// ---------------------------------------------------------------- the proxy

SocketProxy::SocketProxy(Port port, const ProxyOptions& options) : port_(port), calls_(options.capacity) {}

void SocketProxy::stop() {
  gate_.close();
  port_.queue().wake();
}

Task<void> SocketProxy::serve() {
  for (;;) {
    ProxyCall* call = nullptr;
    while (calls_.try_pop(call)) {
      port_.queue().charge(CpuWork::kFarLine, 1, 0);
      port_.scheduler().spawn(execute(*call));
    }
    // Closed first: nobody enters after that, so nothing inside is the last word.
    if (gate_.is_closed() && gate_.inside() == 0) co_return;
    co_await port_.scheduler().nap_until(port_.clock().now() + kNap);
  }
}

Task<void> SocketProxy::execute(ProxyCall& call) {
  if (gate_.is_closed()) {
    call.result = fail(ErrorCode::kClosed, "through a proxy that was stopped");
  } else {
    call.result = co_await port_.async_perform(call.request, call.request.deadline);
  }
  served_.fetch_add(1, std::memory_order_relaxed);
  call.origin->put(call);
}

// ---------------------------------------------------------------- the router

NumaRouter::NumaRouter(Port port, const RouterOptions& options)
    : port_(port),
      socket_(options.socket),
      proxies_(options.proxies),
      max_outstanding_(options.max_outstanding),
      shared_(std::make_shared<Shared>(options.max_outstanding, port.queue())) {}

Task<Result<Completion>> NumaRouter::through_proxy(std::uint32_t socket, WorkRequest request,
                                                   Deadline deadline) {
  SocketProxy* const proxy = socket < proxies_.size() ? proxies_[socket] : nullptr;
  if (proxy == nullptr) co_return fail(ErrorCode::kNotFound, "a socket without a proxy", socket);
  request.deadline = port_.deadline(deadline);
  const sync::Gate::Pass pass = proxy->gate_.try_enter();
  if (!pass) co_return fail(ErrorCode::kClosed, "a proxy was stopped", socket);
  ProxyCall call{.request = request, .origin = &shared_->inbox};
  while (shared_->outstanding == max_outstanding_ || !proxy->calls_.try_push(&call)) {
    if (request.deadline.passed(port_.clock().now())) {
      co_return fail(ErrorCode::kDeadlineExceeded, "wait for a place at a proxy", socket);
    }
    co_await port_.scheduler().sleep_for(Port::kPauseWhenFull);
  }
  ++shared_->outstanding;
  ++stats_.proxied;
  port_.queue().charge(CpuWork::kFarLine, 1, 0);
  proxy->port_.queue().wake();
  if (!shared_->has_collector) {
    shared_->has_collector = true;
    port_.scheduler().spawn(collect(port_, shared_));
  }
  struct Arrival {
    ProxyCall& call;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { call.waiter = waiter; }
    void await_resume() const noexcept {}
  };
  // Not resumed before it is suspended: only the collector does that, on this thread.
  co_await Arrival{call};
  co_return call.result;
}

Task<void> NumaRouter::collect(Port port, std::shared_ptr<Shared> shared) {
  // First a nap: the call that started us is not suspended yet.
  while (shared->outstanding > 0) {
    co_await port.scheduler().nap_until(port.clock().now() + kNap);
    while (ProxyCall* const call = shared->inbox.try_take()) {
      port.queue().charge(CpuWork::kFarLine, 1, 0);
      --shared->outstanding;
      call->waiter.resume();
    }
  }
  shared->has_collector = false;
}

Task<Result<void>> NumaRouter::async_read(std::uint32_t socket, LocalPiece into, RemoteAddress from,
                                          Deadline deadline) {
  const WorkRequest request{.op = fabric::Op::kRead, .local = {&into, 1}, .remote = from};
  const Result<Completion> done = co_await async_perform(socket, request, deadline);
  co_return outcome_of(done);
}

Task<Result<void>> NumaRouter::async_write(std::uint32_t socket, LocalPiece from, RemoteAddress to,
                                           Deadline deadline) {
  const WorkRequest request{.op = fabric::Op::kWrite, .local = {&from, 1}, .remote = to};
  const Result<Completion> done = co_await async_perform(socket, request, deadline);
  co_return outcome_of(done);
}

}  // namespace yonder::remote
