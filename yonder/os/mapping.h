#pragma once
// Mapping: a range of this process's address space that we own.
//
// It is made in one of three ways: anonymous memory, a piece of a file or memfd,
// or a reservation (address space without memory) into which pieces are mapped
// later. Parts of it can be replaced, protected and advised; at the end the
// whole range is unmapped in one go.
//
// Offsets and lengths given to the member functions are bytes from the start of
// the mapping, must be multiples of the page size, and must lie inside it:
// otherwise kInvalidArgument, and nothing has changed.
//
// Concurrency: the kernel orders the calls; but whoever replaces or protects a
// range must know that no other thread relies on its old state.
// Lifetime: unmaps in the destructor; move-only; moving keeps the address.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/os/fd.h"

namespace yonder::os {

inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t n, std::size_t granule) {
  return (n + granule - 1) / granule * granule;
}
constexpr std::size_t round_down(std::size_t n, std::size_t granule) { return n / granule * granule; }

// How many mappings this process may have (vm.max_map_count); the system's default if it
// does not say.
std::uint64_t max_mappings();

enum class Protection : std::uint8_t { kNone, kRead, kReadWrite };

struct AnonymousOptions {
  std::size_t bytes = 0;  // Rounded up to pages.
  Protection protection = Protection::kReadWrite;
  bool shared = false;    // Shared with children made by fork.
  bool populate = false;  // Allocate the pages now.
  void* at = nullptr;     // Exactly there, or kAlreadyExists.
};

struct FileMappingOptions {
  std::size_t offset = 0;  // In the file; a multiple of its page size.
  std::size_t bytes = 0;   // Rounded up to the file's pages (2 MiB for a huge-page memfd).
  Protection protection = Protection::kRead;
  bool shared = true;     // false: copy on write.
  bool populate = false;  // Fill the page table now: a first touch costs up to 4 µs per page later.
  void* at = nullptr;     // Exactly there, or kAlreadyExists.
};

struct ReserveOptions {
  std::size_t bytes = 0;
  std::size_t alignment = kPageBytes;  // A power of two, at least a page. Ignored if `at` is given.
  void* at = nullptr;                  // Exactly there, or kAlreadyExists.
};

class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { reset(); }

  // All makers. Errors: kInvalidArgument (no bytes, bad alignment or offset),
  // kAlreadyExists (`at` overlaps a mapping), kOutOfMemory (memory, address
  // space or the limit on the number of mappings), kPermissionDenied (writable
  // mapping of a read-only or sealed file).
  static Result<Mapping> anonymous(const AnonymousOptions& options);
  static Result<Mapping> of_file(const Fd& fd, const FileMappingOptions& options);
  static Result<Mapping> reserve(const ReserveOptions& options);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool valid() const { return data_ != nullptr; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  // Requires offset + length <= size() (checked).
  std::span<std::byte> bytes(std::size_t offset, std::size_t length) const;
  bool contains(const void* address) const;
  // Unmaps now.
  void reset();
  // Gives the range to the caller, who now unmaps it.
  [[nodiscard]] std::span<std::byte> release();

  // Replaces options.bytes bytes at `offset` by a piece of a file, atomically for
  // other threads: each access sees the old or the new page. `options.at` must be null.
  Result<void> remap_file(std::size_t offset, const Fd& fd, const FileMappingOptions& options);
  // Replaces the range by fresh zeroed private memory.
  Result<void> remap_anonymous(std::size_t offset, std::size_t length);
  // Turns the range back into a bare reservation; its private memory is freed.
  Result<void> remap_reserved(std::size_t offset, std::size_t length);

  // Moves the pages of a part, page tables and all, into `room` (a reservation of exactly
  // that length), and leaves a hole behind: from then on every access to the part faults.
  // Takes the same time for 1 MiB and 64 GiB (some ten microseconds) if both places are
  // aligned to 1 GiB and the part covers one mapping; mprotect would change every page.
  // Returns the mapping that has the pages now. The hole is the caller's to fill, by
  // reserve_hole() or one of the above: until then the kernel may give it to whoever asks
  // for just that place.
  // Errors: kInvalidArgument, kOutOfMemory; the part is as it was, the room is lost.
  Result<Mapping> move_out(std::size_t offset, std::size_t length, Mapping room);
  // Makes a hole a reservation again. kAlreadyExists: there is no hole, or not everywhere;
  // nothing has changed.
  Result<void> reserve_hole(std::size_t offset, std::size_t length);

  Result<void> protect(std::size_t offset, std::size_t length, Protection protection);
  // Drops the pages: private memory reads as zero again, file pages are re-read.
  Result<void> drop_pages(std::size_t offset, std::size_t length);
  // Asks for transparent huge pages. kUnsupported if the kernel was built without.
  Result<void> prefer_huge_pages(std::size_t offset, std::size_t length);
  // Children made by fork do not get the range: an access there faults.
  Result<void> keep_from_children(std::size_t offset, std::size_t length);
  // Allocates the pages for writing / fills the page table for reading, now.
  // Errors: kOutOfMemory, and kOsError with EFAULT past the end of a file.
  Result<void> populate_write(std::size_t offset, std::size_t length);
  Result<void> populate_read(std::size_t offset, std::size_t length);

 private:
  Mapping(void* data, std::size_t size) : data_(static_cast<std::byte*>(data)), size_(size) {}
  Result<void> check_range(std::size_t offset, std::size_t length) const;
  Result<void> replace(std::size_t offset, std::size_t length, int protection, int flags, int fd,
                       std::size_t file_offset);
  Result<void> advise(std::size_t offset, std::size_t length, int advice, const char* call);

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace yonder::os
