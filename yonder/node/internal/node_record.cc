#include "yonder/node/internal/node_record.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <cstring>
#include <utility>

namespace yonder::node::internal {
namespace {

constexpr std::uint64_t kMagic = 0x4544'4f4e'5244'4e59;  // "YNDRNODE" in memory.
// Grows whenever memory that an older version left would be misread: another record,
// header word, table word, slot layout or journal, or other pointers in programs.
constexpr std::uint32_t kFormat = 3;

// As it lies in the file. Only this machine reads it, so its byte order will do.
struct Head {
  std::uint64_t magic = kMagic;
  std::uint32_t format = kFormat;
  std::uint32_t head_bytes = 0;
  std::uint64_t life = 0;
  std::uint64_t seed = 0;
  std::uint64_t superblock_bytes = 0;
  std::uint64_t class_checksum = 0;
  std::uint64_t table_file = 0;
  std::uint32_t natural = 0;
  std::uint32_t spare = 0;
  std::uint32_t frame_bytes = 0;
  std::uint16_t node = 0;
  std::uint8_t validator = 0;
  std::uint8_t whole_frame_blocks = 0;
  std::uint64_t checksum = 0;  // Of everything before it.
};
static_assert(sizeof(Head) == 80 && offsetof(Head, checksum) == 72, "no padding anywhere");

constexpr std::size_t kJournalsAt = 2048;
constexpr std::size_t kSuperblocksAt = 4096;
constexpr std::size_t kSpansAt = kSuperblocksAt + NodeRecord::kMaxSuperblocks * sizeof(std::uint64_t);
constexpr std::size_t kFileBytes = kSpansAt + (std::size_t{1} << kFrameIdBits) * sizeof(std::uint32_t);
static_assert(kSpansAt == 36864 && kSpansAt % 4096 == 0);
// A superblock holds at least one object of the largest size.
static_assert(((std::uint64_t{1} << kFrameIdBits) * kUnitBytes) / kMaxObjectBytes <=
              NodeRecord::kMaxSuperblocks);

std::uint64_t checksum_of(const Head& head) { return XXH3_64bits(&head, offsetof(Head, checksum)); }

Result<void> compare(const Head& head, const NodeRecord::Shape& shape) {
  if (head.node != shape.node.value())
    return fail(ErrorCode::kConfigInvalid, "adopt memory of a node with another id", head.node);
  if (head.validator != static_cast<std::uint8_t>(shape.validator))
    return fail(ErrorCode::kConfigInvalid, "adopt memory with another validator", head.validator);
  if (head.frame_bytes != shape.frame_bytes || (head.whole_frame_blocks != 0) != shape.whole_frame_blocks)
    return fail(ErrorCode::kConfigInvalid, "adopt memory with other blocks", head.frame_bytes);
  if (head.superblock_bytes != shape.superblock_bytes)
    return fail(ErrorCode::kConfigInvalid, "adopt memory with other superblocks",
                static_cast<std::int64_t>(head.superblock_bytes));
  if (head.class_checksum != shape.class_checksum)
    return fail(ErrorCode::kConfigInvalid, "adopt memory with other size classes");
  return {};
}

}  // namespace

NodeRecord::Shape NodeRecord::shape_of(NodeId node, const SizeClassOptions& options,
                                       const SizeClasses& classes, std::uint64_t superblock_bytes) {
  Shape shape{.node = node,
              .validator = options.validator,
              .frame_bytes = options.frame_bytes,
              .whole_frame_blocks = options.whole_frame_blocks,
              .superblock_bytes = superblock_bytes};
  static_assert(sizeof(SizeClass) == 6 * sizeof(std::uint32_t), "no padding is hashed");
  for (std::size_t i = 0; i < classes.count(); ++i) {
    shape.class_checksum = XXH3_64bits_withSeed(&classes[i], sizeof(SizeClass), shape.class_checksum);
  }
  return shape;
}

Result<std::uint64_t> NodeRecord::number_of(const os::Fd& file) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return std::unexpected(Error::from_errno("fstat"));
  return status.st_ino;
}

NodeRecord::NodeRecord(os::Memfd memfd, os::Mapping mapping, os::FileLock lock, const Choice& choice)
    : memfd_(std::move(memfd)),
      mapping_(std::move(mapping)),
      lock_(std::move(lock)),
      choice_(choice),
      journals_(reinterpret_cast<std::atomic<std::uint64_t>*>(mapping_.data() + kJournalsAt)),
      superblocks_(reinterpret_cast<std::atomic<std::uint64_t>*>(mapping_.data() + kSuperblocksAt)),
      spans_(reinterpret_cast<std::atomic<std::uint32_t>*>(mapping_.data() + kSpansAt)) {}

Result<std::unique_ptr<NodeRecord>> NodeRecord::open(os::Memfd memfd) {
  if (memfd.size() != kFileBytes)
    return fail(ErrorCode::kCorrupt, "node record: its size", static_cast<std::int64_t>(memfd.size()));
  YONDER_TRY(lock, os::FileLock::try_take(memfd.fd()));
  YONDER_TRY(mapping, os::Mapping::of_file(
                          memfd.fd(), {.bytes = memfd.size(), .protection = os::Protection::kReadWrite}));
  return std::unique_ptr<NodeRecord>(
      new NodeRecord(std::move(memfd), std::move(mapping), std::move(lock), {}));
}

Result<std::unique_ptr<NodeRecord>> NodeRecord::create(const Shape& shape, const Choice& choice) {
  YONDER_TRY(memfd, os::Memfd::create({.name = "yonder-record", .size = kFileBytes}));
  YONDER_TRY_VOID(memfd.seal(os::kSealShrink | os::kSealGrow));
  YONDER_TRY(record, open(std::move(memfd)));
  Head head{.head_bytes = sizeof(Head),
            .life = choice.life,
            .seed = choice.seed,
            .superblock_bytes = shape.superblock_bytes,
            .class_checksum = shape.class_checksum,
            .table_file = choice.table_file,
            .natural = choice.table.natural,
            .spare = choice.table.spare,
            .frame_bytes = shape.frame_bytes,
            .node = shape.node.value(),
            .validator = static_cast<std::uint8_t>(shape.validator),
            .whole_frame_blocks = static_cast<std::uint8_t>(shape.whole_frame_blocks)};
  head.checksum = checksum_of(head);
  std::memcpy(record->mapping_.data(), &head, sizeof head);
  record->choice_ = choice;
  return record;
}

Result<std::unique_ptr<NodeRecord>> NodeRecord::adopt(os::Memfd memfd, const Shape& shape) {
  YONDER_TRY(seals, memfd.seals());
  if ((seals & os::kSealShrink) == 0) return fail(ErrorCode::kCorrupt, "node record: its size can change");
  YONDER_TRY(record, open(std::move(memfd)));
  Head head;
  std::memcpy(&head, record->mapping_.data(), sizeof head);
  if (head.magic != kMagic) return fail(ErrorCode::kCorrupt, "node record: it is none");
  if (head.format != kFormat)
    return fail(ErrorCode::kUnsupported, "node record of another format", head.format);
  if (head.head_bytes != sizeof(Head) || head.checksum != checksum_of(head) || head.life == 0)
    return fail(ErrorCode::kCorrupt, "node record: its checksum");
  YONDER_TRY_VOID(compare(head, shape));
  record->choice_ = {.life = head.life,
                     .seed = head.seed,
                     .table = {.natural = head.natural, .spare = head.spare},
                     .table_file = head.table_file};
  return record;
}

// relaxed, all six: the next reader is another process, after the end of this one,
// and finds what was stored before that.

void NodeRecord::add_journal(std::uint64_t file_number) {
  journals_[1].store(journals_[0].load(std::memory_order_relaxed), std::memory_order_relaxed);
  journals_[0].store(file_number, std::memory_order_relaxed);
}

bool NodeRecord::is_journal(std::uint64_t file_number) const {
  return journals_[0].load(std::memory_order_relaxed) == file_number ||
         journals_[1].load(std::memory_order_relaxed) == file_number;
}

void NodeRecord::set_superblock(std::size_t index, std::uint64_t file_number) {
  superblocks_[index].store(file_number, std::memory_order_relaxed);
}

std::uint64_t NodeRecord::superblock(std::size_t index) const {
  return superblocks_[index].load(std::memory_order_relaxed);
}

void NodeRecord::set_span(FrameId first, std::uint32_t units) {
  spans_[first.value()].store(units, std::memory_order_relaxed);
}

std::uint32_t NodeRecord::span(FrameId first) const {
  return spans_[first.value()].load(std::memory_order_relaxed);
}

}  // namespace yonder::node::internal
