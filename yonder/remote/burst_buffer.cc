#include "yonder/remote/burst_buffer.h"

#include <algorithm>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/remote/internal/burst.h"

namespace yonder::remote {

using internal::Burst;

namespace {

bool overlap(const ByteRange& a, std::uint64_t offset, std::uint64_t bytes) {
  // Differences instead of sums: a range may reach to the end of 64 bits.
  return a.offset < offset + bytes && (offset < a.offset || offset - a.offset < a.bytes);
}

template <typename Container>
void remove_from(Container& container, Burst* burst) {
  container.erase(std::find(container.begin(), container.end(), burst));
}

}  // namespace

Result<std::unique_ptr<BurstBuffer>> BurstBuffer::create(fabric::Fabric& fabric, Port port,
                                                         const fabric::RegionToken& token,
                                                         const BurstOptions& options) {
  if (options.region_bytes == 0 || options.threshold == 0 || options.max_regions == 0 ||
      options.lease <= Duration(0)) {
    return fail(ErrorCode::kInvalidArgument, "a burst buffer that holds nothing");
  }
  YONDER_TRY(pool, BufferPool::create(
                       fabric, {.buffers = options.max_regions, .buffer_bytes = options.region_bytes}));
  return std::unique_ptr<BurstBuffer>(new BurstBuffer(std::move(pool), port, token, options));
}

BurstBuffer::BurstBuffer(std::unique_ptr<BufferPool> pool, Port port, const fabric::RegionToken& token,
                         const BurstOptions& options)
    : port_(port),
      token_(token),
      options_(options),
      pool_(std::move(pool)),
      io_(port, *pool_),
      table_(std::make_unique<internal::BurstTable>(options.max_regions)),
      anchor_(std::make_shared<Anchor>(this)) {
  for (std::uint32_t i = 0; i < options.max_regions; ++i) {
    memory_.push_back(*pool_->try_take());
    bursts_.push_back(std::make_unique<Burst>(memory_.back().bytes()));
    free_.push_back(bursts_.back().get());
  }
}

BurstBuffer::~BurstBuffer() {
  YONDER_CHECK(held_.empty() && flying_.empty(), "close a burst buffer before it goes");
  anchor_->buffer = nullptr;
}

BurstWriter BurstBuffer::writer() { return {*this, std::make_shared<internal::WriterState>()}; }

Result<void> BurstBuffer::check(std::uint64_t offset, std::uint64_t bytes) const {
  if (is_closed_) return fail(ErrorCode::kClosed, "a burst buffer");
  if (offset > token_.length || bytes > token_.length - offset) {
    return fail(ErrorCode::kOutOfBounds, "a burst buffer", static_cast<std::int64_t>(offset));
  }
  return {};
}

Result<void> BurstBuffer::hint(ByteRange range) {
  if (hints_.size() >= options_.max_hints) {
    return fail(ErrorCode::kResourceExhausted, "hints of a burst buffer", options_.max_hints);
  }
  hints_.push_back(range);
  return {};
}

bool BurstBuffer::is_held_place(std::uint64_t place) const {
  if (options_.hold == Hold::kAll) return true;
  const std::uint64_t size = options_.region_bytes;
  return std::any_of(hints_.begin(), hints_.end(),
                     [&](const ByteRange& hint) { return overlap(hint, place * size, size); });
}

// ---------------------------------------------------------------- writing

Task<Result<void>> BurstBuffer::write(WriterPtr writer, std::uint64_t offset,
                                      std::span<const std::byte> bytes, Deadline deadline) {
  const Result<void> checked = check(offset, bytes.size());
  if (!checked) co_return checked;
  deadline = port_.deadline(deadline);
  while (!bytes.empty() && !writer->error) {
    const std::size_t room = options_.region_bytes - offset % options_.region_bytes;
    const std::size_t count = std::min(bytes.size(), room);
    const Result<void> written = co_await write_part(writer, offset, bytes.first(count), deadline);
    if (!written) co_return written;
    offset += count;
    bytes = bytes.subspan(count);
  }
  if (writer->error) co_return std::unexpected(*std::exchange(writer->error, std::nullopt));
  co_return Result<void>();
}

Task<Result<void>> BurstBuffer::write_part(WriterPtr writer, std::uint64_t offset,
                                           std::span<const std::byte> bytes, Deadline deadline) {
  ++stats_.writes;
  const std::uint64_t place = offset / options_.region_bytes;
  if (!is_held_place(place)) {
    ++stats_.through;
    co_return co_await port_.async_write(LocalPiece::of(bytes), token_.at(offset), deadline);
  }
  bool is_full = false;
  if (Burst* const burst = table_->find(place)) {
    is_full = keep(*burst, writer, offset, bytes);
  } else {
    // The change is kept before the turn goes on: the next in line may need the memory
    // of a burst that has none.
    const Turn::Guard guard = co_await admissions_.take();
    const Result<void> admitted = co_await admit(place, deadline);
    if (!admitted) co_return admitted;
    is_full = keep(*table_->find(place), writer, offset, bytes);
  }
  arm_sweeper();
  if (is_full) {
    // How it went is the writers' business (B4), and ours if we are one of them.
    const Which due{.only_due = true};
    (void)co_await fly(due, deadline);
  }
  co_return Result<void>();
}

// Returns whether the burst has enough changes to leave.
bool BurstBuffer::keep(Burst& burst, const WriterPtr& writer, std::uint64_t offset,
                       std::span<const std::byte> bytes) {
  if (burst.state() == Burst::State::kClean) {
    remove_from(clean_, &burst);
    held_.push_back(&burst);
  }
  burst.put(offset % options_.region_bytes, bytes, writer, port_.clock().now());
  port_.queue().charge_copy(1, bytes.size());
  return burst.changes() >= options_.threshold;
}

Task<Result<void>> BurstBuffer::admit(std::uint64_t place, Deadline deadline) {
  if (table_->find(place) != nullptr) co_return Result<void>();
  const Which oldest{.only_oldest = true};
  Burst* burst = try_take_free();
  while (burst == nullptr) {
    // The memory of the oldest; if all are flying, that of those who land.
    (void)co_await fly(oldest, deadline);
    burst = try_take_free();
    if (burst == nullptr && deadline.passed(port_.clock().now())) {
      co_return fail(ErrorCode::kDeadlineExceeded, "wait for a burst");
    }
  }
  // One of this place was flying and has landed meanwhile. To be asked before the fetch:
  // while that is under way such a one could take off again, with newer bytes.
  if (table_->find(place) != nullptr) {
    free(*burst);
    co_return Result<void>();
  }
  burst->begin(place);
  Result<void> fetched;
  if (options_.sole_writer) fetched = co_await fetch_background(*burst, deadline);
  if (!fetched) {
    free(*burst);
    co_return fetched;
  }
  burst->set_state(Burst::State::kClean);
  clean_.push_back(burst);
  table_->insert(*burst);
  co_return fetched;
}

Task<Result<void>> BurstBuffer::fetch_background(Burst& burst, Deadline deadline) {
  const std::uint64_t offset = burst.place() * options_.region_bytes;
  // One that is under way is newer than the target.
  const auto same_place = [&](const Burst* other) { return other->place() == burst.place(); };
  const auto flying = std::find_if(flying_.rbegin(), flying_.rend(), same_place);
  if (flying != flying_.rend()) {
    std::memcpy(burst.bytes().data(), (*flying)->bytes().data(), burst.bytes().size());
    port_.queue().charge_copy(1, burst.bytes().size());
  } else {
    const auto bytes =
        burst.bytes().first(std::min<std::uint64_t>(burst.bytes().size(), token_.length - offset));
    const LocalPiece piece = LocalPiece::of(bytes, pool_->key());
    const Result<void> read = co_await port_.async_read(piece, token_.at(offset), deadline);
    if (!read) co_return read;
  }
  burst.set_background();
  co_return Result<void>();
}

Burst* BurstBuffer::try_take_free() {
  if (free_.empty() && !clean_.empty()) {
    Burst* const oldest = clean_.front();
    clean_.pop_front();
    table_->erase(*oldest);
    free(*oldest);
  }
  if (free_.empty()) return nullptr;
  Burst* const burst = free_.back();
  free_.pop_back();
  return burst;
}

void BurstBuffer::free(Burst& burst) {
  burst.forget_changes();
  burst.set_state(Burst::State::kFree);
  free_.push_back(&burst);
}

// ---------------------------------------------------------------- leaving

bool BurstBuffer::is_due(const Burst& burst, Instant now) const {
  return burst.changes() >= options_.threshold || now - burst.since() >= options_.lease;
}

bool BurstBuffer::matches(const Burst& burst, const Which& which, Instant now) const {
  if (which.only_due && !is_due(burst, now)) return false;
  const auto writers = burst.writers();
  if (which.writer != nullptr && std::none_of(writers.begin(), writers.end(), [&](const WriterPtr& writer) {
        return writer.get() == which.writer;
      })) {
    return false;
  }
  return overlap(which.range, burst.place() * options_.region_bytes, options_.region_bytes);
}

// From the held to the flying.
void BurstBuffer::take_off(const Which& which) {
  const Instant now = port_.clock().now();
  for (std::size_t i = 0; i < held_.size();) {
    Burst* const burst = held_[i];
    if (!matches(*burst, which, now)) {
      ++i;
      continue;
    }
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    table_->erase(*burst);
    burst->set_state(Burst::State::kFlying);
    flying_.push_back(burst);
    if (which.only_oldest) return;
  }
}

void BurstBuffer::add_pieces(const Burst& burst) {
  const std::uint64_t base = burst.place() * options_.region_bytes;
  const auto add = [&](std::size_t offset, std::size_t bytes) {
    pieces_.push_back(
        {LocalPiece::of(burst.bytes().subspan(offset, bytes), pool_->key()), token_.at(base + offset)});
  };
  if (!burst.has_background()) return burst.for_each_run(add);
  std::size_t first = SIZE_MAX;
  std::size_t end = 0;
  burst.for_each_run([&](std::size_t offset, std::size_t bytes) {
    first = std::min(first, offset);
    end = offset + bytes;
  });
  add(first, end - first);
}

Task<Result<void>> BurstBuffer::send(std::span<Burst* const> bursts, Deadline deadline) {
  pieces_.clear();
  for (const Burst* burst : bursts) add_pieces(*burst);
  stats_.requests += pieces_.size();
  co_return co_await io_.async_write(pieces_, Strategy::kDoorbell, deadline);
}

Task<Result<void>> BurstBuffer::fly(Which which, Deadline deadline) {
  deadline = port_.deadline(deadline);
  const Turn::Guard guard = co_await flights_.take();
  take_off(which);
  if (flying_.empty()) co_return Result<void>();
  stats_.bursts += flying_.size();
  Result<void> result = co_await send(flying_, deadline);
  if (result || flying_.size() == 1) {
    for (Burst* burst : flying_) settle(*burst, result);
  } else {
    // Whose fault it was: each again, alone. Writing the same bytes twice does no harm,
    // because nobody's later bytes have left in between.
    for (std::size_t i = 0; i < flying_.size(); ++i) {
      const Result<void> alone = co_await send(std::span(flying_).subspan(i, 1), deadline);
      settle(*flying_[i], alone);
    }
  }
  flying_.clear();
  co_return result;
}

// The burst has landed, or not.
void BurstBuffer::settle(Burst& burst, const Result<void>& result) {
  if (!result) {
    ++stats_.failed;
    for (const WriterPtr& writer : burst.writers()) {
      if (!writer->error) writer->error = result.error();
    }
  }
  const bool keeps_background = result && burst.has_background() && table_->find(burst.place()) == nullptr;
  if (!keeps_background) return free(burst);
  burst.forget_changes();
  burst.set_state(Burst::State::kClean);
  clean_.push_back(&burst);
  table_->insert(burst);
}

Task<Result<void>> BurstBuffer::flush_of(WriterPtr writer, Deadline deadline) {
  const Which own{.writer = writer.get()};
  (void)co_await fly(own, deadline);
  if (writer->error) co_return std::unexpected(*std::exchange(writer->error, std::nullopt));
  co_return Result<void>();
}

Task<Result<void>> BurstBuffer::async_flush(Deadline deadline) { return fly({}, deadline); }
Task<Result<void>> BurstBuffer::async_flush(ByteRange range, Deadline deadline) {
  return fly({.range = range}, deadline);
}

Task<Result<void>> BurstBuffer::async_close(Deadline deadline) {
  is_closed_ = true;
  return fly({}, deadline);
}

void BurstBuffer::abandon() {
  YONDER_CHECK(flying_.empty(), "nothing is under way when a burst buffer is abandoned");
  is_closed_ = true;
  for (Burst* burst : held_) {
    table_->erase(*burst);
    free(*burst);
  }
  held_.clear();
}

// ---------------------------------------------------------------- reading

// Oldest first: what is under way, then what waits. A burst that waits was begun after
// those of its place took off.
bool BurstBuffer::overlay(std::uint64_t offset, std::span<std::byte> out) const {
  bool is_all = true;
  while (!out.empty()) {
    const std::uint64_t place = offset / options_.region_bytes;
    const std::size_t inside = offset % options_.region_bytes;
    const auto part = out.first(std::min<std::size_t>(out.size(), options_.region_bytes - inside));
    bool is_known = false;
    for (const Burst* burst : flying_) {
      if (burst->place() == place) is_known = burst->overlay(inside, part) || is_known;
    }
    if (const Burst* burst = table_->find(place)) is_known = burst->overlay(inside, part) || is_known;
    is_all = is_all && is_known;
    offset += part.size();
    out = out.subspan(part.size());
  }
  return is_all;
}

Task<Result<void>> BurstBuffer::async_read(std::uint64_t offset, std::span<std::byte> out,
                                           Deadline deadline) {
  const Result<void> checked = check(offset, out.size());
  if (!checked) co_return checked;
  if (out.empty()) co_return Result<void>();
  port_.queue().charge_copy(1, out.size());
  if (overlay(offset, out)) co_return Result<void>();
  // A burst that leaves after this read was posted completes after it (E1), so it is
  // still flying when the read is back; one that left before is seen by the read.
  const Result<void> read = co_await port_.async_read(LocalPiece::of(out), token_.at(offset), deadline);
  if (!read) co_return read;
  (void)overlay(offset, out);
  co_return Result<void>();
}

// ---------------------------------------------------------------- leases

void BurstBuffer::arm_sweeper() {
  if (has_sweeper_) return;
  has_sweeper_ = true;
  port_.scheduler().spawn(sweep(port_, anchor_));
}

Instant BurstBuffer::next_lease_end() const {
  Instant end = Instant::from_ns(INT64_MAX);
  for (const Burst* burst : held_) end = std::min(end, burst->since() + options_.lease);
  return end;
}

Task<void> BurstBuffer::sweep(Port port, std::shared_ptr<Anchor> anchor) {
  while (anchor->buffer != nullptr && !anchor->buffer->held_.empty()) {
    const Instant end = anchor->buffer->next_lease_end();
    co_await port.scheduler().sleep_until(end);
    if (anchor->buffer == nullptr) co_return;
    const Which due{.only_due = true};
    (void)co_await anchor->buffer->fly(due, {});
  }
  if (anchor->buffer != nullptr) anchor->buffer->has_sweeper_ = false;
}

// ---------------------------------------------------------------- writers

Task<Result<void>> BurstWriter::async_write(std::uint64_t offset, std::span<const std::byte> bytes,
                                            Deadline deadline) {
  return buffer_->write(state_, offset, bytes, deadline);
}
Task<Result<void>> BurstWriter::async_flush(Deadline deadline) { return buffer_->flush_of(state_, deadline); }
Result<void> BurstWriter::write(std::uint64_t offset, std::span<const std::byte> bytes, Deadline deadline) {
  return buffer_->port_.run(async_write(offset, bytes, deadline));
}
Result<void> BurstWriter::flush(Deadline deadline) { return buffer_->port_.run(async_flush(deadline)); }

}  // namespace yonder::remote
