// The prefetcher of an arrival: brings what nobody has asked for, in order.

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "yonder/os/mapping.h"
#include "yonder/segment/internal/arrival.h"

namespace yonder::segment::internal {

namespace {

bool is_loss(ErrorCode code) {
  return code == ErrorCode::kConnectionLost || code == ErrorCode::kConnectionRefused ||
         code == ErrorCode::kDeadlineExceeded || code == ErrorCode::kUnknownKey ||
         code == ErrorCode::kRegionRevoked;
}

}  // namespace

// Keeps a few reads under way, in the order of addresses, on a lane of its own.
class Arrival::Prefetcher {
 public:
  Prefetcher(Arrival& arrival, const PrefetchOptions& options)
      : arrival_(arrival), options_(options), jobs_(std::clamp(options.depth, 1u, 16u)) {}

  Result<bool> run(const std::stop_token& stop) {
    started_ = arrival_.clock_.now();
    while (!arrival_.is_complete() && !stop.stop_requested()) {
      const bool yields = options_.yields && arrival_.is_being_pulled();
      YONDER_TRY_VOID(or_next_route(yields ? start_small_job() : start_jobs(stop)));
      if (under_way_ == 0) {
        // The rest is claimed by others, or was given back behind us.
        if (cursor_ >= arrival_.pages_) cursor_ = 0;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        continue;
      }
      YONDER_TRY_VOID(or_next_route(end_jobs()));
      if (yields && under_way_ == 0) std::this_thread::sleep_for(options_.yielding_pause);
    }
    while (under_way_ > 0) YONDER_TRY_VOID(end_jobs());
    return arrival_.is_complete();
  }

 private:
  Route& used_route() { return *arrival_.routes_[route_]; }

  // A source that does not answer: what was asked of it ends, and the next one is asked.
  Result<void> or_next_route(const Result<void>& outcome) {
    if (outcome || outcome.error() != ErrorCode::kSegmentLost) return outcome;
    while (under_way_ > 0) (void)end_jobs();
    if (!arrival_.turn_away_from(route_)) {
      arrival_.lost_.store(true, std::memory_order_release);
      return outcome;
    }
    route_ = arrival_.route();
    cursor_ = 0;
    return {};
  }

  Result<void> start_jobs(const std::stop_token& stop) {
    for (std::size_t i = 0; i < jobs_.size() && !stop.stop_requested(); ++i) {
      if (jobs_[i].count > 0) continue;
      const Run run = next_run(options_.chunk_pages);
      if (run.count == 0) return {};
      YONDER_TRY(posted, post(i, run));
      if (!posted) return {};
    }
    return {};
  }

  // None while others are under way.
  Result<void> start_small_job() {
    if (under_way_ > 0) return {};
    const Run run = next_run(options_.yielding_chunk_pages);
    if (run.count > 0) YONDER_TRY_VOID(post(0, run));
    return {};
  }

  Run next_run(std::size_t pages) {
    for (; cursor_ < arrival_.pages_; ++cursor_) {
      const Run run = arrival_.claim(cursor_, pages);
      if (run.count == 0) continue;
      cursor_ += run.count;
      return run;
    }
    return {};
  }

  // False if the lane is full.
  Result<bool> post(std::size_t i, Run run) {
    keep_rate(run.count * os::kPageBytes);
    const fabric::LocalPiece piece = arrival_.piece_of(run);
    const fabric::WorkRequest request{.op = fabric::Op::kRead,
                                      .user_data = i,
                                      .local = {&piece, 1},
                                      .remote = used_route().region.at(run.first * os::kPageBytes),
                                      .deadline = arrival_.route_deadline(route_)};
    const Result<std::size_t> posted = used_route().prefetch_lane->endpoint().post({&request, 1});
    if (!posted || *posted == 0) {
      arrival_.give_back(run);
      if (!posted) return fail(ErrorCode::kSegmentLost, "prefetch a segment: its source is gone");
      return false;
    }
    jobs_[i] = run;
    ++under_way_;
    return true;
  }

  Result<void> end_jobs() {
    fabric::CompletionQueue& queue = used_route().prefetch_lane->queue();
    std::array<fabric::Completion, 16> done;
    std::size_t count = queue.poll(done);
    while (count == 0) {
      // Every request has a deadline, so there is always something to come.
      (void)queue.wait();
      count = queue.poll(done);
    }
    ErrorCode worst = ErrorCode::kOk;
    for (std::size_t i = 0; i < count; ++i) {
      const Run run = std::exchange(jobs_[done[i].user_data], Run{});
      --under_way_;
      if (done[i].ok()) {
        arrival_.land_unmapped(run);
      } else {
        arrival_.give_back(run);
        worst = done[i].status;
      }
    }
    if (worst == ErrorCode::kOk) return {};
    if (!is_loss(worst)) return fail(worst, "prefetch a segment");
    return fail(ErrorCode::kSegmentLost, "prefetch a segment: its source does not answer");
  }

  void keep_rate(std::uint64_t bytes) {
    if (options_.bytes_per_second == 0) return;
    asked_ += bytes;
    const auto due = std::chrono::nanoseconds(static_cast<std::int64_t>(
        static_cast<double>(asked_) * 1e9 / static_cast<double>(options_.bytes_per_second)));
    const Duration ahead = due - (arrival_.clock_.now() - started_);
    if (ahead > Duration::zero())
      std::this_thread::sleep_for(std::min<Duration>(ahead, std::chrono::seconds(1)));
  }

  Arrival& arrival_;
  const PrefetchOptions options_;
  std::vector<Run> jobs_;  // count 0: free
  std::size_t route_ = 0;  // Of the jobs under way.
  std::size_t under_way_ = 0;
  std::size_t cursor_ = 0;
  std::uint64_t asked_ = 0;
  Instant started_;
};

Result<bool> Arrival::prefetch(const PrefetchOptions& options, const std::stop_token& stop) {
  return Prefetcher(*this, options).run(stop);
}

}  // namespace yonder::segment::internal
