#pragma once
// AbsentStay: a stay of a page on the node, as somebody saw it.
//
// What was read of an absent page is right as long as the page is absent, in the same stay and in the
// same slot: absent pages do not change (but for the one that is just being filled there, which its
// users look after). So the whole entry is compared. Its stamp counts 255 stays and begins again; a
// new stay of a page needs a barrier of the egress since the last one, so what is less than 255
// barriers old cannot be mistaken for a later stay.
//
// Concurrency and lifetime: a value. Who asks holds the page.

#include <cstdint>

#include "yonder/heap/internal/page_entry.h"

namespace yonder::heap::internal {

struct AbsentStay {
  PageEntry entry;
  std::uint64_t barriers = 0;  // How many there had been before the page was read.

  bool is_still(PageEntry now, std::uint64_t barriers_now) const {
    return entry == now && barriers_now - barriers < kMaxBarriers;
  }

 private:
  static constexpr std::uint64_t kMaxBarriers = 255;
};

}  // namespace yonder::heap::internal
