#pragma once
// MemoryKeeper: a keeper in the same process: what one heap leaves, the next one finds.
// For tests, and for programs that restart an embedded node.
//
// Concurrency: as Keeper. Lifetime: outlives its heaps.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "yonder/node/keeper.h"

namespace yonder::node {

class MemoryKeeper final : public Keeper {
 public:
  Result<std::vector<KeptFile>> files() override {
    std::vector<KeptFile> out;
    for (const KeptFile& file : files_) {
      YONDER_TRY(copy, file.fd.duplicate());
      out.push_back({file.name, std::move(copy)});
    }
    return out;
  }
  Result<void> keep(const std::string& name, const os::Fd& file) override {
    YONDER_TRY(copy, file.duplicate());
    std::erase_if(files_, [&](const KeptFile& kept) { return kept.name == name; });
    files_.push_back({name, std::move(copy)});
    return {};
  }
  Result<void> forget_all() override {
    files_.clear();
    return {};
  }

  // For tests that change what is kept. Null: nothing of that name.
  const os::Fd* find(const std::string& name) const {
    const auto at = std::ranges::find(files_, name, &KeptFile::name);
    return at == files_.end() ? nullptr : &at->fd;
  }
  void forget(const std::string& name) {
    std::erase_if(files_, [&](const KeptFile& kept) { return kept.name == name; });
  }

 private:
  std::vector<KeptFile> files_;
};

}  // namespace yonder::node
