#pragma once
// Keeper: somebody who holds a node's memory while the node is away.
//
// Memory in memfds lives as long as somebody has a descriptor of it. A node that is
// given a keeper hands it each of its files when it makes them, so that another
// process can go on with the same objects: a new version of the daemon, or the same one
// after it was killed. What a node keeps besides the objects themselves it can work out
// again from them (internal/adoption.h).
//
//   file      what it holds
//   record    who the node is, how its memory is laid out (internal/node_record.h)
//   blocks    the block table
//   journal   writes under way (internal/write_journal.h)
//   super.N   superblock N
//
// A keeper holds descriptors and knows nothing about what is in them; that only one
// process uses the memory is seen to by a lock on the record, which ends with its
// holder, and not by the keeper. KeeperClient (keeper_client.h) talks to yonder-keeper;
// yonderd can use systemd instead.
//
// Concurrency: one call at a time. Lifetime: outlives the heaps that use it.

#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/os/fd.h"

namespace yonder::node {

struct KeptFile {
  std::string name;
  os::Fd fd;
};

class Keeper {
 public:
  virtual ~Keeper() = default;
  // Everything that is kept for this node, in any order; it stays kept.
  virtual Result<std::vector<KeptFile>> files() = 0;
  // Keeps a file under a name, in place of what had that name. The caller's
  // descriptor stays the caller's.
  virtual Result<void> keep(const std::string& name, const os::Fd& file) = 0;
  // Keeps nothing for this node any more.
  virtual Result<void> forget_all() = 0;
  // Now and then: hands everything over again if the keeper has lost it.
  virtual Result<void> refresh() { return {}; }
};

}  // namespace yonder::node
