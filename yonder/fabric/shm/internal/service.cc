#include "yonder/fabric/shm/internal/service.h"

#include <algorithm>
#include <array>

#include "yonder/base/check.h"

namespace yonder::fabric::shm {
namespace {

constexpr Duration kSpin = std::chrono::microseconds(50);
// How often sockets are looked at while requests are being served.
constexpr Duration kSocketLook = std::chrono::microseconds(10);
constexpr Duration kLongestSleep = std::chrono::seconds(1);
// How long a revocation waits for a reader. A copy of the longest transfer
// (1 GiB) takes a quarter of a second here.
constexpr Duration kQuiesceLimit = std::chrono::seconds(2);
constexpr std::uint64_t kBellToken = 0;

}  // namespace

Result<std::unique_ptr<Service>> Service::create(const Options& options) {
  YONDER_TRY(board, Board::create());
  YONDER_TRY(epoll, os::Epoll::create());
  YONDER_TRY(bell, os::EventFd::create());
  YONDER_TRY_VOID(epoll.add(bell.fd(), os::kEpollReadable, kBellToken));
  return std::unique_ptr<Service>(new Service(options, std::move(board), std::move(epoll), std::move(bell)));
}

Service::Service(const Options& options, Board board, os::Epoll epoll, os::EventFd bell)
    : states_(options.states),
      fence_(options.fence),
      regions_(options.regions),
      board_(std::move(board)),
      epoll_(std::move(epoll)),
      bell_(std::move(bell)),
      self_{states_, fence_, board_, options.process},
      thread_([this] { run(); }) {}

Service::~Service() {
  stopping_.store(true, std::memory_order_release);
  bell_.ring();
  thread_.join();
  for (const auto& [token, watched] : watched_)
    YONDER_CHECK(std::holds_alternative<std::shared_ptr<Incoming>>(watched),
                 "a fabric outlives what it made");
}

void Service::raise_epoch(Epoch epoch) {
  std::uint64_t current = epoch_.load();
  while (current < epoch.value() && !epoch_.compare_exchange_weak(current, epoch.value())) {
  }
}

// ---------------------------------------------------------------- the loop

void Service::run() {
  Instant last_work;
  Instant last_look;
  while (!stopping_.load(std::memory_order_acquire)) {
    const Instant now = clock_.now();
    if (serve_marked()) last_work = now;
    if (now - last_work > kSpin) {
      sleep();
    } else if (now - last_look > kSocketLook) {
      last_look = now;
      std::array<os::EpollEvent, 32> events;
      const auto ready = epoll_.wait(events, Deadline::at(Instant::from_ns(1)));
      if (ready) std::ranges::for_each(*ready, [this](const os::EpollEvent& event) { handle(event); });
    }
  }
}

bool Service::serve_marked() {
  std::array<std::uint32_t, 64> marked;
  std::size_t count = 0;
  bool overflow = false;
  board_.collect([&](std::uint32_t entry) {
    if (count < marked.size()) {
      marked[count++] = entry;
    } else {
      overflow = true;
    }
  });
  // More than we can note: look at all, which forgets nobody.
  if (overflow) [[unlikely]]
    return serve_all();
  bool served = false;
  for (std::size_t i = 0; i < count; ++i) {
    std::shared_ptr<Link> link;
    {
      const Lock lock(mutex_);
      if (marked[i] < by_entry_.size()) link = by_entry_[marked[i]];
    }
    if (link) served |= serve(link);
  }
  return served;
}

bool Service::serve_all() {
  std::vector<std::shared_ptr<Link>> links;
  {
    const Lock lock(mutex_);
    std::ranges::copy_if(by_entry_, std::back_inserter(links),
                         [](const auto& link) { return link != nullptr; });
  }
  bool served = false;
  for (const auto& link : links) served |= serve(link);
  return served;
}

// S1 to S4 of completion_queue.h.
void Service::sleep() {
  NoticeLine& line = states_.line(0);
  line.sleeping.store(1, std::memory_order_seq_cst);
  fence_.heavy();
  if (!serve_all()) {
    std::array<os::EpollEvent, 64> events;
    const auto ready = epoll_.wait(events, Deadline::at(next_timer()));
    line.sleeping.store(0, std::memory_order_relaxed);
    if (ready) std::ranges::for_each(*ready, [this](const os::EpollEvent& event) { handle(event); });
    handle_timers();
  }
  line.sleeping.store(0, std::memory_order_relaxed);
}

void Service::handle(const os::EpollEvent& event) {
  if (event.token == kBellToken) {
    (void)bell_.take();
    return;
  }
  Watched watched;
  {
    const Lock lock(mutex_);
    const auto found = watched_.find(event.token);
    if (found == watched_.end()) return;  // Gone since the event was made.
    watched = found->second;
  }
  if (const auto* door = std::get_if<std::shared_ptr<Door>>(&watched)) take_connections(*door);
  if (const auto* incoming = std::get_if<std::shared_ptr<Incoming>>(&watched))
    take_hello(event.token, *incoming);
  if (const auto* connector = std::get_if<std::shared_ptr<Connector>>(&watched)) on_welcome(*connector);
  if (const auto* connected = std::get_if<Connected>(&watched)) on_link_event(*connected, event.bits);
}

// ---------------------------------------------------------------- timers

Instant Service::next_timer() {
  Instant earliest = clock_.now() + kLongestSleep;
  const Lock lock(mutex_);
  if (!incoming_.empty()) earliest = std::min(earliest, incoming_.begin()->second->due);
  for (const auto& connector : timed_) earliest = std::min(earliest, connector->due);
  for (const auto& [end, door] : paused_doors_) earliest = std::min(earliest, end);
  return earliest;
}

void Service::handle_timers() {
  const Instant now = clock_.now();
  std::vector<std::pair<std::uint64_t, std::shared_ptr<Incoming>>> late;
  Lock lock(mutex_);
  for (const auto& [token, incoming] : incoming_) {
    if (incoming->due <= now) late.emplace_back(token, incoming);
  }
  const auto timed = timed_;
  for (const auto& connector : timed) {
    if (connector->due > now || connector->is_stopped) continue;
    if (connector->is_trying) {
      failed(connector, Error(ErrorCode::kDeadlineExceeded, "connect: no answer to our hello"), lock);
    } else if (const auto tried = attempt(connector, lock); !tried) {
      failed(connector, tried.error(), lock);
    }
  }
  std::erase_if(paused_doors_, [&](const auto& paused) {
    if (paused.first > now) return false;
    const Door& door = *paused.second;
    if (watched_.contains(door.token)) (void)epoll_.modify(door.socket.fd(), os::kEpollReadable, door.token);
    return true;
  });
  lock.unlock();
  for (const auto& [token, incoming] : late) refuse(token, incoming, ErrorCode::kDeadlineExceeded);
}

// ---------------------------------------------------------------- revocation

void Service::quiesce(std::uint64_t hazard) {
  fence_.heavy();  // V2
  std::vector<std::shared_ptr<Link>> links;
  {
    const Lock lock(mutex_);
    for (const auto& [token, watched] : watched_) {
      if (const auto* connected = std::get_if<Connected>(&watched)) links.push_back(connected->link);
    }
  }
  const Deadline limit = Deadline::after(clock_, kQuiesceLimit);
  for (const auto& link : links) {  // V3
    // acquire: pairs with release at R6; the reader's copy is over.
    for (std::uint32_t round = 1; link->their_lane().hazard.load(std::memory_order_acquire) == hazard;
         ++round) {
      if (link->lost()) break;
      if (round < 1000) {
        __builtin_ia32_pause();
        continue;
      }
      // The reader needs the processor more than we do.
      std::this_thread::yield();
      if (!limit.passed(clock_.now())) continue;
      link->cut();
      break;
    }
    link->consumes();
  }
}

}  // namespace yonder::fabric::shm
