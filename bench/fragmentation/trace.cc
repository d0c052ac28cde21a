#include "bench/fragmentation/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "yonder/base/prng.h"
#include "yonder/os/fd.h"
#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

constexpr Duration kPatience = std::chrono::minutes(5);
// Numbers are indexes of dense arrays, here and in the replay.
constexpr std::uint32_t kMaxObjects = 1u << 28;

std::uint32_t load_u32(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>(bytes[i]) << (8 * i);
  return value;
}

void append_u32(std::uint32_t value, std::vector<std::byte>& bytes) {
  for (unsigned i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
}

Result<std::vector<std::byte>> read_all(const os::Fd& fd) {
  std::vector<std::byte> bytes;
  std::vector<std::byte> chunk(1 << 20);
  for (;;) {
    const ssize_t got = ::read(fd.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read a trace");
    if (got == 0) return bytes;
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + got);
  }
}

Result<std::vector<std::byte>> unpack(const std::string& path) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("pipe2");
  const os::Fd output(ends[0]);
  os::Fd input(ends[1]);
  YONDER_TRY(child,
             os::Child::spawn({.argv = {"zstd", "-dcq", "--long=27", path}, .stdout_fd = input.get()}));
  input.reset();
  YONDER_TRY(bytes, read_all(output));
  YONDER_TRY(status, child.wait(Deadline::after(os::SteadyClock(), kPatience)));
  if (!status.success()) return fail(ErrorCode::kCorrupt, "unpack a trace with zstd", status.value);
  return bytes;
}

}  // namespace

void append_record(const TraceRecord& record, std::vector<std::byte>& bytes) {
  bytes.push_back(static_cast<std::byte>(record.op));
  append_u32(record.object, bytes);
  append_u32(record.bytes, bytes);
}

Result<std::vector<TraceRecord>> parse_trace(std::span<const std::byte> bytes) {
  if (bytes.size() % kTraceRecordBytes != 0) {
    return fail(ErrorCode::kCorrupt, "a trace of whole records", static_cast<std::int64_t>(bytes.size()));
  }
  std::vector<TraceRecord> records;
  records.reserve(bytes.size() / kTraceRecordBytes);
  std::vector<bool> live;
  for (; !bytes.empty(); bytes = bytes.subspan(kTraceRecordBytes)) {
    const TraceRecord record{.op = static_cast<TraceRecord::Op>(bytes[0]),
                             .object = load_u32(bytes.subspan(1)),
                             .bytes = load_u32(bytes.subspan(5))};
    const bool allocates = record.op == TraceRecord::Op::kAlloc;
    if (record.object >= live.size() && record.object < kMaxObjects)
      live.resize(std::size_t{record.object} + 1);
    const bool known = allocates || record.op == TraceRecord::Op::kFree;
    if (!known || record.object >= live.size() || live[record.object] == allocates ||
        (record.bytes != 0) != allocates) {
      return fail(ErrorCode::kCorrupt, "a trace record", static_cast<std::int64_t>(records.size()));
    }
    live[record.object] = allocates;
    records.push_back(record);
  }
  return records;
}

std::vector<TraceRecord> generate_trace(std::uint32_t objects, std::uint64_t seed) {
  std::vector<TraceRecord> trace;
  Prng random(seed);
  for (std::uint32_t i = 0; i < objects; ++i) {
    const std::uint64_t most = std::uint64_t{1} << (3 + random.below(8));
    const auto bytes = static_cast<std::uint32_t>(1 + random.below(most));
    trace.push_back({TraceRecord::Op::kAlloc, i, i == 0 ? 300'000 : bytes});  // One is a span.
  }
  for (std::uint32_t i = 0; i < objects; ++i) {
    if (i % 3 != 0) trace.push_back({TraceRecord::Op::kFree, i, 0});
  }
  return trace;
}

Result<std::vector<TraceRecord>> read_trace(const std::string& path) {
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return fail_errno("open a trace");
  if (path.ends_with(".zst")) {
    YONDER_TRY(bytes, unpack(path));
    return parse_trace(bytes);
  }
  YONDER_TRY(bytes, read_all(file));
  return parse_trace(bytes);
}

}  // namespace yonder::bench
