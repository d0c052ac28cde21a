#include "yonder/testing/deterministic_scheduler.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <random>
#include <semaphore>
#include <thread>

namespace yonder::testing {
namespace {

struct PendingStore {
  DeterministicScheduler::Cell* cell;
  std::uint64_t value;
  bool release;
};

// A hand-over between threads on different cores costs 25 µs, on one core 2 µs.
void pin_to_one_core() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(::sched_getcpu(), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

// Protected by the token: only the thread that holds it touches anything here.
class DeterministicScheduler::State {
 public:
  explicit State(std::uint64_t seed)
      : random_(seed), switch_one_in_(std::size_t{2} << pick(5)), land_one_in_(std::size_t{2} << pick(6)) {}

  void run(std::vector<std::function<void()>> bodies);
  void step(std::size_t self);
  void drain(std::size_t thread);
  void drain_all();
  std::uint64_t steps() const { return steps_; }

  // Which run, and which thread of it, the calling thread is; null outside.
  static thread_local State* current;
  static thread_local std::size_t self_index;

  struct Worker {
    std::binary_semaphore token{0};
    std::deque<PendingStore> buffer;
    bool ended = false;
  };
  std::vector<std::unique_ptr<Worker>> workers_;

 private:
  std::size_t pick(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }
  bool may_land(const std::deque<PendingStore>& buffer, std::size_t index) const;
  void land_some(std::deque<PendingStore>& buffer);
  void hand_over_from(std::size_t self);
  std::vector<std::size_t> runnable() const;

  std::mt19937_64 random_;
  // Drawn per run: some errors need threads that alternate quickly and stores that
  // land late, others a thread that sleeps through all that another one does.
  const std::size_t switch_one_in_;  // 2 to 32
  const std::size_t land_one_in_;    // 2 to 64
  std::uint64_t steps_ = 0;
  std::binary_semaphore all_ended_{0};
};

thread_local DeterministicScheduler::State* DeterministicScheduler::State::current = nullptr;
thread_local std::size_t DeterministicScheduler::State::self_index = 0;

void DeterministicScheduler::State::run(std::vector<std::function<void()>> bodies) {
  cpu_set_t old_set;
  ::sched_getaffinity(0, sizeof old_set, &old_set);
  pin_to_one_core();  // The threads made below inherit it.
  workers_.clear();
  for (std::size_t i = 0; i < bodies.size(); ++i) workers_.push_back(std::make_unique<Worker>());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    threads.emplace_back([this, i, body = std::move(bodies[i])] {
      current = this;
      self_index = i;
      workers_[i]->token.acquire();
      body();
      workers_[i]->ended = true;
      hand_over_from(i);
    });
  }
  workers_[pick(workers_.size())]->token.release();
  all_ended_.acquire();
  for (std::thread& thread : threads) thread.join();
  drain_all();
  ::sched_setaffinity(0, sizeof old_set, &old_set);
}

std::vector<std::size_t> DeterministicScheduler::State::runnable() const {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < workers_.size(); ++i)
    if (!workers_[i]->ended) indices.push_back(i);
  return indices;
}

void DeterministicScheduler::State::hand_over_from(std::size_t self) {
  const std::vector<std::size_t> candidates = runnable();
  if (candidates.empty()) return all_ended_.release();
  const std::size_t next = candidates[pick(candidates.size())];
  if (next == self) return;
  workers_[next]->token.release();
  if (!workers_[self]->ended) workers_[self]->token.acquire();
}

// A store may overtake earlier ones of its thread unless it is a release or they
// are to the same word.
bool DeterministicScheduler::State::may_land(const std::deque<PendingStore>& buffer,
                                             std::size_t index) const {
  if (buffer[index].release) return index == 0;
  return std::none_of(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(index),
                      [&](const PendingStore& earlier) { return earlier.cell == buffer[index].cell; });
}

void DeterministicScheduler::State::land_some(std::deque<PendingStore>& buffer) {
  if (buffer.empty() || pick(land_one_in_) != 0) return;
  const std::size_t index = pick(buffer.size());
  if (!may_land(buffer, index)) return;
  *buffer[index].cell = buffer[index].value;
  buffer.erase(buffer.begin() + static_cast<std::ptrdiff_t>(index));
}

void DeterministicScheduler::State::step(std::size_t self) {
  ++steps_;
  for (const std::unique_ptr<Worker>& worker : workers_) land_some(worker->buffer);
  if (pick(switch_one_in_) == 0) hand_over_from(self);
}

void DeterministicScheduler::State::drain(std::size_t thread) {
  std::deque<PendingStore>& buffer = workers_[thread]->buffer;
  for (const PendingStore& store : buffer) *store.cell = store.value;
  buffer.clear();
}

void DeterministicScheduler::State::drain_all() {
  for (std::size_t i = 0; i < workers_.size(); ++i) drain(i);
}

DeterministicScheduler::DeterministicScheduler(std::uint64_t seed) : state_(std::make_unique<State>(seed)) {}
DeterministicScheduler::~DeterministicScheduler() = default;

void DeterministicScheduler::run(std::vector<std::function<void()>> bodies) {
  state_->run(std::move(bodies));
}
std::uint64_t DeterministicScheduler::steps() const { return state_->steps(); }

void DeterministicScheduler::step() {
  if (State::current != nullptr) State::current->step(State::self_index);
}

void DeterministicScheduler::drain_own() {
  if (State::current != nullptr) State::current->drain(State::self_index);
}

void DeterministicScheduler::drain_all() {
  if (State::current != nullptr) State::current->drain_all();
}

void DeterministicScheduler::store(Cell& cell, std::uint64_t value, bool release) {
  if (State::current == nullptr) {
    cell = value;
    return;
  }
  State::current->workers_[State::self_index]->buffer.push_back(
      {.cell = &cell, .value = value, .release = release});
}

void DeterministicScheduler::forget(const Cell& cell) {
  if (State::current == nullptr) return;
  for (const std::unique_ptr<State::Worker>& worker : State::current->workers_)
    std::erase_if(worker->buffer, [&](const PendingStore& store) { return store.cell == &cell; });
}

// A thread sees its own stores at once, others' when they have landed.
std::uint64_t DeterministicScheduler::load(const Cell& cell) {
  if (State::current == nullptr) return cell;
  const std::deque<PendingStore>& buffer = State::current->workers_[State::self_index]->buffer;
  const auto newest = std::find_if(buffer.rbegin(), buffer.rend(),
                                   [&](const PendingStore& store) { return store.cell == &cell; });
  return newest == buffer.rend() ? cell : newest->value;
}

}  // namespace yonder::testing
