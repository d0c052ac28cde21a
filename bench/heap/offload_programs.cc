#include "bench/heap/offload_programs.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "bench/heap/memory.h"
#include "bench/heap/offload_arguments.h"
#include "bench/heap/requests.h"
#include "bench/heap/web_service_parts.h"
#include "bench/heap/workers.h"
#include "yonder/base/distribution.h"
#include "yonder/heap/offload_space.h"

namespace yonder::bench::heap {
namespace {

using far::OffloadSpace;

constexpr Duration kTime = std::chrono::seconds(60);

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + far::kPageBytes - 1) / far::kPageBytes * far::kPageBytes;
}

Result<std::unique_ptr<OffloadSpace>> open_space(const OffloadWork& work, std::uint64_t bytes,
                                                 std::uint64_t budget) {
  const std::uint64_t least = far::PagedSpace::kMinBudgetPages * far::kPageBytes;
  YONDER_TRY(space, OffloadSpace::create({.node = work.node,
                                          .bytes = Bytes(whole_pages(bytes) + (1 << 20)),
                                          .budget = Bytes(std::max(budget, least)),
                                          .lines = work.work.threads}));
  // The node starts a process for this space: once, and not while anything is measured.
  YONDER_TRY_VOID(space->call<void>({"heap_bench.copy", 1}, CopyRows{}, {}, kTime));
  return space;
}

Figure figure_of(const Measured& all) {
  return {.operations_per_s = static_cast<double>(all.operations) / all.seconds,
          .checksum = all.checksum,
          .wrong_objects = all.wrong_objects};
}

// ---------------------------------------------------------------- DF

constexpr unsigned kColumns = 2;           // And as many copies, as in data_frame.cc.
constexpr std::size_t kRowsPerChunk = 64;  // Of there, too: parts are whole chunks.

using Column = std::span<std::uint64_t>;

struct Frame {
  std::vector<Column> columns;
  std::vector<Column> copies;
  std::span<std::uint32_t> order;
};

void fill_order(std::span<std::uint32_t> order, std::uint64_t seed) {
  // Shuffled here and then copied: swaps all over a paged space would take longer than the rest.
  std::vector<std::uint32_t> made(order.size());
  std::iota(made.begin(), made.end(), 0);
  Prng random(seed);
  for (std::size_t i = made.size(); i > 1; --i) std::swap(made[i - 1], made[random.below(i)]);
  std::ranges::copy(made, order.begin());
}

Result<Frame> make_frame(OffloadSpace& space, const Work& work, std::size_t rows) {
  Frame frame;
  for (unsigned i = 0; i < kColumns; ++i) {
    YONDER_TRY(column, space.make_array<std::uint64_t>(rows));
    YONDER_TRY(copy, space.make_array<std::uint64_t>(rows));
    frame.columns.push_back(column);
    frame.copies.push_back(copy);
  }
  YONDER_TRY(order, space.make_array<std::uint32_t>(rows));
  frame.order = order;
  fill_order(order, work.seed);
  return frame;
}

// Rows of thread t, as data_frame.cc divides them.
std::span<std::uint64_t> part_of(Column column, unsigned t, unsigned threads) {
  const std::size_t chunks = column.size() / kRowsPerChunk;
  const std::size_t begin = chunks * t / threads * kRowsPerChunk;
  return column.subspan(begin, chunks * (t + 1) / threads * kRowsPerChunk - begin);
}

Result<void> copy_there(OffloadSpace& space, Column from, Column to) {
  return space.call<void>({"heap_bench.copy", 1},
                          CopyRows{.from = from.data(), .to = to.data(), .rows = from.size()},
                          {far::reads(from), far::writes(to)}, kTime);
}

Result<void> shuffle_there(OffloadSpace& space, Column from, std::span<std::uint32_t> order, Column to) {
  return space.call<void>(
      {"heap_bench.shuffle", 1},
      ShuffleRows{.from = from.data(), .order = order.data(), .to = to.data(), .rows = from.size()},
      {far::reads(from), far::reads(order), far::writes(to)}, kTime);
}

Result<std::uint64_t> operate(OffloadSpace& space, const Frame& frame) {
  std::uint64_t rows = 0;
  for (unsigned i = 0; i < kColumns; ++i) {
    YONDER_TRY_VOID(copy_there(space, frame.columns[i], frame.copies[i]));
    rows += frame.order.size();
  }
  for (unsigned i = 0; i < kColumns; ++i) {
    YONDER_TRY_VOID(shuffle_there(space, frame.columns[i], frame.order, frame.copies[i]));
    rows += frame.order.size();
  }
  for (unsigned i = 0; i < kColumns; ++i) {
    YONDER_TRY_VOID(copy_there(space, frame.copies[i], frame.columns[i]));
    rows += frame.order.size();
  }
  return rows;
}

// ---------------------------------------------------------------- WS

// Serves the requests of one thread: looks up here, and has the replies made there.
class OffloadServer {
 public:
  OffloadServer(const Table<Far>& table, OffloadSpace& space, std::span<const std::byte> elements,
                const Work& work, unsigned t)
      : look_up_(table, service_keys(work.bytes), work.seed * 19 + t), space_(space), elements_(elements) {}

  Result<void> serve(Measured& measured) {
    const std::uint64_t element = mixed(look_up_(measured)) % (elements_.size() / kElementBytes);
    wanted_.elements[wanted_.count++] = elements_.data() + element * kElementBytes;
    ++measured.operations;
    return wanted_.count == Replies::kAtOnce ? flush(measured) : Result<void>();
  }

  Result<void> flush(Measured& measured) {
    std::array<far::LentRange, Replies::kAtOnce> ranges;
    const std::size_t count = std::min<std::size_t>(wanted_.count, ranges.size());
    for (std::size_t i = 0; i < count; ++i)
      ranges[i] = far::reads(std::span(wanted_.elements[i], kElementBytes));
    YONDER_TRY(bytes, space_.call_raw({"heap_bench.reply", 1}, std::as_bytes(std::span(&wanted_, 1)),
                                      std::span(ranges).first(count), kTime));
    std::span<const std::byte> rest(bytes);
    for (; wanted_.count != 0; --wanted_.count) {
      std::uint32_t length = 0;
      if (rest.size() < sizeof length) return fail(ErrorCode::kCorrupt, "offload bench: replies");
      std::memcpy(&length, rest.data(), sizeof length);
      rest = rest.subspan(sizeof length);
      if (rest.size() < length || length < sizeof(std::uint64_t))
        return fail(ErrorCode::kCorrupt, "offload bench: replies");
      measured.checksum += checksum_of(rest.first(length));
      rest = rest.subspan(length);
    }
    return {};
  }

 private:
  Lookups<Far> look_up_;
  OffloadSpace& space_;
  const std::span<const std::byte> elements_;
  Replies wanted_{};
};

Result<std::span<std::byte>> make_elements(OffloadSpace& space, std::uint64_t count) {
  YONDER_TRY(elements, space.make_array<std::byte>(count * kElementBytes));
  for (std::uint64_t i = 0; i < count; ++i) {
    Prng random(i);
    // In two halves: so are those of web_service.cc.
    for (std::size_t at = 0; at < kElementBytes; at += far::kPageBytes)
      fill_part(elements.subspan(i * kElementBytes + at, far::kPageBytes), random);
  }
  return elements;
}

Result<Measured> serve_all(std::vector<std::unique_ptr<OffloadServer>>& servers, std::uint64_t requests) {
  std::vector<Measured> results(servers.size());
  std::vector<Result<void>> ends(servers.size());
  const Instant begin = os::SteadyClock::read();
  on_threads(static_cast<unsigned>(servers.size()), [&](unsigned t) {
    for (std::uint64_t i = 0; i < requests / servers.size() && ends[t]; ++i)
      ends[t] = servers[t]->serve(results[t]);
    if (ends[t]) ends[t] = servers[t]->flush(results[t]);
  });
  for (const Result<void>& end : ends) YONDER_TRY_VOID(end);
  return total(results, seconds_since(begin));
}

}  // namespace

Result<Figure> run_data_frame_offloaded(const OffloadWork& work) {
  const std::size_t rows =
      work.work.bytes / (2 * kColumns * sizeof(std::uint64_t)) / kRowsPerChunk * kRowsPerChunk;
  YONDER_TRY(space, open_space(work, work.work.bytes * 5 / 4, work.local.count()));
  YONDER_TRY(frame, make_frame(*space, work.work, rows));
  on_threads(work.work.threads, [&](unsigned t) {
    for (unsigned i = 0; i < kColumns; ++i) {
      Prng random(work.work.seed * 7 + i * 64 + t);
      for (std::uint64_t& value : part_of(frame.columns[i], t, work.work.threads)) value = random() >> 1;
    }
  });
  Measured all;
  const Instant begin = os::SteadyClock::read();
  YONDER_TRY(operations, operate(*space, frame));
  all.seconds = seconds_since(begin);
  all.operations = operations;
  for (unsigned i = 0; i < kColumns; ++i) {
    for (unsigned t = 0; t < work.work.threads; ++t) {
      std::uint64_t sum = 0;
      for (const std::uint64_t value : part_of(frame.columns[i], t, work.work.threads))
        sum = sum * 31 + value;
      all.checksum += sum;
    }
  }
  return figure_of(all);
}

Result<Figure> run_web_service_offloaded(const OffloadWork& work) {
  const std::uint64_t bytes = work.work.bytes;
  // Local memory is the table's: elements are filled once, and then used there.
  const std::uint64_t space_budget =
      std::max<std::uint64_t>(work.local.count() / 16, far::PagedSpace::kMinBudgetPages * far::kPageBytes);
  YONDER_TRY(space, open_space(work, service_elements(bytes) * kElementBytes, space_budget));
  YONDER_TRY(elements, make_elements(*space, service_elements(bytes)));
  const Bytes heap_local(
      std::max<std::uint64_t>(work.local.count() - std::min(work.local.count(), space_budget),
                              far::PagedSpace::kMinBudgetPages * far::kPageBytes));
  YONDER_TRY(heap, far::Heap::create({.local = heap_local,
                                      .max_local = heap_local,
                                      .far = Bytes(bytes * 6 + (64 << 20)),
                                      .link = "model=rdma100g"}));
  const std::uint64_t keys = service_keys(bytes);
  // Not taken apart: the process is only there for the run, and ends without it.
  auto* const table = new Table<Far>(keys);
  const Scatter order(keys);
  for (std::uint64_t i = 0; i < keys; ++i) table->add(order(i));
  std::vector<std::unique_ptr<OffloadServer>> servers;
  for (unsigned t = 0; t < work.work.threads; ++t)
    servers.push_back(std::make_unique<OffloadServer>(*table, *space, elements, work.work, t));
  const std::uint64_t requests = service_requests(bytes, work.work.effort);
  YONDER_TRY(warm, serve_all(servers, requests / 2));
  YONDER_TRY(measured, serve_all(servers, requests));
  measured.wrong_objects += warm.wrong_objects;
  (void)heap.release();
  return figure_of(measured);
}

}  // namespace yonder::bench::heap
