#pragma once
// NodeRecord: who a node is, in a file that outlives its process.
//
// The first of the files that a keeper holds. It says how the others are to be read;
// whoever adopts them compares it with its own options first. It also holds the little
// that cannot be worked out from the objects: the lengths of spans.
//
//   0       head: constant, with a checksum
//   2048    file numbers of the journal, and of the one before it
//   4096    file numbers of the superblocks, 8 bytes each: a file that was exchanged for
//           another is noticed
//   36864   length in units of the span that begins at unit n, 4 bytes each; 0: none.
//           Sparse: only what is used takes memory
//
// Whoever has the record open holds its lock (os/file_lock.h): a second process cannot
// adopt what a first one uses, and a process that is gone holds nothing.
//
// Concurrency: any thread; a span's length is set by whoever makes or ends it.
// Lifetime: the mapping lives as long as the record.

#include <atomic>
#include <cstdint>
#include <memory>

#include "yonder/base/result.h"
#include "yonder/node/block_table.h"
#include "yonder/node/header_word.h"
#include "yonder/node/size_class.h"
#include "yonder/os/file_lock.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"

namespace yonder::node::internal {

class NodeRecord {
 public:
  // What must be the same in the process that adopts.
  struct Shape {
    NodeId node;
    Validator validator = Validator::kReread;
    std::uint32_t frame_bytes = 0;
    bool whole_frame_blocks = false;
    std::uint64_t superblock_bytes = 0;
    std::uint64_t class_checksum = 0;  // Of all slot and frame sizes.
  };
  // What the first process chose, and the others go on with.
  struct Choice {
    std::uint64_t life = 0;  // Never 0; changes only when the objects are lost.
    std::uint64_t seed = 0;  // Of the object ids: their sequence goes on.
    BlockTable::Options table;
    std::uint64_t table_file = 0;  // Its number.
  };

  static Shape shape_of(NodeId node, const SizeClassOptions& options, const SizeClasses& classes,
                        std::uint64_t superblock_bytes);
  // A number that no other file of this machine has as long as this one lives.
  static Result<std::uint64_t> number_of(const os::Fd& file);

  // kOutOfMemory.
  static Result<std::unique_ptr<NodeRecord>> create(const Shape& shape, const Choice& choice);
  // kAlreadyExists: a process that lives uses this memory; kCorrupt: no record;
  // kUnsupported: of another format; kConfigInvalid: of a node with another shape (the
  // message says what differs).
  static Result<std::unique_ptr<NodeRecord>> adopt(os::Memfd memfd, const Shape& shape);

  const Choice& choice() const { return choice_; }
  const os::Fd& file() const { return memfd_.fd(); }

  // The journal may be exchanged for a larger one; until that is kept, the old one counts.
  void add_journal(std::uint64_t file_number);
  bool is_journal(std::uint64_t file_number) const;

  // Requires index < kMaxSuperblocks.
  static constexpr std::size_t kMaxSuperblocks = 4096;
  void set_superblock(std::size_t index, std::uint64_t file_number);
  std::uint64_t superblock(std::size_t index) const;

  void set_span(FrameId first, std::uint32_t units);
  std::uint32_t span(FrameId first) const;

 private:
  NodeRecord(os::Memfd memfd, os::Mapping mapping, os::FileLock lock, const Choice& choice);
  static Result<std::unique_ptr<NodeRecord>> open(os::Memfd memfd);

  os::Memfd memfd_;
  os::Mapping mapping_;
  os::FileLock lock_;
  Choice choice_;
  std::atomic<std::uint64_t>* const journals_;  // Two.
  std::atomic<std::uint64_t>* const superblocks_;
  std::atomic<std::uint32_t>* const spans_;
};

}  // namespace yonder::node::internal
