#include "yonder/rpc/server.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/base/log.h"
#include "yonder/rpc/internal/connection.h"
#include "yonder/rpc/internal/poller.h"
#include "yonder/rpc/internal/server_core.h"
#include "yonder/rpc/wire.h"

namespace yonder::rpc {
namespace {

// How long stop() waits, after it closed all connections at its deadline, for the
// fabric to give back its buffers.
constexpr Duration kAbandonGrace = std::chrono::milliseconds(100);
constexpr Duration kStopLook = std::chrono::milliseconds(1);

Result<void> check(const ServerOptions& options) {
  const bool sizes = options.max_request <= kMaxPayloadBytes && options.max_response <= kMaxPayloadBytes;
  const bool counts = options.credits > 0 && options.credits <= 4096 && options.exchanges > 0 &&
                      options.max_connections > 0 && options.work_queue > 0 && options.pollers <= 64 &&
                      options.workers <= 1024;
  if (!sizes || !counts) return fail(ErrorCode::kInvalidArgument, "rpc server: a limit is zero or too large");
  if (options.pollers == 0 && options.workers > 0)
    return fail(ErrorCode::kInvalidArgument, "rpc server: a driven server has no workers");
  if (options.greeting.size() > fabric::kMaxGreetingBytes - kGreetingBytes)
    return fail(ErrorCode::kInvalidArgument, "rpc server: greeting too long");
  return {};
}

void work(ServerCore& core) {
  for (Work work; core.work.pop(work);) {
    if (work.context.deadline().passed(core.clock->now())) {
      RawResponder(*work.exchange).refuse(ErrorCode::kDeadlineExceeded);
    } else {
      run_handler(*work.exchange->method, work.context, work.payload, *work.exchange);
    }
    const fabric::ReceiveRequest receive = work.receive->request();
    core.receives->post({&receive, 1});
  }
}

}  // namespace

// ---------------------------------------------------------------- handlers

RawResponder::~RawResponder() {
  if (exchange_ != nullptr) exchange_->finish(ErrorCode::kHandlerFailed, 0);
}

std::span<std::byte> RawResponder::payload() const { return exchange_->payload(); }

bool RawResponder::is_abandoned() const {
  // relaxed: who does not see it yet answers for nothing, as if it had asked earlier.
  return exchange_->connection->closed.load(std::memory_order_relaxed);
}

void RawResponder::respond(std::size_t bytes) && {
  YONDER_CHECK(bytes <= exchange_->payload_limit, "an answer is written into payload()");
  std::exchange(exchange_, nullptr)->finish(ErrorCode::kOk, bytes);
}

void RawResponder::refuse(ErrorCode code) && {
  YONDER_CHECK(code != ErrorCode::kOk, "a refusal has a reason");
  std::exchange(exchange_, nullptr)->finish(code, 0);
}

void run_handler(const RegisteredMethod& method, const Context& context, std::span<const std::byte> payload,
                 Exchange& exchange) {
  // What a user's callable throws ends at this border. The responder that it held
  // was dropped on the way and has answered kHandlerFailed.
  try {
    method.handler(context, payload, RawResponder(exchange));
  } catch (const std::exception& e) {
    log_error("rpc", "a handler threw", {{"method", method.method.value()}, {"what", e.what()}});
  } catch (...) {
    log_error("rpc", "a handler threw", {{"method", method.method.value()}});
  }
}

// ---------------------------------------------------------------- making

Result<std::unique_ptr<Server>> Server::create(fabric::Fabric& fabric, const ServerOptions& options) {
  YONDER_TRY_VOID(check(options));
  std::unique_ptr<Server> server(new Server(std::make_unique<ServerCore>(options)));
  server->core_->clock = &fabric.clock();
  server->core_->epoch.store(options.identity.epoch.value(), std::memory_order_relaxed);
  YONDER_TRY_VOID(server->open_pollers(fabric));
  YONDER_TRY_VOID(server->listen(fabric));
  return server;
}

Server::Server(std::unique_ptr<ServerCore> core) : core_(std::move(core)) {}

ServerCore::ServerCore(const ServerOptions& o) : options(o), work(o.work_queue) {}
ServerCore::~ServerCore() = default;

Result<void> Server::open_pollers(fabric::Fabric& fabric) {
  const ServerOptions& options = core_->options;
  const std::uint32_t receives = receive_buffers(options);
  YONDER_TRY(receive_queue, fabric.create_receive_queue({.capacity = receives}));
  core_->receives = std::make_unique<ReceivePool>(
      std::move(receive_queue), receives,
      static_cast<std::uint32_t>(kRequestHeaderBytes) + options.max_request, *core_, &Poller::on_receive);
  const std::uint64_t completions =
      std::uint64_t{endpoint_depth(options)} * options.max_connections + receives;
  const auto capacity = static_cast<std::uint32_t>(std::min<std::uint64_t>(completions, 1u << 20));
  for (std::uint32_t i = 0; i < std::max(options.pollers, 1u); ++i) {
    YONDER_TRY(queue, fabric.create_completion_queue({.capacity = capacity, .spin = options.spin}));
    core_->pollers.push_back(std::make_unique<Poller>(*core_, std::move(queue)));
  }
  return {};
}

Result<void> Server::listen(fabric::Fabric& fabric) {
  const ServerOptions& options = core_->options;
  const Greeting greeting{
      .credits = options.credits, .max_request = options.max_request, .max_response = options.max_response};
  fabric::ListenOptions listen;
  listen.address = options.address;
  listen.identity = options.identity;
  listen.greeting.resize(kGreetingBytes);
  put_header(greeting, listen.greeting.data());
  listen.greeting.insert(listen.greeting.end(), options.greeting.begin(), options.greeting.end());
  listen.endpoint.depth = endpoint_depth(options);
  listen.endpoint.receive_depth = endpoint_receives(options);
  listen.endpoint.max_message = static_cast<std::uint32_t>(
      std::max(kRequestHeaderBytes + options.max_request, kResponseHeaderBytes + options.max_response));
  listen.endpoint.default_timeout = options.send_timeout;
  listen.max_connections = options.max_connections;
  listen.endpoint.receive_queue = &core_->receives->queue();
  for (const auto& poller : core_->pollers) listen.completion_queues.push_back(&poller->queue());
  YONDER_TRY(listener, fabric.listen(listen));
  sync::LockGuard lock(core_->accept_mutex);
  core_->listener = std::move(listener);
  return {};
}

void Server::handle_raw(MethodId method, Handler handler, MethodOptions options) {
  YONDER_CHECK(!core_->serving.load(std::memory_order_relaxed), "handlers are registered before start()");
  YONDER_CHECK(method.value() < kMaxMethods, "method ids are below 1,024");
  std::unique_ptr<RegisteredMethod>& entry = core_->methods[method.value()];
  YONDER_CHECK(entry == nullptr, "a method has one handler");
  entry = std::make_unique<RegisteredMethod>(
      RegisteredMethod{.method = method, .options = options, .handler = std::move(handler)});
}

Result<void> Server::add_metrics() {
  const ServerOptions& options = core_->options;
  if (options.registry == nullptr) return {};
  for (const auto& method : core_->methods) {
    if (method == nullptr) continue;
    std::string name;
    if (options.method_name != nullptr) name = options.method_name(method->method);
    if (name.empty()) name = std::to_string(method->method.value());
    YONDER_TRY(metrics, MethodMetrics::create(*options.registry, name));
    method->metrics = metrics;
  }
  return {};
}

// ---------------------------------------------------------------- serving

Result<void> Server::start() {
  YONDER_CHECK(!core_->serving.load(std::memory_order_relaxed), "a server is started once");
  YONDER_TRY_VOID(add_metrics());
  core_->serving.store(true);
  if (core_->options.pollers == 0) return {};
  try {
    for (const auto& poller : core_->pollers) threads_.emplace_back([&p = *poller] { p.run(); });
    for (std::uint32_t i = 0; i < core_->options.workers; ++i) {
      threads_.emplace_back([&core = *core_] { work(core); });
    }
  } catch (const std::system_error& e) {
    return fail(ErrorCode::kResourceExhausted, "rpc server: start threads", e.code().value());
  }
  return {};
}

std::string Server::address() const {
  sync::LockGuard lock(core_->accept_mutex);
  return core_->listener->address();
}

bool Server::poll() {
  YONDER_DCHECK(core_->options.pollers == 0, "a server with pollers drives itself");
  return core_->pollers.front()->step();
}

Result<void> Server::wait(Deadline deadline) { return core_->pollers.front()->rest(deadline); }

fabric::Task<void> Server::serve(fabric::Scheduler& scheduler) {
  // Requests are handled as they come, inside the scheduler's queue; what is left
  // to do here is what is done now and then.
  while (!drained()) {
    core_->pollers.front()->tend();
    co_await scheduler.sleep_for(kStopLook);
  }
  finish_stop();
}

void Server::raise_epoch(Epoch epoch) {
  std::uint64_t seen = core_->epoch.load(std::memory_order_relaxed);
  // Relaxed: requests that cross the change may be on either side of it.
  while (seen < epoch.value() &&
         !core_->epoch.compare_exchange_weak(seen, epoch.value(), std::memory_order_relaxed)) {
  }
}

ServerStats Server::stats() const {
  ServerStats sum;
  for (const auto& poller : core_->pollers) {
    const ServerStats one = poller->stats();
    sum.requests += one.requests;
    sum.refused += one.refused;
    sum.connections_closed += one.connections_closed;
    sum.connections += one.connections;
  }
  return sum;
}

// ---------------------------------------------------------------- stopping

void Server::begin_stop() {
  core_->stopping.store(true, std::memory_order_release);
  wake_pollers();
}

void Server::wake_pollers() {
  for (const auto& poller : core_->pollers) poller->wake();
}

bool Server::drained() const {
  return std::ranges::all_of(core_->pollers, [](const auto& poller) { return poller->drained(); });
}

bool Server::drain_until(Deadline deadline) {
  const bool driven = threads_.empty();
  while (!drained()) {
    const Instant now = core_->clock->now();
    if (deadline.passed(now)) return false;
    Poller& first = *core_->pollers.front();
    if (driven) {
      first.step();
      first.tend();
      (void)first.rest(Deadline::at(std::min(now + kStopLook, deadline.instant())));
    } else {
      std::this_thread::sleep_for(kStopLook);
    }
  }
  return true;
}

Result<void> Server::stop(Deadline deadline) {
  if (stopped()) return {};
  deadline = deadline.or_default(Deadline::after(*core_->clock, core_->options.stop_timeout));
  begin_stop();
  if (!core_->serving.load(std::memory_order_acquire)) {
    finish_stop();
    return {};
  }
  const bool in_time = drain_until(deadline);
  if (!in_time) {
    core_->abandon.store(true, std::memory_order_release);
    wake_pollers();
    if (!drain_until(Deadline::after(*core_->clock, kAbandonGrace)))
      return fail(ErrorCode::kDeadlineExceeded, "rpc server: stop: a handler is still running");
  }
  finish_stop();
  return in_time ? Result<void>() : fail(ErrorCode::kDeadlineExceeded, "rpc server: stop");
}

void Server::finish_stop() {
  core_->exit.store(true, std::memory_order_release);
  wake_pollers();
  core_->work.close();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  sync::LockGuard lock(core_->accept_mutex);
  core_->listener->close();
  core_->stopped = true;
}

bool Server::stopped() const {
  sync::LockGuard lock(core_->accept_mutex);
  return core_->stopped || core_->listener == nullptr;
}

Server::~Server() {
  (void)stop({});
  YONDER_CHECK(stopped(), "a server goes after its handlers and responders");
}

}  // namespace yonder::rpc
