#pragma once
// A server: answers requests of many clients over any fabric.
//
//   auto server = rpc::Server::create(fabric, {.address = "tcp://0.0.0.0:7400"});
//   (*server)->handle<Echo>([](const rpc::Context&, const EchoRequest& request) -> Result<EchoResponse> {
//     return EchoResponse{.number = request.number};
//   });
//   YONDER_TRY_VOID((*server)->start());
//   …
//   YONDER_TRY_VOID((*server)->stop(Deadline::after(clock, 5s)));
//
// With `pollers` > 0 the server has threads: each poller owns a completion queue
// and the connections on it, runs inline methods itself (the shortest way) and
// hands worker methods through one bounded queue to `workers` threads; answers
// leave through the poller that owns the connection. With `pollers` == 0 the
// server has no thread and is driven: by poll() and wait(), or by spawning serve()
// on a scheduler. In a simulation its handlers then run in virtual time, and
// hundreds of servers fit one thread.
//
// What bounds what (one client cannot take what others need):
//   requests under way per client     credits; who sends more loses its connection
//   requests waiting for a worker     work_queue; beyond it kOverloaded
//   requests under way per poller     exchanges, and per connection a quarter of
//                                     them; beyond it kOverloaded, before the handler runs
//   memory for answers                one buffer per exchange; a client that does
//                                     not take its answers within send_timeout loses
//                                     its connection
//
// A request is refused without being executed: kUnknownMethod, kBadRequest (does
// not decode), kStaleEpoch, kTenantDenied, kDeadlineExceeded (its time was up when
// its turn came), kOverloaded, kStopping, kProtocolMismatch. Bytes that are no
// request close their connection, and no other.
//
//   state     | request              | begin_stop | all answered     | stop's deadline passes
//   ----------+----------------------+------------+------------------+-----------------------
//   made      | waits in the fabric  | stopped    | –                | –
//   serving   | executed             | stopping   | –                | –
//   stopping  | kStopping            | –          | goodbye, stopped | connections closed
//   stopped   | –                    | –          | –                | –
//
// Concurrency: handle() and start() by one thread; then begin_stop(), stop(),
// raise_epoch() and stats() by any, poll(), wait() and serve() by the driving one.
// Lifetime: outlived by its fabric. The destructor stops, and aborts if a handler
// or a responder is still alive after stop_timeout.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/task.h"
#include "yonder/rpc/handler.h"
#include "yonder/rpc/message.h"

namespace yonder::telemetry {
class Registry;
}  // namespace yonder::telemetry

namespace yonder::rpc {

class Poller;
struct ServerCore;

struct ServerOptions {
  std::string address;
  fabric::Identity identity;
  std::vector<std::byte> greeting;        // for the application; at most 104 bytes
  std::uint32_t pollers = 1;              // threads; 0: driven
  std::uint32_t workers = 0;              // threads for worker methods; 0: pollers run them
  std::uint32_t work_queue = 256;         // requests that may wait for a worker
  std::uint16_t credits = 32;             // requests under way per connection
  std::uint32_t max_request = 8 * 1024;   // payload bytes
  std::uint32_t max_response = 8 * 1024;  // payload bytes
  std::uint32_t exchanges = 512;          // requests under way per poller
  std::uint32_t max_connections = 1024;
  Duration send_timeout = std::chrono::seconds(5);
  Duration stop_timeout = std::chrono::seconds(5);  // of the destructor
  // How often a poller looks for work before it lets the queue spin and sleep.
  std::uint32_t spin_polls = 256;
  Duration spin = std::chrono::microseconds(50);  // of the completion queues
  // Where the calls of each method are counted (yonder_rpc_…); null: nowhere. Outlives
  // the server. Servers that share one add up.
  telemetry::Registry* registry = nullptr;
  // The label `method` of these counters: a few constant words, chosen by whoever knows
  // the methods. Null, or an empty name: the number.
  std::string_view (*method_name)(MethodId) = nullptr;
};

enum class Run : std::uint8_t { kInline, kWorker };

struct MethodOptions {
  Run run = Run::kInline;
  bool any_epoch = false;  // taken from clients with an old topology as well
};

struct ServerStats {
  std::uint64_t requests = 0;            // arrived
  std::uint64_t refused = 0;             // answered without being executed
  std::uint64_t connections_closed = 0;  // by us, because of what the peer did or did not do
  std::uint64_t connections = 0;         // open now
};

class Server {
 public:
  // kInvalidArgument for limits that make no sense; errors of Fabric::listen.
  static Result<std::unique_ptr<Server>> create(fabric::Fabric& fabric, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Registers a handler: see handler.h for its forms. Before start(); each method
  // once (checked).
  template <Method M, typename F>
  void handle(F handler, MethodOptions options = {}) {
    handle_raw(M::kMethod, make_handler<M>(std::move(handler)), options);
  }
  // A handler that is a coroutine: (Context, Request) → Task<Result<Response>>,
  // spawned on `scheduler` for each request. For driven servers; the request must
  // own what it holds.
  template <Method M, typename F>
  void handle_task(fabric::Scheduler& scheduler, F handler, MethodOptions options = {});
  void handle_raw(MethodId method, Handler handler, MethodOptions options = {});

  // Begins to serve: starts the threads, if any. Errors of telemetry::Registry;
  // kResourceExhausted.
  Result<void> start();

  // Where clients connect to.
  std::string address() const;

  // Driven servers. poll() does what there is to do and says whether there was
  // something; wait() sleeps until there is, kDeadlineExceeded.
  bool poll();
  Result<void> wait(Deadline deadline);
  // Ends when the server has stopped. Spawn it where nobody calls poll().
  fabric::Task<void> serve(fabric::Scheduler& scheduler);

  // Refuses new requests from now on; returns at once.
  void begin_stop();
  // Refuses new requests, lets those under way finish, says goodbye and closes.
  // kDeadlineExceeded if something was still running then: its clients have lost
  // their connections, the server can be asked again. Idempotent.
  Result<void> stop(Deadline deadline);
  bool stopped() const;

  // Requests of an older epoch are refused from now on. Only grows.
  void raise_epoch(Epoch epoch);

  ServerStats stats() const;

 private:
  explicit Server(std::unique_ptr<ServerCore> core);

  Result<void> add_metrics();
  Result<void> open_pollers(fabric::Fabric& fabric);
  Result<void> listen(fabric::Fabric& fabric);
  bool drained() const;
  bool drain_until(Deadline deadline);
  void wake_pollers();
  void finish_stop();

  std::unique_ptr<ServerCore> core_;
  std::vector<std::thread> threads_;
};

namespace internal {

template <Method M, typename F>
fabric::Task<void> run_handler(const F& handler, Context context, typename M::Request request,
                               Responder<M> responder) {
  std::move(responder).finish(co_await handler(std::move(context), std::move(request)));
}

}  // namespace internal

template <Method M, typename F>
void Server::handle_task(fabric::Scheduler& scheduler, F handler, MethodOptions options) {
  handle<M>(
      [&scheduler, handler = std::move(handler)](const Context& context, const typename M::Request& request,
                                                 Responder<M> responder) {
        scheduler.spawn(internal::run_handler<M>(handler, context, request, std::move(responder)));
      },
      options);
}

}  // namespace yonder::rpc
