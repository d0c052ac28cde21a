#include "yonder/fabric/tcp/internal/tcp_fabric.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "yonder/base/log.h"
#include "yonder/base/secure_random.h"
#include "yonder/fabric/tcp/internal/dial.h"
#include "yonder/fabric/tcp/internal/endpoint.h"
#include "yonder/fabric/tcp/internal/queue.h"
#include "yonder/fabric/tcp/internal/receive_queue.h"
#include "yonder/fabric/tcp/internal/settings.h"

namespace yonder::fabric::tcp {
namespace {

// The first dial of an endpoint, waited for by the thread that called connect().
class FirstLink {
 public:
  void put(Result<Link> link) {
    const std::lock_guard lock(mutex_);
    link_ = std::move(link);
    changed_.notify_one();
  }
  // Every dial ends by its own timeout; the slack is for a busy machine.
  Result<Link> await(Duration limit) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, limit, [this] { return link_.has_value(); }))
      return fail(ErrorCode::kDeadlineExceeded, "connect");
    return std::move(*link_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<Link>> link_;
};

constexpr Duration kDialSlack = std::chrono::milliseconds(100);

Result<std::shared_ptr<TlsContext>> tls_for(const Settings& settings, TlsSide side) {
  if (!settings.tls) return nullptr;
  return TlsContext::create(*settings.tls, side);
}

Result<std::shared_ptr<const DialTarget>> dial_target(const ConnectOptions& options, std::uint64_t process) {
  YONDER_TRY(settings, Settings::parse(options.address));
  YONDER_TRY(place, os::parse_host_port(settings.host_port));
  auto target = std::make_shared<DialTarget>();
  YONDER_TRY(addresses, os::SocketAddress::resolve(settings.host_port));
  YONDER_TRY(tls, tls_for(settings, TlsSide::kOpener));
  target->addresses = std::move(addresses);
  target->host = place.host;
  target->tls = std::move(tls);
  target->hello.identity = options.identity;
  target->hello.process = process;
  target->attempt_timeout = options.connect_timeout;
  target->min_backoff = options.min_backoff;
  target->max_backoff = std::max(options.min_backoff, options.max_backoff);
  return target;
}

Result<void> check_listen(const ListenOptions& options) {
  if (options.greeting.size() > kMaxGreetingBytes)
    return fail(ErrorCode::kInvalidArgument, "listen: the greeting is too long");
  if (!options.passive && options.completion_queues.empty())
    return fail(ErrorCode::kInvalidArgument, "listen: no completion queue");
  return {};
}

}  // namespace

const Capabilities& TcpFabric::capabilities() const {
  static constexpr Capabilities kTcp{.provider = "tcp", .atomics = AtomicsBy::kCpu, .rebind = true};
  return kTcp;
}

Result<std::unique_ptr<CompletionQueue>> TcpFabric::create_completion_queue(
    const CompletionQueueOptions& options) {
  YONDER_TRY(queue, TcpQueue::create(options, *service_, clock_));
  return queue;
}

Result<std::unique_ptr<ReceiveQueue>> TcpFabric::create_receive_queue(const ReceiveQueueOptions& options) {
  if (options.capacity == 0) return fail(ErrorCode::kInvalidArgument, "create receive queue: no capacity");
  return std::make_unique<TcpReceiveQueue>(options);
}

void TcpFabric::raise_epoch(Epoch epoch) {
  std::uint64_t seen = epoch_.load();
  while (seen < epoch.value() && !epoch_.compare_exchange_weak(seen, epoch.value())) {
  }
}

// ---------------------------------------------------------------- connecting

Result<std::unique_ptr<Endpoint>> TcpFabric::connect(const ConnectOptions& options, CompletionQueue& queue) {
  YONDER_TRY(target, dial_target(options, process_));
  const EndpointId id = next_endpoint_id();
  YONDER_TRY(seat, Seat::take(static_cast<TcpQueue&>(queue), id, options.endpoint));
  const auto first = std::make_shared<FirstLink>();
  const Service::ErrandId dial =
      service_->run(std::make_shared<Dial>(target, Dial::Again::kNo, options_.seed ^ id.value(), *service_,
                                           [first](Result<Link> link) { first->put(std::move(link)); }));
  Result<Link> link = first->await(options.connect_timeout + kDialSlack);
  service_->cancel(dial);
  if (!link) return std::unexpected(link.error());
  std::optional<Redial> redial;
  if (options.reconnect) redial = Redial{.target = target, .seed = options_.seed ^ id.value()};
  auto endpoint = std::make_unique<TcpEndpoint>(
      std::move(seat),
      TcpEndpoint::Options{.context = target_context(), .identity = options.identity, .redial = redial});
  YONDER_TRY_VOID(endpoint->open(std::move(*link)));
  endpoint->queue_join();
  return endpoint;
}

// ---------------------------------------------------------------- listening

void TcpFabric::report(const char* what, const Error& why) {
  process_logger().log(report_limit_, LogLevel::kWarn, "fabric_tcp", what, {{"error", why}});
}

Acceptor::Context TcpFabric::acceptor_context() {
  return {.target = target_context(),
          .passive_group = service_->passive_group(),
          .process = process_,
          .handshake_timeout = options_.handshake_timeout,
          .watch = *service_,
          .start = [this](std::unique_ptr<Errand> errand) { service_->run_locked(std::move(errand)); },
          .next_endpoint_id = [this] { return next_endpoint_id(); },
          .report = [this](const char* what, const Error& why) { report(what, why); }};
}

Result<std::unique_ptr<Listener>> TcpFabric::listen(const ListenOptions& options) {
  YONDER_TRY(settings, Settings::parse(options.address));
  YONDER_TRY_VOID(check_listen(options));
  YONDER_TRY(addresses, os::SocketAddress::resolve(settings.host_port, {.for_listening = true}));
  YONDER_TRY(tls, tls_for(settings, TlsSide::kListener));
  YONDER_TRY(socket, os::Socket::listen(addresses.front(), {}));
  YONDER_TRY(bound, socket.local_address());
  auto acceptor = std::make_shared<Acceptor>(acceptor_context(), options, std::move(socket), std::move(tls));
  return std::make_unique<TcpListener>(*this, std::move(acceptor), settings.address(bound.to_string()));
}

TcpListener::TcpListener(TcpFabric& fabric, std::shared_ptr<Acceptor> acceptor, std::string address)
    : fabric_(fabric),
      acceptor_(std::move(acceptor)),
      address_(std::move(address)),
      errand_(fabric.service().run(acceptor_)) {}

Result<std::unique_ptr<Endpoint>> TcpListener::accept(Deadline deadline) {
  YONDER_TRY(accepted, acceptor_->accept(deadline));
  auto endpoint = std::make_unique<TcpEndpoint>(
      std::move(accepted.seat),
      TcpEndpoint::Options{.context = fabric_.target_context(), .identity = acceptor_->options().identity});
  YONDER_TRY_VOID(
      endpoint->open({.requests = std::move(accepted.requests), .agreement = accepted.agreement}));
  endpoint->queue_join();
  return endpoint;
}

void TcpListener::close() {
  fabric_.service().cancel(errand_);
  acceptor_->close(fabric_.service());
}

// ---------------------------------------------------------------- open

Result<std::unique_ptr<Fabric>> open(const Options& options) {
  YONDER_TRY(process, secure_random_u64());
  YONDER_TRY(service, Service::start());
  if (options.service_cpu) YONDER_TRY_VOID(service->keep_on(*options.service_cpu));
  Options complete = options;
  if (complete.seed == 0) complete.seed = process;
  return std::make_unique<TcpFabric>(std::move(service), process, complete);
}

}  // namespace yonder::fabric::tcp
