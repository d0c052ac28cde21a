#pragma once
// WriteJournal: what a write is about to put into an object, until it is there.
//
// A process that is killed in the middle of a write leaves an object that is neither
// old nor new. So a heap that has a keeper notes each write first: whoever adopts the
// memory finds the object's header in state *writing* and either the note, with which
// it finishes the write, or none, which says that the payload was not touched yet. A
// write that was acknowledged is there in both cases; one that was not is done or not
// done, never half.
//
//   the writer                          killed after it, the object is
//   J1  header: live → writing          old
//   J2  note: bytes, place              old: the note does not count yet
//   J3  note: word                      new: the note is complete
//   J4  payload                         new: written again, from the note
//   J5  header: written, live           new
//   J6  note: word 0                    new
//
// A note counts only if its word is the one that the header found in *writing* would
// get by being written: home, id and version, so no note of another write fits.
//
// One lane per thread. Its memory is a sparse file as large as the largest object; what
// a large write used is given back when it has ended.
//
// Order. The reader is another process, after the death of this one: every processor
// had stopped between two instructions, and what came before in each thread had
// happened. So the order that counts is the compiler's, which the release stores fix.
//
// Concurrency: a lane by its thread. Lifetime: lanes are views of the journal.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "yonder/base/result.h"
#include "yonder/node/header_word.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"

namespace yonder::node::internal {

class WriteJournal {
 public:
  // A write that was under way.
  struct Note {
    HeaderWord word;  // What the header becomes.
    FrameId frame;
    std::uint32_t slot = 0;
    std::span<const std::byte> data;
  };

  // A thread's: as cheap as copying the bytes once more.
  class Lane {
   public:
    Lane(WriteJournal& of, std::byte* memory) : of_(of), memory_(memory) {}
    // J2, J3. Requires data.size() ≤ kMaxObjectBytes.
    void begin(const Note& note) {
      if (!note.data.empty()) std::memcpy(memory_ + kDataAt, note.data.data(), note.data.size());
      field(kPlace).store(std::uint64_t{note.frame.value()} << kSlotBits | note.slot,
                          std::memory_order_relaxed);
      field(kBytes).store(note.data.size(), std::memory_order_relaxed);
      field(kWord).store(note.word.bits(), std::memory_order_release);
      // J3 comes before J4.
      std::atomic_thread_fence(std::memory_order_release);
    }
    // J6.
    void end() {
      field(kWord).store(0, std::memory_order_release);
      if (field(kBytes).load(std::memory_order_relaxed) > kKeptBytes) [[unlikely]]
        of_.give_back(*this);
    }

   private:
    friend class WriteJournal;
    enum Field : std::size_t { kWord = 0, kPlace = 8, kBytes = 16 };
    std::atomic_ref<std::uint64_t> field(Field at) const {
      return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(memory_ + at));
    }
    WriteJournal& of_;
    std::byte* const memory_;
  };

  // For so many threads. kOutOfMemory.
  static Result<std::unique_ptr<WriteJournal>> create(std::uint32_t lanes);
  // One that another process left, to be read. kCorrupt: it is none.
  static Result<std::unique_ptr<WriteJournal>> adopt(os::Memfd memfd);

  std::uint32_t lane_count() const { return lanes_; }
  // Requires index < lane_count().
  Lane lane(std::uint32_t index) { return {*this, mapping_.data() + index * kLaneBytes}; }
  // What lane `index` says: a note whose word is free if there is none. Its bytes are a
  // stranger's: the place may be anything, the data lies in the lane.
  Note note(std::uint32_t index);
  const os::Fd& file() const { return memfd_.fd(); }

 private:
  static constexpr std::size_t kDataAt = 64;
  static constexpr std::size_t kLaneBytes = kMaxObjectBytes + 4096;
  static constexpr std::size_t kKeptBytes = 256 << 10;  // A lane keeps so much memory.

  WriteJournal(os::Memfd memfd, os::Mapping mapping)
      : memfd_(std::move(memfd)),
        mapping_(std::move(mapping)),
        lanes_(static_cast<std::uint32_t>(mapping_.size() / kLaneBytes)) {}
  static Result<std::unique_ptr<WriteJournal>> open(os::Memfd memfd);
  void give_back(const Lane& lane);

  os::Memfd memfd_;
  os::Mapping mapping_;
  const std::uint32_t lanes_;
};

}  // namespace yonder::node::internal
