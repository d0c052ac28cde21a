#include "yonder/node/internal/kept_memory.h"

#include <algorithm>
#include <utility>

#include "yonder/base/check.h"

namespace yonder::node::internal {
namespace {

std::string superblock_name(std::size_t index) { return "super." + std::to_string(index); }

}  // namespace

KeptFile* KeptMemory::find(const std::string& name) {
  const auto at = std::ranges::find(files_, name, &KeptFile::name);
  return at == files_.end() ? nullptr : &*at;
}

Result<void> KeptMemory::look() {
  YONDER_TRY(files, keeper_.files());
  files_ = std::move(files);
  return {};
}

// A file that can shrink would fault under us.
Result<os::Memfd> KeptMemory::take(const std::string& name) {
  KeptFile* file = find(name);
  if (file == nullptr || !file->fd.valid())
    return fail(ErrorCode::kCorrupt, "adopt memory: the keeper does not have all of it");
  YONDER_TRY(memfd, os::Memfd::adopt(std::move(file->fd)));
  YONDER_TRY_VOID(memfd.seal(os::kSealShrink | os::kSealGrow));
  return memfd;
}

Result<void> KeptMemory::begin(const NodeRecord::Shape& shape, NodeRecord::Choice choice,
                               const os::Memfd& table, std::uint32_t threads) {
  YONDER_TRY_VOID(keeper_.forget_all());
  YONDER_TRY(table_file, NodeRecord::number_of(table.fd()));
  choice.table_file = table_file;
  YONDER_TRY(made, NodeRecord::create(shape, choice));
  record = std::move(made);
  record_ = record.get();
  YONDER_TRY(notes, WriteJournal::create(threads));
  journal = std::move(notes);
  YONDER_TRY_VOID(keeper_.keep("blocks", table.fd()));
  YONDER_TRY_VOID(keep_journal(*journal));
  return keeper_.keep("record", record->file());
}

Result<void> KeptMemory::resume(const NodeRecord::Shape& shape) {
  YONDER_TRY(record_file, take("record"));
  YONDER_TRY(found, NodeRecord::adopt(std::move(record_file), shape));
  record = std::move(found);
  record_ = record.get();
  YONDER_TRY(journal_file, take("journal"));
  YONDER_TRY(number, NodeRecord::number_of(journal_file.fd()));
  if (!record->is_journal(number))
    return fail(ErrorCode::kCorrupt, "adopt memory: the journal is another file");
  YONDER_TRY(notes, WriteJournal::adopt(std::move(journal_file)));
  journal = std::move(notes);
  return {};
}

Result<os::Memfd> KeptMemory::take_table() {
  YONDER_TRY(memfd, take("blocks"));
  YONDER_TRY(number, NodeRecord::number_of(memfd.fd()));
  if (number != record_->choice().table_file)
    return fail(ErrorCode::kCorrupt, "adopt memory: the block table is another file");
  return memfd;
}

Result<std::vector<os::Memfd>> KeptMemory::take_superblocks() {
  std::vector<os::Memfd> out;
  for (std::size_t i = 0; i < NodeRecord::kMaxSuperblocks && record_->superblock(i) != 0; ++i) {
    YONDER_TRY(memfd, take(superblock_name(i)));
    YONDER_TRY(number, NodeRecord::number_of(memfd.fd()));
    if (number != record_->superblock(i))
      return fail(ErrorCode::kCorrupt, "adopt memory: a superblock is another file",
                  static_cast<std::int64_t>(i));
    out.push_back(std::move(memfd));
  }
  return out;
}

Result<void> KeptMemory::renew_journal(std::uint32_t threads) {
  for (std::uint32_t i = 0; i < journal->lane_count(); ++i) journal->lane(i).end();
  if (journal->lane_count() >= threads) return {};
  YONDER_TRY(larger, WriteJournal::create(threads));
  YONDER_TRY_VOID(keep_journal(*larger));
  journal = std::move(larger);
  return {};
}

Result<void> KeptMemory::keep_journal(const WriteJournal& made) {
  YONDER_TRY(number, NodeRecord::number_of(made.file()));
  record_->add_journal(number);
  return keeper_.keep("journal", made.file());
}

Result<void> KeptMemory::keep_superblock(const Superblock& superblock) {
  const std::size_t index = superblock.first.value() / (superblock.memory.size() / kUnitBytes);
  YONDER_CHECK(index < NodeRecord::kMaxSuperblocks, "superblocks are large");
  YONDER_TRY(number, NodeRecord::number_of(superblock.memfd.fd()));
  if (record_->superblock(index) == number) return {};  // Adopted.
  YONDER_TRY_VOID(keeper_.keep(superblock_name(index), superblock.memfd.fd()));
  // After it is kept: a process that dies in between leaves one that has no frames.
  record_->set_superblock(index, number);
  return {};
}

}  // namespace yonder::node::internal
