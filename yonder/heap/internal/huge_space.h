#pragma once
// HugeSpace: where objects over a page live. Runs of whole pages of a PagedSpace.
//
// It has far memory and a local budget of its own (HeapOptions::huge, huge_local): frames of
// the heap are given out by page, and cannot be neighbours for long.
//
// Concurrency: any thread. Lifetime: every run was freed before it goes (checked).

#include <cstddef>
#include <memory>
#include <span>

#include "yonder/base/result.h"
#include "yonder/heap/heap.h"
#include "yonder/heap/internal/page_runs.h"
#include "yonder/heap/paged_space.h"

namespace yonder::heap::internal {

class HugeSpace {
 public:
  // Errors: kInvalidArgument (sizes), those of PagedSpace and of reaching the node.
  static Result<std::unique_ptr<HugeSpace>> create(const HeapOptions& options);
  ~HugeSpace();
  HugeSpace(const HugeSpace&) = delete;
  HugeSpace& operator=(const HugeSpace&) = delete;

  // Whole pages that are zero. kOutOfMemory: no run of free pages is so long.
  Result<std::byte*> allocate(std::size_t bytes);
  // Requires what allocate() gave, and that nobody touches it any more.
  void free(std::byte* memory, std::size_t bytes);

  PagedSpace& pages() { return *pages_; }
  const PagedSpace& pages() const { return *pages_; }
  // A child of fork() has no memory at these addresses.
  bool is_of_this_process() const;

 private:
  explicit HugeSpace(std::unique_ptr<PagedSpace> pages);

  const int process_;
  std::unique_ptr<PagedSpace> pages_;
  PageRuns runs_;
};

// The heap's, if it has one. Like g_runtime: far pointers do not know their heap.
inline constinit HugeSpace* g_huge = nullptr;

}  // namespace yonder::heap::internal
