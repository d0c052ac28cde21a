#pragma once
// KeyGather: the keys of one get of which some belong to other servers.
//
// Keys of one owner go to it in one request, and all owners are asked at once; what they
// answer is put together here, so that the client gets its values in the order of its keys.
//
//   get a b c d e        a   here
//                        b ┐ group 0: "get b d" to one server
//                        c │ ┐ group 1: "get c e" to another
//                        d ┘ │
//                        e   ┘
//
//   group     answer(reply)     answer(nothing)   end()
//   waits     has its values    failed            gone: its keys were found, or regrouped
//
// Bounds: kMaxKeys of a line at a time, kMaxGroupBytes of keys per request, so that it is a
// line that every command may have.
//
// Concurrency: one thread. Lifetime: a value; it has copies of the keys.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yonder/cache/output.h"

namespace yonder::cache {

class KeyGather {
 public:
  static constexpr std::size_t kMaxKeys = 64;
  static constexpr std::size_t kMaxGroupBytes = 1500;

  struct Group {
    std::string owner;
    std::size_t partition = 0;         // Of its first key.
    std::vector<std::size_t> members;  // Places in the line.
    std::size_t key_bytes = 0;
    bool waits = true;
  };

  bool full() const { return entries_.size() >= kMaxKeys; }
  // A key whose value is known: its VALUE block, or nothing if there is none.
  void add_here(std::string_view block) { entries_.push_back({.block = std::string(block)}); }
  void add_elsewhere(std::string_view key, std::size_t partition, const std::string& owner);

  std::size_t groups() const { return groups_.size(); }
  const Group& group(std::size_t index) const { return groups_[index]; }
  std::string_view key(std::size_t place) const { return entries_[place].key; }
  // " key key …"
  std::string keys_of(std::size_t group) const;

  // What the owner said: VALUE blocks and END, or an error behind them. Nothing: nobody
  // answered. Requires that the group waits.
  void answer(std::size_t group, std::optional<std::string_view> reply);
  // One key of a group, whose value turned out to be here.
  void set_block(std::size_t place, std::string_view block) { entries_[place].block = block; }
  // The group needs no answer any more.
  void end(std::size_t group) { groups_[group].waits = false; }
  // One key becomes a group of its own, because its owner is another by now. Its number.
  std::size_t regroup(std::size_t place, std::size_t partition);

  bool complete() const;
  // The values in the order of the keys. False: an error took the place of the rest.
  bool write(Output& out) const;

 private:
  struct Entry {
    std::string key = {};
    std::string block = {};
    std::optional<std::string> error = {};  // What is said instead of it and all that follows.
  };

  std::vector<Entry> entries_;
  std::vector<Group> groups_;
};

}  // namespace yonder::cache
