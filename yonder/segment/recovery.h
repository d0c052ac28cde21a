#pragma once
// attempt(): touches memory of an arriving segment and lives to tell.
//
//   const Result<void> looked = segment::attempt([&] { value = map->find(key)->second; });
//   if (!looked) …  // kSegmentLost: its source died before the page had arrived
//
// A load cannot return an error. If the source of a segment dies before all pages have
// arrived, a touch of a missing one ends the program, unless it is made inside attempt():
// then the thread leaves `act` at that point, without destructors, and attempt() returns
// kSegmentLost. So `act` should hold nothing that must be given back: copy out, or change
// the segment itself, which is then to be dropped as a whole.
//
// Concurrency: any thread; may be nested. Costs two loads, two stores and a setjmp.

#include <setjmp.h>

#include <utility>

#include "yonder/base/result.h"

namespace yonder::segment {

namespace internal {

// Where this thread goes on when it touches a page that is lost: innermost first.
struct RecoveryPoint {
  sigjmp_buf place;
  RecoveryPoint* outer;
};
RecoveryPoint*& current_recovery();

}  // namespace internal

template <typename Act>
Result<void> attempt(Act&& act) {
  internal::RecoveryPoint*& current = internal::current_recovery();
  internal::RecoveryPoint point{.place = {}, .outer = current};
  // 0: the signal mask is put right by the handler, not by a system call here.
  if (sigsetjmp(point.place, 0) != 0) {
    internal::current_recovery() = point.outer;
    return fail(ErrorCode::kSegmentLost, "touch a page that did not arrive");
  }
  current = &point;
  std::forward<Act>(act)();
  current = point.outer;
  return {};
}

}  // namespace yonder::segment
