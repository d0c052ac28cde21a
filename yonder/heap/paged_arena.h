#pragma once
// PagedArena: malloc in a PagedSpace.
//
// Small objects (up to 32 KiB) come from spans, runs of pages cut into objects of one size
// class; each thread keeps a few free ones of each class, so that most calls take no lock.
// Larger ones are runs of pages of their own. Which objects of a span are free is a bitmap
// *outside* the space: allocating and freeing never touch far memory, and a freed page
// costs nothing, neither here nor there.
//
//   PagedArena arena(space);
//   void* object = arena.allocate(100);   // null: the space is full
//   arena.free(object);
//
// Concurrency: any thread; not in a signal handler. A thread's cached objects go back when
// it ends (or calls forget_thread()). Lifetime: the space outlives it; objects die with it.
// One arena per process may be used by threads at a time (the caches are the threads').

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "yonder/heap/paged_space.h"
#include "yonder/os/mapping.h"
#include "yonder/sync/spin_lock.h"

namespace yonder::heap {

namespace internal {
class PageRuns;
struct Span;
struct ThreadCache;
struct CentralClass;
}  // namespace internal

class PagedArena {
 public:
  // Errors: kOutOfMemory.
  static Result<std::unique_ptr<PagedArena>> create(PagedSpace& space);
  ~PagedArena();
  PagedArena(const PagedArena&) = delete;
  PagedArena& operator=(const PagedArena&) = delete;

  // At least `bytes`, aligned to 16 or to `alignment` (a power of two). Null: no room.
  void* allocate(std::size_t bytes, std::size_t alignment = 16);
  // The same, zeroed.
  void* allocate_zeroed(std::size_t bytes);
  // In place if the object is large enough or pages after it are free, else moved.
  // Null: no room; the object is as it was. Requires an object of this arena.
  void* reallocate(void* object, std::size_t bytes);
  // Requires an object of this arena.
  void free(void* object);
  std::size_t usable_bytes(const void* object) const;

  // Whole pages for mmap(); they are zero. Empty: no room.
  std::span<std::byte> map(std::size_t pages);
  // Any whole pages of what map() gave.
  void unmap(std::span<std::byte> pages);
  // Lengthens what map() gave, in place, if the pages after it are free.
  bool extend(std::span<std::byte> mapped, std::size_t pages);

  // What the calling thread keeps goes back to all.
  void forget_thread();

  // For fork(): between the two no other thread is inside.
  void lock_all() YONDER_NO_THREAD_SAFETY_ANALYSIS;
  void unlock_all() YONDER_NO_THREAD_SAFETY_ANALYSIS;

  std::size_t free_pages() const;

 private:
  explicit PagedArena(PagedSpace& space, os::Mapping spans);

  // Where things are.
  std::atomic<internal::Span*>* span_table() const;
  internal::Span* span_of(const void* object) const;
  void note_span(std::size_t first, std::size_t pages, internal::Span* span);
  std::size_t page_of(const void* object) const;
  std::span<std::byte> bytes_of(std::size_t first, std::size_t pages) const;

  // Small objects.
  internal::ThreadCache& cache();
  bool refill(internal::ThreadCache& cache, std::size_t size_class);
  void flush(internal::ThreadCache& cache, std::size_t size_class, std::size_t keep);
  // Requires the lock of the class.
  internal::Span* take_back(internal::CentralClass& central, void* object) YONDER_NO_THREAD_SAFETY_ANALYSIS;
  internal::Span* make_span(std::size_t size_class);
  void drop_span(internal::Span* span);

  // Large ones.
  void* allocate_large(std::size_t bytes, std::size_t alignment);
  bool resize_large(internal::Span& span, std::size_t bytes);

  PagedSpace& space_;
  const std::uint64_t number_;
  const os::Mapping spans_;  // A Span* per page.
  const std::unique_ptr<internal::PageRuns> runs_;
  const std::unique_ptr<internal::CentralClass[]> central_;
};

}  // namespace yonder::heap
