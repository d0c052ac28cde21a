#include "bench/fabric/shm_bench.h"

#include <atomic>
#include <cstring>
#include <thread>

#include "bench/harness/heap_counter.h"
#include "bench/harness/report.h"
#include "yonder/base/prng.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/shm/shm.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

using namespace fabric;

constexpr std::uint32_t kMaxBatch = 64;
constexpr std::uint32_t kMaxSize = 64 * 1024;

double elapsed_ns(Instant start) { return static_cast<double>((os::SteadyClock::read() - start).count()); }

// A target with registered memory and an initiator that maps it, as between two
// processes (inprocess=off).
class ReadBed {
 public:
  static Result<std::unique_ptr<ReadBed>> create(std::size_t bytes, std::uint64_t seed) {
    auto bed = std::make_unique<ReadBed>();
    YONDER_TRY_VOID(bed->set_up(bytes, seed));
    return bed;
  }

  Result<ShmReadResult> measure(const ShmReadOptions& options) {
    ShmReadResult result;
    std::vector<double> ours;
    std::vector<double> plain;
    // Before the allocations are counted.
    for (std::vector<double>* values : {&ours, &plain, &result.ratios})
      values->reserve(static_cast<std::size_t>(options.rounds));
    Prng random(options.seed);
    (void)run_ours(options, random());  // Resolves the key, warms everything up.
    std::uint64_t allocated = 0;
    for (int round = 0; round < options.rounds; ++round) {
      const std::uint64_t start = random();
      const auto count_ours = [&] {
        const std::uint64_t before = HeapCounter::allocations();
        ours.push_back(run_ours(options, start));
        allocated += HeapCounter::allocations() - before;
      };
      // Who goes first alternates: a drift of the machine hits both alike. Both
      // visit different places, so neither finds the other's lines in a cache.
      if (round % 2 == 0) count_ours();
      plain.push_back(run_memcpy(options, ~start));
      if (round % 2 == 1) count_ours();
      result.ratios.push_back(plain.back() / ours.back());
    }
    if (failed_) return fail(ErrorCode::kConnectionLost, "benchmark: a read failed");
    result.ours_ns = median(ours);
    result.memcpy_ns = median(plain);
    const double reads = static_cast<double>(options.reads_per_round) * options.rounds;
    result.allocations_per_read = HeapCounter::available() ? static_cast<double>(allocated) / reads : -1;
    return result;
  }

 private:
  Result<void> set_up(std::size_t bytes, std::uint64_t seed) {
    YONDER_TRY(file, os::Memfd::create({.name = "shm-bench", .size = bytes}));
    YONDER_TRY(mapping,
               os::Mapping::of_file(file.fd(), {.bytes = bytes, .protection = os::Protection::kReadWrite}));
    memory_ = std::move(mapping);
    Prng random(seed);
    // The first word of every line tells a dependent reader where to go next.
    for (std::size_t at = 0; at < bytes; at += 64) {
      const std::uint64_t word = random();
      std::memcpy(memory_.data() + at, &word, sizeof word);
    }
    YONDER_TRY(target, shm::open({}));
    YONDER_TRY(initiator, shm::open({}));
    target_ = std::move(target);
    initiator_ = std::move(initiator);
    YONDER_TRY(region, target_->register_memory({.memory = memory_.bytes(),
                                                 .rights = Rights::kRead | Rights::kWrite,
                                                 .backing = Backing{.fd = file.fd().get()}}));
    region_ = std::move(region);
    YONDER_TRY(listener, target_->listen({.address = "shm:?inprocess=off", .passive = true}));
    listener_ = std::move(listener);
    YONDER_TRY(queue, initiator_->create_completion_queue({}));
    queue_ = std::move(queue);
    YONDER_TRY(endpoint, initiator_->connect({.address = listener_->address()}, *queue_));
    endpoint_ = std::move(endpoint);
    return {};
  }

  // Where the reader that found `word` goes next.
  static std::uint64_t next_offset(std::uint64_t word, std::uint64_t& state, std::uint64_t places,
                                   std::uint32_t size) {
    state = (state ^ word) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    return (state >> 20) % places * size;
  }

  // A read is over when all of it is there: the next offset depends on every line.
  // (With a dependence on the first word only, the copy loop starts the next copy
  // while the lines of this one are still on their way, which is two outstanding.)
  static std::uint64_t digest(const std::byte* bytes, std::uint32_t size) {
    std::uint64_t all = 0;
    for (std::uint32_t at = 0; at < size; at += 64) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + at, sizeof word);
      all ^= word;
    }
    return all;
  }

  double run_ours(const ShmReadOptions& options, std::uint64_t state) {
    const RegionToken token = region_.token();
    const std::uint64_t places = memory_.size() / options.size;
    LocalPiece pieces[kMaxBatch];
    WorkRequest batch[kMaxBatch];
    Completion done[kMaxBatch];
    for (std::uint32_t i = 0; i < options.batch; ++i) {
      pieces[i] = {buffer_.data() + std::size_t{i} * options.size, options.size};
      batch[i] = {.op = Op::kRead, .local = {&pieces[i], 1}};
    }
    const bool dependent = options.batch == 1;
    std::uint64_t word = 0;
    const Instant start = os::SteadyClock::read();
    for (std::uint32_t reads = 0; reads < options.reads_per_round; reads += options.batch) {
      for (std::uint32_t i = 0; i < options.batch; ++i)
        batch[i].remote = token.at(next_offset(word, state, places, options.size));
      const std::span<const WorkRequest> requests(batch, options.batch);
      if (endpoint_->post(requests).value_or(0) != options.batch) return give_up();
      for (std::uint32_t got = 0; got < options.batch;) {
        const std::size_t count = queue_->poll({done, options.batch - got});
        for (std::size_t i = 0; i < count; ++i) failed_ |= !done[i].ok();
        got += static_cast<std::uint32_t>(count);
      }
      if (dependent) word = digest(buffer_.data(), options.size);
    }
    return elapsed_ns(start) / options.reads_per_round;
  }

  double run_memcpy(const ShmReadOptions& options, std::uint64_t state) {
    const std::uint64_t places = memory_.size() / options.size;
    const bool dependent = options.batch == 1;
    std::uint64_t offsets[kMaxBatch];
    std::uint64_t word = 0;
    const Instant start = os::SteadyClock::read();
    for (std::uint32_t reads = 0; reads < options.reads_per_round; reads += options.batch) {
      for (std::uint32_t i = 0; i < options.batch; ++i)
        offsets[i] = next_offset(word, state, places, options.size);
      for (std::uint32_t i = 0; i < options.batch; ++i) {
        std::byte* const to = buffer_.data() + std::size_t{i} * options.size;
        std::memcpy(to, memory_.data() + offsets[i], options.size);
        // The copy must happen, as for a caller in another translation unit.
        asm volatile("" : : "r"(to) : "memory");
      }
      if (dependent) word = digest(buffer_.data(), options.size);
    }
    return elapsed_ns(start) / options.reads_per_round;
  }

  double give_up() {
    failed_ = true;
    return 1;
  }

  std::vector<std::byte> buffer_ = std::vector<std::byte>(std::size_t{kMaxBatch} * kMaxSize);
  os::Mapping memory_;
  std::unique_ptr<Fabric> target_;
  std::unique_ptr<Fabric> initiator_;
  Region region_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<CompletionQueue> queue_;
  std::unique_ptr<Endpoint> endpoint_;
  bool failed_ = false;
};

// ---------------------------------------------------------------- messages

// The raw limit: one line, written by each side in turn.
struct alignas(64) BareLine {
  std::atomic<std::uint64_t> turn{0};
};

double run_line(BareLine& line, std::uint32_t trips) {
  std::jthread other([&] {
    for (std::uint64_t i = 0; i < trips; ++i) {
      while (line.turn.load(std::memory_order_acquire) != 2 * i + 1) __builtin_ia32_pause();
      line.turn.store(2 * i + 2, std::memory_order_release);
    }
  });
  // The other thread is there before the clock starts.
  const std::uint32_t warm_up = trips / 4;
  Instant start;
  for (std::uint64_t i = 0; i < trips; ++i) {
    if (i == warm_up) start = os::SteadyClock::read();
    line.turn.store(2 * i + 1, std::memory_order_release);
    while (line.turn.load(std::memory_order_acquire) != 2 * i + 2) __builtin_ia32_pause();
  }
  const double ns = elapsed_ns(start) / (trips - warm_up);
  line.turn.store(0, std::memory_order_relaxed);
  return ns;
}

class MessageBed {
 public:
  static Result<std::unique_ptr<MessageBed>> create(const ShmMessageOptions& options) {
    auto bed = std::make_unique<MessageBed>();
    bed->size_ = options.size;
    YONDER_TRY_VOID(bed->set_up(options.shared_receive_queue));
    return bed;
  }
  ~MessageBed() {
    client_.reset();
    server_.reset();
  }

  double run(std::uint32_t trips) {
    std::jthread other([&] { serve(trips); });
    const std::uint32_t warm_up = trips / 4;
    Instant start;
    for (std::uint32_t i = 0; i < trips && !failed_; ++i) {
      if (i == warm_up) start = os::SteadyClock::read();
      send(*client_);
      take(*client_queue_, *client_, client_buffers_, false);
    }
    return elapsed_ns(start) / (trips - warm_up);
  }
  bool failed() const { return failed_; }

 private:
  static constexpr std::uint32_t kReceives = 16;
  static constexpr std::size_t kBufferBytes = 4096;

  Result<void> set_up(bool shared) {
    YONDER_TRY(fabric, shm::open({}));
    fabric_ = std::move(fabric);
    YONDER_TRY(client_queue, fabric_->create_completion_queue({}));
    YONDER_TRY(server_queue, fabric_->create_completion_queue({}));
    client_queue_ = std::move(client_queue);
    server_queue_ = std::move(server_queue);
    ListenOptions options{.address = "shm:?inprocess=off", .completion_queues = {server_queue_.get()}};
    if (shared) {
      YONDER_TRY(receives, fabric_->create_receive_queue({}));
      receives_ = std::move(receives);
      options.endpoint.receive_queue = receives_.get();
    }
    YONDER_TRY(listener, fabric_->listen(options));
    listener_ = std::move(listener);
    YONDER_TRY(client, fabric_->connect({.address = listener_->address()}, *client_queue_));
    client_ = std::move(client);
    YONDER_TRY(server, listener_->accept(Deadline::after(fabric_->clock(), std::chrono::seconds(5))));
    server_ = std::move(server);
    for (std::uint32_t i = 0; i < kReceives; ++i) {
      post_receive(*client_, client_buffers_, i, false);
      post_receive(*server_, server_buffers_, i, shared);
    }
    shared_ = shared;
    return {};
  }

  void post_receive(Endpoint& endpoint, std::vector<std::byte>& buffers, std::uint64_t i, bool shared) {
    const ReceiveRequest receive{
        .user_data = i, .buffer = LocalPiece::of(std::span(buffers).subspan(i * kBufferBytes, kBufferBytes))};
    const auto posted = shared ? receives_->post({&receive, 1}) : endpoint.post_receive({&receive, 1});
    if (!posted) failed_ = true;
  }
  void send(Endpoint& endpoint) {
    const LocalPiece piece{message_.data(), size_};
    const WorkRequest request{.op = Op::kSend, .flags = RequestFlags::kUnsignalled, .local = {&piece, 1}};
    if (!endpoint.post({&request, 1})) failed_ = true;
  }
  void take(CompletionQueue& queue, Endpoint& endpoint, std::vector<std::byte>& buffers, bool shared) {
    Completion done;
    while (queue.poll({&done, 1}) == 0) {
      if (failed_) return;
      __builtin_ia32_pause();
    }
    if (!done.ok()) failed_ = true;
    post_receive(endpoint, buffers, done.user_data, shared);
  }
  void serve(std::uint32_t trips) {
    for (std::uint32_t i = 0; i < trips && !failed_; ++i) {
      take(*server_queue_, *server_, server_buffers_, shared_);
      send(*server_);
    }
  }

  std::uint32_t size_ = 0;
  bool shared_ = false;
  std::vector<std::byte> message_ = std::vector<std::byte>(kBufferBytes);
  std::vector<std::byte> client_buffers_ = std::vector<std::byte>(kReceives * kBufferBytes);
  std::vector<std::byte> server_buffers_ = std::vector<std::byte>(kReceives * kBufferBytes);
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<ReceiveQueue> receives_;
  std::unique_ptr<CompletionQueue> client_queue_;
  std::unique_ptr<CompletionQueue> server_queue_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Endpoint> client_;
  std::unique_ptr<Endpoint> server_;
  std::atomic<bool> failed_{false};
};

}  // namespace

Result<std::vector<ShmReadResult>> measure_shm_reads(const std::vector<ShmReadOptions>& all) {
  std::vector<ShmReadResult> results;
  if (all.empty()) return results;
  YONDER_TRY(bed, ReadBed::create(all.front().memory_bytes, all.front().seed));
  for (const ShmReadOptions& options : all) {
    if (options.batch == 0 || options.batch > kMaxBatch || options.size == 0 || options.size > kMaxSize)
      return fail(ErrorCode::kInvalidArgument, "benchmark: size or batch", options.size);
    YONDER_TRY(result, bed->measure(options));
    results.push_back(std::move(result));
  }
  return results;
}

Result<ShmReadResult> measure_shm_reads(const ShmReadOptions& options) {
  YONDER_TRY(results, measure_shm_reads(std::vector<ShmReadOptions>{options}));
  return std::move(results.front());
}

Result<ShmMessageResult> measure_shm_messages(const ShmMessageOptions& options) {
  YONDER_TRY(bed, MessageBed::create(options));
  BareLine line;
  ShmMessageResult result;
  std::vector<double> ours;
  std::vector<double> bare;
  for (int round = 0; round < options.rounds; ++round) {
    if (round % 2 == 0) ours.push_back(bed->run(options.trips_per_round));
    bare.push_back(run_line(line, options.trips_per_round));
    if (round % 2 == 1) ours.push_back(bed->run(options.trips_per_round));
    result.ratios.push_back(ours.back() / bare.back());
  }
  if (bed->failed()) return fail(ErrorCode::kConnectionLost, "benchmark: a message failed");
  result.ours_ns = median(ours);
  result.line_ns = median(bare);
  return result;
}

}  // namespace yonder::bench
