#include "yonder/heap/paged_arena.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/heap/internal/arena_parts.h"
#include "yonder/heap/internal/page_runs.h"

namespace yonder::heap {
namespace {

using internal::cache_capacity;
using internal::CentralClass;
using internal::class_bytes;
using internal::class_of;
using internal::kClasses;
using internal::kMaxSmallBytes;
using internal::Span;
using internal::ThreadCache;

// Arenas have numbers, so that a thread knows whose objects it keeps.
std::atomic<std::uint64_t> next_arena{1};
// The arena that ending threads give their objects to.
std::atomic<PagedArena*> current_arena{nullptr};

thread_local constinit ThreadCache* thread_cache = nullptr;

void end_of_thread(void*) {
  if (PagedArena* arena = current_arena.load(std::memory_order_acquire); arena != nullptr)
    arena->forget_thread();
  delete std::exchange(thread_cache, nullptr);
}

// A key of pthread and not a thread_local with a destructor: it runs after those, which
// may still free, and again if they did.
pthread_key_t thread_key() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    YONDER_CHECK(::pthread_key_create(&made, &end_of_thread) == 0, "a process has room for one more key");
    return made;
  }();
  return key;
}

constexpr std::size_t pages_for(std::size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

}  // namespace

Result<std::unique_ptr<PagedArena>> PagedArena::create(PagedSpace& space) {
  const std::size_t pages = space.memory().size() / kPageBytes;
  YONDER_TRY(spans, os::Mapping::anonymous({.bytes = pages * sizeof(Span*)}));
  return std::unique_ptr<PagedArena>(new PagedArena(space, std::move(spans)));
}

PagedArena::PagedArena(PagedSpace& space, os::Mapping spans)
    : space_(space),
      number_(next_arena.fetch_add(1, std::memory_order_relaxed)),
      spans_(std::move(spans)),
      runs_(std::make_unique<internal::PageRuns>(space.memory().size() / kPageBytes)),
      central_(std::make_unique<CentralClass[]>(kClasses)) {
  current_arena.store(this, std::memory_order_release);
}

PagedArena::~PagedArena() {
  PagedArena* self = this;
  current_arena.compare_exchange_strong(self, nullptr, std::memory_order_acq_rel);
  const std::size_t pages = space_.memory().size() / kPageBytes;
  for (std::size_t page = 0; page < pages;) {
    const std::unique_ptr<Span> span(span_table()[page].load(std::memory_order_relaxed));
    page += span != nullptr ? span->pages : 1;
  }
}

// ---------------------------------------------------------------- where things are

std::size_t PagedArena::page_of(const void* object) const {
  return static_cast<std::size_t>(static_cast<const std::byte*>(object) - space_.memory().data()) /
         kPageBytes;
}
std::span<std::byte> PagedArena::bytes_of(std::size_t first, std::size_t pages) const {
  return space_.memory().subspan(first * kPageBytes, pages * kPageBytes);
}
std::atomic<Span*>* PagedArena::span_table() const {
  return reinterpret_cast<std::atomic<Span*>*>(spans_.data());
}

Span* PagedArena::span_of(const void* object) const {
  // relaxed: the object came to this thread by other ways, and its span before it.
  Span* span = span_table()[page_of(object)].load(std::memory_order_relaxed);
  YONDER_CHECK(span != nullptr, "an object of far memory that is in use");
  return span;
}

void PagedArena::note_span(std::size_t first, std::size_t pages, Span* span) {
  for (std::size_t i = 0; i < pages; ++i) span_table()[first + i].store(span, std::memory_order_relaxed);
}

std::size_t PagedArena::free_pages() const { return runs_->free_pages(); }

// ---------------------------------------------------------------- small objects

ThreadCache& PagedArena::cache() {
  if (thread_cache == nullptr) [[unlikely]] {
    thread_cache = new ThreadCache;
    ::pthread_setspecific(thread_key(), thread_cache);
  }
  if (thread_cache->arena != number_) [[unlikely]] {
    // What it kept was of an arena that is no more.
    thread_cache->arena = number_;
    thread_cache->counts.fill(0);
  }
  return *thread_cache;
}

Span* PagedArena::make_span(std::size_t size_class) {
  const std::size_t pages = internal::class_pages(size_class);
  const auto first = runs_->take(pages);
  if (!first) return nullptr;
  auto* span =
      new Span{.first = *first, .pages = pages, .size_class = static_cast<std::uint32_t>(size_class)};
  span->capacity = static_cast<std::uint32_t>(pages * kPageBytes / class_bytes(size_class));
  span->bits.resize((span->capacity + 63) / 64);
  for (std::uint32_t i = 0; i < span->capacity; ++i) (void)span->give(i);
  note_span(*first, pages, span);
  space_.populate(bytes_of(*first, pages));
  return span;
}

void PagedArena::drop_span(Span* span) {
  note_span(span->first, span->pages, nullptr);
  space_.discard(bytes_of(span->first, span->pages));
  runs_->give(span->first, span->pages);
  delete span;
}

// Fills half of the cache. The span's pages are made without the lock of the class: that
// takes system calls, and may wait for room.
bool PagedArena::refill(ThreadCache& cache, std::size_t size_class) {
  CentralClass& central = central_[size_class];
  for (;;) {
    {
      const sync::SpinGuard guard(central.lock);
      const std::size_t wanted = cache_capacity(size_class) / 2;
      while (central.head != nullptr && cache.counts[size_class] < wanted) {
        Span* span = central.head;
        if (span->free == span->capacity) --central.empty;
        while (span->free != 0 && cache.counts[size_class] < wanted) {
          cache.push(size_class, space_.memory().data() + span->first * kPageBytes +
                                     span->take() * class_bytes(size_class));
        }
        if (span->free == 0) central.remove(span);
      }
      if (cache.counts[size_class] != 0) return true;
    }
    Span* made = make_span(size_class);
    if (made == nullptr) return false;
    const sync::SpinGuard guard(central.lock);
    central.push(made);
    ++central.empty;
  }
}

// Gives one object back to its span; the span, if it is to be dropped.
Span* PagedArena::take_back(CentralClass& central, void* object) {
  Span* span = span_of(object);
  const std::size_t offset =
      static_cast<std::size_t>(static_cast<std::byte*>(object) - space_.memory().data()) -
      span->first * kPageBytes;
  const bool was_full = span->free == 0;
  const bool was_used = span->give(static_cast<std::uint32_t>(offset / class_bytes(span->size_class)));
  YONDER_CHECK(was_used, "an object of far memory is freed once");
  if (was_full) central.push(span);
  if (span->free != span->capacity) return nullptr;
  if (central.empty == 0) {
    ++central.empty;
    return nullptr;
  }
  central.remove(span);
  return span;
}

void PagedArena::flush(ThreadCache& cache, std::size_t size_class, std::size_t keep) {
  CentralClass& central = central_[size_class];
  while (cache.counts[size_class] > keep) {
    Span* dropped = nullptr;
    {
      const sync::SpinGuard guard(central.lock);
      while (cache.counts[size_class] > keep && dropped == nullptr) {
        dropped = take_back(central, cache.pop(size_class));
      }
    }
    if (dropped != nullptr) drop_span(dropped);
  }
}

void PagedArena::forget_thread() {
  if (thread_cache == nullptr || thread_cache->arena != number_) return;
  for (std::size_t size_class = 0; size_class < kClasses; ++size_class) flush(*thread_cache, size_class, 0);
}

// ---------------------------------------------------------------- objects

void* PagedArena::allocate(std::size_t bytes, std::size_t alignment) {
  bytes = std::max<std::size_t>(bytes, 1);
  if (bytes > kMaxSmallBytes || alignment > kPageBytes) return allocate_large(bytes, alignment);
  std::size_t size_class = class_of(bytes);
  // Spans start at pages, so an object is aligned if its size is.
  while (alignment > 16 && size_class < kClasses && class_bytes(size_class) % alignment != 0) ++size_class;
  if (size_class == kClasses) return allocate_large(bytes, alignment);
  ThreadCache& mine = cache();
  if (mine.counts[size_class] == 0 && !refill(mine, size_class)) return nullptr;
  return mine.pop(size_class);
}

void* PagedArena::allocate_large(std::size_t bytes, std::size_t alignment) {
  if (bytes > space_.memory().size()) return nullptr;
  const std::size_t pages = pages_for(bytes);
  const auto first = runs_->take(pages, std::max<std::size_t>(alignment / kPageBytes, 1));
  if (!first) return nullptr;
  note_span(*first, pages, new Span{.first = *first, .pages = pages});
  return space_.memory().data() + *first * kPageBytes;
}

void* PagedArena::allocate_zeroed(std::size_t bytes) {
  void* object = allocate(bytes);
  // Large ones are fresh pages, which are zero.
  if (object != nullptr && bytes <= kMaxSmallBytes) std::memset(object, 0, bytes);
  return object;
}

void PagedArena::free(void* object) {
  Span* span = span_of(object);
  if (span->size_class == Span::kLarge) {
    YONDER_CHECK(page_of(object) == span->first, "free what was allocated");
    return drop_span(span);
  }
  ThreadCache& mine = cache();
  if (mine.counts[span->size_class] == cache_capacity(span->size_class)) {
    flush(mine, span->size_class, cache_capacity(span->size_class) / 2);
  }
  mine.push(span->size_class, object);
}

std::size_t PagedArena::usable_bytes(const void* object) const {
  const Span* span = span_of(object);
  return span->size_class == Span::kLarge ? span->pages * kPageBytes : class_bytes(span->size_class);
}

// Whether a large object has the new size now, where it is.
bool PagedArena::resize_large(Span& span, std::size_t bytes) {
  const std::size_t pages = pages_for(bytes);
  if (pages > span.pages) {
    if (!runs_->take_at(span.first + span.pages, pages - span.pages)) return false;
    note_span(span.first + span.pages, pages - span.pages, &span);
  } else if (pages < span.pages) {
    const std::size_t tail = span.first + pages;
    note_span(tail, span.pages - pages, nullptr);
    space_.discard(bytes_of(tail, span.pages - pages));
    runs_->give(tail, span.pages - pages);
  }
  span.pages = pages;
  return true;
}

void* PagedArena::reallocate(void* object, std::size_t bytes) {
  Span* span = span_of(object);
  const std::size_t before = usable_bytes(object);
  const bool is_large = span->size_class == Span::kLarge;
  if (is_large && bytes > kMaxSmallBytes && resize_large(*span, bytes)) return object;
  // Small ones move only if they do not fit, or would waste more than half.
  if (!is_large && bytes <= before && bytes >= before / 2) return object;
  void* moved = allocate(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, object, std::min(before, bytes));
  free(object);
  return moved;
}

// ---------------------------------------------------------------- whole pages

std::span<std::byte> PagedArena::map(std::size_t pages) {
  const auto first = runs_->take(pages);
  if (!first) return {};
  return bytes_of(*first, pages);
}

void PagedArena::unmap(std::span<std::byte> pages) {
  space_.discard(pages);
  runs_->give(page_of(pages.data()), pages.size() / kPageBytes);
}

bool PagedArena::extend(std::span<std::byte> mapped, std::size_t pages) {
  return runs_->take_at(page_of(mapped.data()) + mapped.size() / kPageBytes, pages);
}

// ---------------------------------------------------------------- fork

// Not analysed: a lock per class, in order, and that of the runs last, as everywhere.
void PagedArena::lock_all() {
  for (std::size_t i = 0; i < kClasses; ++i) central_[i].lock.lock();
  runs_->lock();
}
void PagedArena::unlock_all() {
  runs_->unlock();
  for (std::size_t i = 0; i < kClasses; ++i) central_[i].lock.unlock();
}

}  // namespace yonder::heap
