#include "yonder/fabric/tcp/internal/service.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/os/steady_clock.h"

namespace yonder::fabric::tcp {
namespace {

// At least so many looks before sleeping: time that passed while another thread
// had our core was not spent waiting.
constexpr int kSpinRounds = 100;
constexpr std::uint64_t kBellToken = 0;
constexpr std::uint64_t kGroupToken = 1;
// Nothing in the service needs a wake-up earlier than asked for; this only bounds
// how long a lost one could matter.
constexpr Duration kLongestSleep = std::chrono::seconds(60);

}  // namespace

Result<std::unique_ptr<Service>> Service::start() {
  YONDER_TRY(epoll, os::Epoll::create());
  YONDER_TRY(bell, Doorbell::create());
  YONDER_TRY(passive, StreamGroup::create(0));
  YONDER_TRY_VOID(epoll.add(bell->fd(), os::kEpollReadable, kBellToken));
  YONDER_TRY_VOID(epoll.add(passive->fd(), os::kEpollReadable, kGroupToken));
  return std::unique_ptr<Service>(new Service(std::move(epoll), std::move(bell), std::move(passive)));
}

Service::Service(os::Epoll epoll, std::shared_ptr<Doorbell> bell, std::shared_ptr<StreamGroup> passive)
    : epoll_(std::move(epoll)),
      bell_(std::move(bell)),
      passive_(std::move(passive)),
      known_groups_{passive_},
      thread_([this] { loop(); }) {}

Service::~Service() {
  stopping_.store(true);
  bell_->ring();
  thread_.join();
  YONDER_CHECK(groups_.empty(), "a completion queue outlives its fabric");
}

Result<void> Service::keep_on(unsigned cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  if (cpu < CPU_SETSIZE) CPU_SET(cpu, &only);
  if (const int error = ::pthread_setaffinity_np(thread_.native_handle(), sizeof only, &only); error != 0)
    return fail(ErrorCode::kInvalidArgument, "keep the service thread on a core", error);
  return {};
}

// ---------------------------------------------------------------- the thread

void Service::loop() {
  Instant last_work = os::SteadyClock::read();
  int idle_rounds = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Instant now = os::SteadyClock::read();
    if (serve(now)) {
      last_work = now;
      idle_rounds = 0;
    } else if (++idle_rounds >= kSpinRounds && now - last_work > kSpin) {
      sleep(now);
      last_work = os::SteadyClock::read();
      idle_rounds = 0;
    }
  }
}

// One round over everything that is ours. True if there was something to do.
bool Service::serve(Instant now) {
  bool worked = false;
  if (bell_->take()) {
    refresh_groups();
    worked = true;
    run_errands({}, now);
  }
  if (now >= errand_timer_) run_errands({}, now);
  if (ticking_.load(std::memory_order_relaxed) && now >= next_tick_) tick(now);
  for (const auto& group : known_groups_) {
    if (group->is_empty() || group->attention().is_applications()) continue;
    const std::lock_guard lock(group->mutex());
    worked |= group->progress(now) || group->wants_turn();
  }
  return worked;
}

Deadline Service::wake_up_time(Instant now) {
  Instant until = std::min(now + kLongestSleep, errand_timer_);
  if (ticking_.load()) until = std::min(until, next_tick_);
  for (const auto& group : known_groups_) {
    if (group->is_empty() || group->attention().is_applications()) continue;
    const std::lock_guard lock(group->mutex());
    group->prepare_to_sleep();
    until = std::min(until, group->next_timer());
  }
  return Deadline::at(std::max(until, Instant::from_ns(1)));
}

void Service::sleep(Instant now) {
  std::array<os::EpollEvent, 64> events;
  if (!bell_->lie_down()) return bell_->get_up();
  const auto woken = epoll_.wait(events, wake_up_time(now));
  bell_->get_up();
  if (woken) run_errands(*woken, os::SteadyClock::read());
}

// ---------------------------------------------------------------- errands

Service::ErrandId Service::run(std::shared_ptr<Errand> errand) {
  ErrandId id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = run_locked(std::move(errand));
  }
  bell_->ring();
  return id;
}

Service::ErrandId Service::run_locked(std::shared_ptr<Errand> errand) {
  const ErrandId id = next_errand_++;
  started_.push_back(id);
  errands_.emplace(id, std::move(errand));
  return id;
}

void Service::cancel(ErrandId id) {
  std::shared_ptr<Errand> gone;  // Destroyed without the lock.
  const std::lock_guard lock(mutex_);
  const auto found = errands_.find(id);
  if (found == errands_.end()) return;
  gone = std::move(found->second);
  if (gone->fd() != nullptr) forget(*gone->fd());
  errands_.erase(found);
}

void Service::forget(const os::Fd& fd) { (void)epoll_.remove(fd); }

void Service::run_errands(std::span<const os::EpollEvent> events, Instant now) {
  const std::lock_guard lock(mutex_);
  for (const os::EpollEvent& event : events) {
    if (event.token >= kFirstErrand) step(event.token, now);
  }
  if (now >= errand_timer_) {
    std::vector<ErrandId> due;
    for (const auto& [id, errand] : errands_) {
      if (errand->next_timer() <= now) due.push_back(id);
    }
    for (const ErrandId id : due) step(id, now);
  }
  // Steps start others: every new one gets its first step here.
  while (!started_.empty()) {
    const ErrandId id = started_.back();
    started_.pop_back();
    step(id, now);
  }
  errand_timer_ = earliest_errand();
}

void Service::step(ErrandId id, Instant now) {
  const auto found = errands_.find(id);
  if (found == errands_.end()) return;
  const std::shared_ptr<Errand> errand = found->second;
  if (errand->step(now)) {
    watch(id, *errand);
  } else {
    errands_.erase(id);
  }
}

void Service::watch(ErrandId id, const Errand& errand) {
  if (errand.fd() == nullptr) return;
  // An errand changes its descriptor now and then, and the kernel forgets closed
  // ones by itself: try both.
  if (!epoll_.modify(*errand.fd(), errand.interest(), id))
    (void)epoll_.add(*errand.fd(), errand.interest(), id);
}

Instant Service::earliest_errand() const {
  Instant first = kNoTimer;
  for (const auto& [id, errand] : errands_) first = std::min(first, errand->next_timer());
  return first;
}

// ---------------------------------------------------------------- groups

Result<void> Service::add_group(std::shared_ptr<StreamGroup> group) {
  group->set_service_bell(bell_);
  YONDER_TRY_VOID(epoll_.add(group->fd(), os::kEpollReadable, kGroupToken));
  const std::lock_guard lock(mutex_);
  groups_.push_back(std::move(group));
  bell_->ring();
  return {};
}

void Service::remove_group(const std::shared_ptr<StreamGroup>& group) {
  (void)epoll_.remove(group->fd());
  const std::lock_guard lock(mutex_);
  std::erase(groups_, group);
  bell_->ring();
}

void Service::refresh_groups() {
  const std::lock_guard lock(mutex_);
  known_groups_ = groups_;
  known_groups_.push_back(passive_);
}

void Service::hand_to_application(StreamGroup& group) {
  {
    const std::lock_guard lock(group.mutex());
    (void)epoll_.modify(group.fd(), 0, kGroupToken);
    group.attention().set_applications(true);
    group.prepare_to_sleep();
  }
  ask_for_ticks();
}

void Service::take_from_application(StreamGroup& group) {
  const std::lock_guard lock(group.mutex());
  (void)epoll_.modify(group.fd(), os::kEpollReadable, kGroupToken);
  group.attention().set_applications(false);
  group.prepare_to_sleep();
}

void Service::start_ticking() {
  if (!ticking_.exchange(true)) bell_->ring();
}

void Service::tick(Instant now) {
  next_tick_ = now + kTick;
  for (const auto& group : known_groups_) {
    if (group->attention().is_applications() && group->attention().is_neglected())
      take_from_application(*group);
  }
  const auto needs_ticks = [](const auto& group) { return group->attention().needs_ticks(); };
  if (std::ranges::any_of(known_groups_, needs_ticks)) return;
  ticking_.store(false);
  // Look again: somebody may have left wait() before it could see the flag.
  if (std::ranges::any_of(known_groups_, needs_ticks)) ticking_.store(true);
}

}  // namespace yonder::fabric::tcp
