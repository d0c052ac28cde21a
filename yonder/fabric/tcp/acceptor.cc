#include "yonder/fabric/tcp/internal/acceptor.h"

#include <algorithm>
#include <utility>

#include "yonder/base/secure_random.h"
#include "yonder/fabric/tcp/internal/greeter.h"
#include "yonder/fabric/tcp/internal/queue.h"
#include "yonder/os/epoll.h"
#include "yonder/os/wait.h"

namespace yonder::fabric::tcp {
namespace {

// How long to leave the backlog alone when descriptors have run out.
constexpr Duration kPause = std::chrono::milliseconds(100);
// Clients taken per step, so that a storm of them does not hold up the others.
constexpr int kAcceptsPerStep = 16;
// Streams in their hand-shake beyond those of welcome connections: they are only
// kept to be told why they are refused.
constexpr std::size_t kRefusals = 64;

}  // namespace

Acceptor::Acceptor(Context context, ListenOptions options, os::Socket socket, std::shared_ptr<TlsContext> tls)
    : context_(std::move(context)),
      options_(std::move(options)),
      socket_(std::move(socket)),
      tls_(std::move(tls)),
      live_(std::make_shared<std::atomic<std::size_t>>(0)) {}

Acceptor::~Acceptor() = default;

std::uint32_t Acceptor::interest() const { return os::kEpollReadable; }

Instant Acceptor::next_timer() const {
  Instant first = paused_until_ == Instant() ? kNoTimer : paused_until_;
  for (const auto& [ticket, half] : halves_) first = std::min(first, half.deadline);
  return first;
}

bool Acceptor::step(Instant now) {
  if (is_closed()) return false;
  drop_old_halves(now);
  if (now < paused_until_) return true;
  paused_until_ = Instant();
  for (int i = 0; i < kAcceptsPerStep; ++i) {
    Result<os::Socket> client = socket_.try_accept();
    if (!client) {
      pause(client.error(), now);
      break;
    }
    if (!client->valid()) break;
    admit(std::move(*client), now);
  }
  return true;
}

void Acceptor::pause(const Error& why, Instant now) {
  paused_until_ = now + kPause;
  context_.watch.forget(socket_.fd());
  context_.report("cannot accept connections now", why);
}

void Acceptor::drop_old_halves(Instant now) {
  std::erase_if(halves_, [now](const auto& entry) { return entry.second.deadline <= now; });
}

std::shared_ptr<void> Acceptor::count_connection() {
  if (live_->load(std::memory_order_relaxed) >= options_.max_connections) return nullptr;
  live_->fetch_add(1, std::memory_order_relaxed);
  return {static_cast<void*>(live_.get()),
          [live = live_](void*) { live->fetch_sub(1, std::memory_order_relaxed); }};
}

void Acceptor::admit(os::Socket socket, Instant now) {
  if (greeting_now_ >= std::size_t{options_.max_connections} + kRefusals) return;  // Closes it.
  if (!configure_socket(socket)) return;
  auto transport = make_transport(std::move(socket), tls_.get(), {});
  if (!transport) return;
  context_.start(std::make_unique<Greeter>(shared_from_this(), std::move(*transport), context_.watch,
                                           now + context_.handshake_timeout));
}

// ---------------------------------------------------------------- hand-shakes

ListenerPreface Acceptor::judge(const OpenerPreface& preface, std::shared_ptr<void>& live) {
  ListenerPreface answer;
  answer.hello.process = context_.process;
  answer.hello.identity = options_.identity;
  if (const auto agreement = agree(answer.hello, preface.hello); !agreement) {
    answer.status = agreement.error().code();
  } else if (preface.hello.identity.epoch.value() < context_.target.epoch.load(std::memory_order_relaxed)) {
    answer.status = ErrorCode::kStaleEpoch;
  } else if (preface.role == StreamRole::kBackward) {
    if (!halves_.contains(preface.ticket)) answer.status = ErrorCode::kAuthenticationFailed;
  } else if (live = count_connection(); live == nullptr) {
    answer.status = ErrorCode::kResourceExhausted;
  } else if (!options_.passive) {
    const Result<std::uint64_t> ticket = secure_random_u64();
    answer.wants_backward = true;
    answer.ticket = ticket.value_or(0);
    if (!ticket) answer.status = ticket.error().code();
  }
  if (answer.status == ErrorCode::kOk && preface.role == StreamRole::kForward)
    answer.greeting_bytes = static_cast<std::uint16_t>(options_.greeting.size());
  return answer;
}

Result<void> Acceptor::welcome(Welcome guest, Instant now) {
  if (is_closed()) return fail(ErrorCode::kClosed, "accept a connection");
  if (options_.passive) return serve_passively(std::move(guest));
  halves_.emplace(guest.ticket,
                  Half{.guest = std::move(guest), .deadline = now + context_.handshake_timeout});
  return {};
}

Result<void> Acceptor::serve_passively(Welcome guest) {
  auto stream = std::make_unique<TargetStream>(std::move(guest.transport), context_.target,
                                               guest.agreement.peer.tenant, nullptr);
  stream->keep(std::move(guest.live));
  stream->set_owner(this);
  const std::lock_guard lock(context_.passive_group->mutex());
  YONDER_TRY(id, context_.passive_group->add(std::move(stream)));
  static_cast<void>(id);
  return {};
}

Result<void> Acceptor::join(std::uint64_t ticket, std::unique_ptr<Transport> second) {
  const auto found = halves_.find(ticket);
  if (found == halves_.end() || is_closed()) return fail(ErrorCode::kClosed, "join two streams");
  Welcome guest = std::move(found->second.guest);
  halves_.erase(found);
  auto& queue = static_cast<TcpQueue&>(*options_.completion_queues[next_queue_]);
  next_queue_ = (next_queue_ + 1) % options_.completion_queues.size();
  YONDER_TRY(seat, Seat::take(queue, context_.next_endpoint_id(), options_.endpoint));
  {
    // Both under the lock (then the group's): from serve() on a message of this peer may
    // reach the application, which then looks for the connection in accept().
    const std::lock_guard lock(mutex_);
    YONDER_TRY_VOID(seat.serve(std::move(guest.transport), context_.target, guest.agreement.peer.tenant,
                               std::move(guest.live)));
    accepted_.push_back(
        {.seat = std::move(seat), .requests = std::move(second), .agreement = guest.agreement});
  }
  accepted_changed_.notify_one();
  return {};
}

// ---------------------------------------------------------------- the listener's side

Result<Accepted> Acceptor::accept(Deadline deadline) {
  deadline = os::fix_deadline(deadline);
  std::unique_lock lock(mutex_);
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline.instant().ns())};
  const auto is_ready = [this] { return !accepted_.empty() || is_closed(); };
  if (!accepted_changed_.wait_until(lock, until, is_ready))
    return fail(ErrorCode::kDeadlineExceeded, "accept a connection");
  if (is_closed()) return fail(ErrorCode::kClosed, "accept a connection");
  Accepted accepted = std::move(accepted_.front());
  accepted_.pop_front();
  return accepted;
}

void Acceptor::close(Service& service) {
  std::deque<Accepted> unwanted;
  {
    const std::lock_guard lock(mutex_);
    closed_.store(true, std::memory_order_release);
    unwanted.swap(accepted_);
  }
  accepted_changed_.notify_all();
  socket_.shut_down();  // Refuses clients from now on; the descriptor goes with the last greeter.
  service.locked([this] { halves_.clear(); });
  const std::lock_guard lock(context_.passive_group->mutex());
  context_.passive_group->remove_all_of(this);
}

}  // namespace yonder::fabric::tcp
