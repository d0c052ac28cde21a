#pragma once
// KeptMemory: the files of a node at its keeper: made and handed over, or taken back.
//
//   KeptMemory kept(keeper);
//   YONDER_TRY_VOID(kept.look());                       // what is there
//   if (kept.is_empty()) … make a table; kept.begin(shape, choice, table, threads)
//   else                 … kept.resume(shape, threads), then the table and superblocks
//
// The record is handed over last and looked for first: files without one are of a
// start that did not succeed, and forgotten.
//
// Concurrency: one thread; keep_superblock() under the frame store's mutex.
// Lifetime: the keeper outlives it.

#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/node/frame_store.h"
#include "yonder/node/internal/node_record.h"
#include "yonder/node/internal/write_journal.h"
#include "yonder/node/keeper.h"

namespace yonder::node::internal {

class KeptMemory {
 public:
  explicit KeptMemory(Keeper& keeper) : keeper_(keeper) {}

  // Errors of the keeper.
  Result<void> look();
  bool is_empty() const { return find("record") == nullptr; }

  // The first process. Everything but the superblocks is kept afterwards.
  Result<void> begin(const NodeRecord::Shape& shape, NodeRecord::Choice choice, const os::Memfd& table,
                     std::uint32_t threads);
  // The next one. Errors of NodeRecord::adopt and WriteJournal::adopt; kCorrupt: a file
  // is missing or not the one it was.
  Result<void> resume(const NodeRecord::Shape& shape);
  Result<os::Memfd> take_table();
  Result<std::vector<os::Memfd>> take_superblocks();
  // A journal for so many threads, all of it unused: the old one if it will do.
  Result<void> renew_journal(std::uint32_t threads);

  // One more, made by us or adopted.
  Result<void> keep_superblock(const Superblock& superblock);

  std::unique_ptr<NodeRecord> record;
  std::unique_ptr<WriteJournal> journal;

 private:
  KeptFile* find(const std::string& name);
  const KeptFile* find(const std::string& name) const { return const_cast<KeptMemory*>(this)->find(name); }
  Result<os::Memfd> take(const std::string& name);
  Result<void> keep_journal(const WriteJournal& made);

  Keeper& keeper_;
  NodeRecord* record_ = nullptr;  // The same, for whoever moved it away.
  std::vector<KeptFile> files_;
};

}  // namespace yonder::node::internal
