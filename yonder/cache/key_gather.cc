#include <algorithm>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/cache/command_line.h"
#include "yonder/cache/internal/key_gather.h"
#include "yonder/cache/numbers.h"

namespace yonder::cache {
namespace {

constexpr std::string_view kEnd = "END\r\n";
constexpr std::string_view kNoAnswer = "SERVER_ERROR the owner of the key does not answer\r\n";

// The VALUE block of this key at the front of `text`, with its value; empty if it is not there.
std::string_view block_of(std::string_view text, std::string_view key) {
  const std::string_view line = text.substr(0, text.find("\r\n"));
  const CommandLine words(line);
  if (line.size() == text.size() || words[0] != "VALUE" || words[1] != key) return {};
  const std::optional<std::uint32_t> bytes = parse_u32(words[3]);
  const std::size_t size = line.size() + 2 + bytes.value_or(0) + 2;
  return bytes && size <= text.size() ? text.substr(0, size) : std::string_view();
}

}  // namespace

void KeyGather::add_elsewhere(std::string_view key, std::size_t partition, const std::string& owner) {
  const std::size_t place = entries_.size();
  entries_.push_back({.key = std::string(key)});
  // An owner that is not known is looked up again by partition.
  auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& one) {
    const bool same = owner.empty() ? one.partition == partition : one.owner == owner;
    return same && one.key_bytes + key.size() <= kMaxGroupBytes;
  });
  if (group == groups_.end()) {
    groups_.push_back({.owner = owner, .partition = partition});
    group = groups_.end() - 1;
  }
  group->members.push_back(place);
  group->key_bytes += key.size();
}

std::string KeyGather::keys_of(std::size_t group) const {
  std::string keys;
  for (const std::size_t place : groups_[group].members) keys.append(" ").append(entries_[place].key);
  return keys;
}

void KeyGather::answer(std::size_t group, std::optional<std::string_view> reply) {
  Group& answered = groups_[group];
  YONDER_CHECK(answered.waits, "a group is answered once");
  answered.waits = false;
  std::string_view rest = reply.value_or(kNoAnswer);
  std::size_t after_last = 0;
  for (std::size_t i = 0; i < answered.members.size(); ++i) {
    Entry& entry = entries_[answered.members[i]];
    const std::string_view block = block_of(rest, entry.key);
    if (block.empty()) continue;
    entry.block = block;
    rest.remove_prefix(block.size());
    after_last = i + 1;
  }
  if (rest == kEnd) return;
  const std::size_t failed = std::min(after_last, answered.members.size() - 1);
  entries_[answered.members[failed]].error = std::string(rest);
}

std::size_t KeyGather::regroup(std::size_t place, std::size_t partition) {
  groups_.push_back({.partition = partition, .members = {place}, .key_bytes = entries_[place].key.size()});
  return groups_.size() - 1;
}

bool KeyGather::complete() const {
  return std::none_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.waits; });
}

bool KeyGather::write(Output& out) const {
  for (const Entry& entry : entries_) {
    out.append(entry.block);
    if (!entry.error) continue;
    out.append(*entry.error);
    return false;
  }
  return true;
}

}  // namespace yonder::cache
