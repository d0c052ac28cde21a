#include "yonder/cache/key.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace yonder::cache {

std::uint64_t hash_of(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

}  // namespace yonder::cache
